/**
 * The gate: every call of every route with an action passes it, since it is built from the route table. It decides whether
 * the caller may do the action, records that it is done before it is, answers a call that was made before (see
 * `idempotency.ts`), and ends the call when its key is revoked.
 */
import {
  type Caller,
  type OpenFile,
  ROUTE_NAMES,
  ROUTES,
  type Route,
  type RouteName,
  takesIdempotencyKey,
  type UseCases,
} from '@space/contract';
import {
  ACTIONS,
  type Action,
  type ApiKeyId,
  AppError,
  authorise,
  type PortConnection,
  type Resource,
  unreachable,
} from '@space/core';
import type { Audit, CallEnd } from './audit.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { GrantWatch } from './grant-watch.ts';
import type { IdempotentCalls } from './idempotency.ts';
import { during } from './streams.ts';

/** The routes that the gate is in front of; the others are open. */
export type GatedName = Exclude<keyof UseCases, 'readiness'>;
export type GatedUseCases = Pick<UseCases, GatedName>;

type AnyUseCase = (caller: GatedCaller, ...rest: unknown[]) => unknown;
/** The use-cases behind the gate. */
export type InnerUseCases = {
  readonly [N in GatedName]: (caller: GatedCaller, ...rest: Tail<Parameters<UseCases[N]>>) => ReturnType<UseCases[N]>;
};
type Tail<T extends readonly unknown[]> = T extends readonly [unknown, ...infer Rest] ? Rest : never;

export class Gate {
  readonly #keys: GrantWatch<ApiKeyId>;
  readonly #calls: IdempotentCalls;
  readonly #audit: Audit;

  constructor(keys: GrantWatch<ApiKeyId>, calls: IdempotentCalls, audit: Audit) {
    this.#audit = audit;
    this.#keys = keys;
    this.#calls = calls;
  }

  /** The use-cases, each behind the gate. */
  guard(useCases: InnerUseCases): GatedUseCases {
    // A HEAD has no use-case of its own: the server answers it from another, which passes the gate.
    const guarded = GATED.filter((name) => name in useCases).map((name) => [
      name,
      this.#guardOne(name, useCases[name].bind(useCases) as AnyUseCase),
    ]);
    return Object.fromEntries(guarded) as GatedUseCases;
  }

