/**
 * The gate: every call of every route with an action passes it, since it is built from the route table. It decides whether
 * the caller may do the action, answers a call that was made before (see `idempotency.ts`), and ends the call when its key
 * is revoked.
 */
import {
  type Caller,
  ROUTE_NAMES,
  ROUTES,
  type Route,
  type RouteName,
  takesIdempotencyKey,
  type UseCases,
} from '@space/contract';
import { ACTIONS, type Action, AppError, authorise, type Resource, unreachable } from '@space/core';
import type { IdempotentCalls } from './idempotency.ts';
import type { KeyWatch } from './key-watch.ts';

/** The routes that the gate is in front of; the others are open. */
export type GatedName = Exclude<keyof UseCases, 'readiness'>;
export type GatedUseCases = Pick<UseCases, GatedName>;

type AnyUseCase = (caller: Caller, ...rest: unknown[]) => unknown;

export class Gate {
  readonly #keys: KeyWatch;
  readonly #calls: IdempotentCalls;

  constructor(keys: KeyWatch, calls: IdempotentCalls) {
    this.#keys = keys;
    this.#calls = calls;
  }

  /** The use-cases, each behind the gate. */
  guard(useCases: GatedUseCases): GatedUseCases {
    const guarded = GATED.map((name) => [name, this.#guardOne(name, useCases[name].bind(useCases) as AnyUseCase)]);
    return Object.fromEntries(guarded) as GatedUseCases;
  }

  #guardOne(name: GatedName, useCase: AnyUseCase): AnyUseCase {
    const route: Route = ROUTES[name];
    const { action, response } = route;
    const isOnce = takesIdempotencyKey(route);
    if (action === undefined) throw new Error(`the route ${name} has no action`);
    if (response.kind === 'ndjson') {
      return (caller, ...rest) =>
        this.#stream(action, caller, (inner) => useCase(inner, ...rest) as AsyncIterable<unknown>);
    }
    return async (caller, ...rest) => {
      checkAllowed(caller, action);
      const { signal, leave } = this.#keys.enter(caller.principal.apiKeyId);
      const inner = { ...caller, signal: AbortSignal.any([caller.signal, signal]) };
      try {
        const work = async () => useCase(inner, ...rest);
        return await (isOnce ? this.#calls.once(name, inner, rest[0], work) : work());
      } finally {
        leave();
      }
    };
  }

  /** Nothing is done before the first item is asked for; so that is when the decision is made. */
  #stream<T>(action: Action, caller: Caller, start: (caller: Caller) => AsyncIterable<T>): AsyncIterable<T> {
    return {
      [Symbol.asyncIterator]: () => {
        const { signal, leave } = this.#keys.enter(caller.principal.apiKeyId);
        let inner: AsyncIterator<T> | undefined;
        return {
          async next() {
            try {
              if (inner === undefined) {
                checkAllowed(caller, action);
                const both = AbortSignal.any([caller.signal, signal]);
                inner = start({ ...caller, signal: both })[Symbol.asyncIterator]();
              }
              const item = await inner.next();
              if (item.done && signal.aborted) throw signal.reason;
              if (item.done) leave();
              return item;
            } catch (thrown) {
              leave();
              throw signal.aborted ? signal.reason : thrown;
            }
          },
          async return() {
            leave();
            await inner?.return?.();
            return { done: true, value: undefined };
          },
        };
      },
    };
  }
}

const GATED: readonly GatedName[] = ROUTE_NAMES.filter(isGated);

function isGated(name: RouteName): name is GatedName {
  const route: Route = ROUTES[name];
  return route.action !== undefined;
}

function checkAllowed(caller: Caller, action: Action): void {
  const decision = authorise(caller.principal, action, resourceOf(caller, action));
  if (decision.allowed) return;
  const { roles } = caller.principal;
  throw decision.code === 'not_found'
    ? new AppError('not_found', 'There is no such project.')
    : new AppError('forbidden', {
        detail: `The key has the roles ${roles.join(', ')}; none allows ${action} here.`,
        facts: { action },
      });
}

function resourceOf({ principal: { organisationId }, projectId }: Caller, action: Action): Resource {
  const kind = ACTIONS[action];
  switch (kind) {
    case 'installation':
      return { kind };
    case 'organisation':
      return { kind, organisationId };
    case 'project':
      return { kind, organisationId, projectId };
    default:
      return unreachable(kind);
  }
}