  #guardOne(name: GatedName, useCase: AnyUseCase) {
    const route: Route = ROUTES[name];
    if (route.response.kind === 'ndjson') {
      return (caller: Caller, ...rest: unknown[]) =>
        this.#stream(
          () => this.#enter(name, caller, rest[0]),
          (inner) => useCase(inner, ...rest) as AsyncIterable<unknown>,
        );
    }
    if (route.response.kind === 'upgrade') {
      return (caller: Caller, ...rest: unknown[]) =>
        this.#hold(
          this.#enter(name, caller, rest[0]),
          (inner) => useCase(inner, ...rest) as Promise<PortConnection>,
          (connection, { leave }) => {
            void connection.closed.then(leave);
            return connection;
          },
        );
    }
    if (route.response.kind === 'bytes') {
      return (caller: Caller, ...rest: unknown[]) =>
        this.#hold(
          this.#enter(name, caller, rest[0]),
          (inner) => useCase(inner, ...rest) as Promise<OpenFile>,
          (file, { revoked, leave }) => ({ ...file, body: during(until(revoked, file.body), () => leave) }),
        );
    }
    return async (caller: Caller, ...rest: unknown[]) => {
      const passage = this.#enter(name, caller, rest[0]);
      try {
        const { inner } = passage;
        const begun = passage.begin();
        begun.catch(() => undefined);
        const work = async (callSeed?: string) => {
          await begun;
          const result = await useCase({ ...inner, callSeed }, ...rest);
          void passage.end({ result });
          return result;
        };
        // While the audit is written, a key is claimed, and later its answer kept: each waits for the disk.
        const result = await (takesIdempotencyKey(route) ? this.#calls.once(name, inner, rest[0], work) : work());
        await begun;
        await passage.end({ result });
        return result;
      } catch (thrown) {
        await passage.end({ thrown });
        throw thrown;
      } finally {
        passage.leave();
      }
    };
  }

  #enter(name: GatedName, caller: Caller, input: unknown): Passage {
    const route: Route = ROUTES[name];
    const { action } = route;
    if (action === undefined) throw new Error(`the route ${name} has no action`);
    const { signal, leave } = this.#keys.enter(caller.principal.apiKeyId);
    const asker = this.#audit.askerOf(caller, name, action);
    let begun: Promise<void> | undefined;
    let ended: Promise<void> | undefined;
    return {
      inner: { ...caller, asker, signal: AbortSignal.any([caller.signal, signal]) },
      revoked: signal,
      begin: () => {
        checkAllowed(caller, action);
        begun = this.#audit.begin(asker, route, input);
        return begun;
      },
      leave,
      end: (end) => {
        ended ??= (begun ?? Promise.resolve())
          .then(ignore, ignore)
          .then(() => this.#audit.end(asker, route, input, end));
        return ended;
      },
    };
  }

  /** The key is watched for as long as what was opened is open. */
  async #hold<T>(
    passage: Passage,
    open: (caller: GatedCaller) => Promise<T>,
    held: (opened: T, passage: Passage) => T,
  ): Promise<T> {
    try {
      await passage.begin();
      const opened = held(await open(passage.inner), passage);
      await passage.end({});
      return opened;
    } catch (thrown) {
      passage.leave();
      await passage.end({ thrown });
      throw thrown;
    }
  }

  /** Nothing is done before the first item is asked for; so that is when the decision is made. */
  #stream<T>(enter: () => Passage, start: (caller: GatedCaller) => AsyncIterable<T>): AsyncIterable<T> {
    return {
      [Symbol.asyncIterator]: () => {
        const { inner, revoked, begin, end, leave } = enter();
        let iterator: AsyncIterator<T> | undefined;
        let left = false;
        return {
          async next() {
            try {
              if (iterator === undefined) {
                await begin();
                if (left) throw new AppError('link_lost', 'The caller left before it began.');
                iterator = start(inner)[Symbol.asyncIterator]();
              }
              const item = await iterator.next();
              if (item.done && revoked.aborted) throw revoked.reason;
              // It has begun, and may last for weeks: that is recorded now.
              await end({});
              if (item.done) leave();
              return item;
            } catch (thrown) {
              leave();
              await end({ thrown });
              throw revoked.aborted ? revoked.reason : thrown;
            }
          },
          async return() {
            left = true;
            leave();
            await iterator?.return?.();
            return { done: true, value: undefined };
          },
        };
      },
    };
  }
}

/** The same items, and its reason in place of the next, or of their end, once it is aborted. */
async function* until<T>(signal: AbortSignal, items: AsyncIterable<T>): AsyncGenerator<T, void> {
  for await (const item of items) {
    yield item;
    signal.throwIfAborted();
  }
}

/** One call on its way through. */
interface Passage {
  readonly inner: GatedCaller;
  /** Aborts when the key of the caller is revoked. */
  readonly revoked: AbortSignal;
  /** Throws when it is not allowed; else it is in the audit, and may be carried out. */
  begin(): Promise<void>;
  /** For the audit, how it went; only the first end counts. Never rejects. */
  end(end: CallEnd): Promise<void>;
  /** Must be called when the call has ended. */
  leave(): void;
}

const ignore = () => undefined;

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
        detail:
          action === 'approval.decide' && roles.includes('reviewer')
            ? `The key is a reviewer’s and has the roles ${roles.join(', ')}: who has sandboxes or makes keys decides on none of their requests.`
            : `The key has the roles ${roles.join(', ')}; none allows ${action} here.`,
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
