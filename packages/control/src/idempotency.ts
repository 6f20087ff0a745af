/**
 * Calls that are made once however often they are sent. A caller names a call by an idempotency key; the first request
 * carries it out, and each later one gets its answer.
 *
 * ```
 *   claim ─┬─ new ───────────────► carry out ─┬─ keep the answer; or, when nothing was changed, let go
 *          │                                  └─ no answer yet: as if the process had died
 *          ├─ other input ───────► idempotency_conflict
 *          ├─ answered ──────────► the answer
 *          ├─ under way here ────► the same answer, when it is there
 *          └─ left behind ───────► the end of the operations that it began ─► what they did, the rest of it done now;
 *                                                                            or carry out anew
 * ```
 *
 * What is kept of a failure: one that followed upon an operation and would not go away by repeating the call. Without an
 * operation, nothing was changed, and the call is let go. A failure that the caller is told to repeat is no answer: what it
 * began may yet come to its end (the database went away, the line broke before the command was seen to start). It is left
 * for the repetition to find out, as what a process that died has left.
 */
import { createHash } from 'node:crypto';
import { ROUTES, type Route, type RouteName } from '@space/contract';
import { AppError, asAppError, type ErrorCode, type OrganisationId, parseId, type SandboxId } from '@space/core';
import type { Settles } from './audit-records.ts';
import type { RecordedCall } from './call-records.ts';
import type { Contents } from './contents.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { ControlPorts } from './ports.ts';
import type { RecordedOperation } from './records.ts';
import type { RepeatedCall } from './retrace.ts';
import { retryUnavailable } from './retry.ts';

/** How long an answer is kept, and how many of one caller. */
const KEPT_MS = 24 * 60 * 60 * 1000;
const KEPT_PER_CALLER = 100_000;
/** How often they are counted: that reads all that are kept. */
const COUNT_EVERY_MS = 10 * 60 * 1000;

interface UnderWay {
  readonly work: Promise<unknown>;
  readonly digest: string;
  /** Of the caller that began it. */
  readonly signal: AbortSignal;
}

/** What a call that its process left behind has done, when it has done it; undefined: it is to be carried out anew. */
export type Retrace = (
  name: RouteName,
  call: RepeatedCall,
  operations: readonly RecordedOperation[],
) => Promise<{ readonly result: unknown } | undefined>;

interface Kept {
  readonly result?: unknown;
  readonly error?: KeptError;
}

interface KeptError {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly facts: AppError['facts'];
}

export class IdempotentCalls {
  readonly #ports: Pick<ControlPorts, 'records' | 'clock' | 'logger'>;
  readonly #owner: string;
  readonly #retrace: Retrace;
  readonly #contents: Pick<Contents, 'sealAnswer' | 'openAnswer'>;
  readonly #underWay = new Map<string, UnderWay>();
  #countedAtMs = Number.NEGATIVE_INFINITY;

  constructor(ports: ControlPorts, retrace: Retrace, contents: Pick<Contents, 'sealAnswer' | 'openAnswer'>) {
    this.#contents = contents;
    this.#ports = ports;
    this.#owner = Buffer.from(ports.chance.bytes(16)).toString('hex');
    this.#retrace = retrace;
  }

  /** Without a key, the call is simply carried out. `seed` is the same for all that carry it out, one after another. */
  async once<T>(
    name: RouteName,
    caller: GatedCaller,
    input: unknown,
    carryOut: (seed?: string) => Promise<T>,
  ): Promise<T> {
    const { idempotencyKey, requestId } = caller;
    if (idempotencyKey === undefined) return carryOut();
    const call: RecordedCall = {
      apiKeyId: caller.principal.apiKeyId,
      idempotencyKey,
      route: name,
      digest: digestOf(name, caller, input),
      requestId,
      owner: this.#owner,
      answer: null,
      at: new Date(this.#ports.clock.now()),
    };
    const key = `${call.apiKeyId} ${idempotencyKey}`;
    for (;;) {
      const here = this.#underWay.get(key);
      if (here === undefined) {
        return this.#track(key, call, caller, this.#claim(name, { caller, input }, call, carryOut));
      }
      if (here.digest !== call.digest) throw conflict(call);
      try {
        return (await here.work) as T;
      } catch (thrown) {
        // Its caller left before it was done; that is not the end that this one gets.
        if (!here.signal.aborted) throw thrown;
      }
    }
  }

  /** Before a stream begins: null, and then `started` must be called with what a repetition is told; or that. */
  async begin(name: RouteName, caller: GatedCaller, input: unknown) {
    const started = Promise.withResolvers<unknown>();
    started.promise.catch(() => undefined);
    const told = Promise.withResolvers<{ readonly before: unknown; readonly seed?: string | undefined }>();
    void this.once(name, caller, input, (seed) => {
      told.resolve({ before: null, seed });
      return started.promise;
    }).then((before) => told.resolve({ before }), told.reject);
    return { ...(await told.promise), started };
  }

  async dropOld(): Promise<void> {
    const before = new Date(this.#ports.clock.now() - KEPT_MS);
    await this.#ports.records.calls.dropBefore(before);
    const now = this.#ports.clock.monotonicMs();
    if (now - this.#countedAtMs < COUNT_EVERY_MS) return;
    this.#countedAtMs = now;
    await this.#ports.records.calls.dropSurplus(KEPT_PER_CALLER);
  }

  async #track<T>(key: string, { digest }: RecordedCall, { signal }: GatedCaller, work: Promise<T>): Promise<T> {
    this.#underWay.set(key, { work, digest, signal });
    try {
      return await work;
    } finally {
      this.#underWay.delete(key);
    }
  }

  /** In this process nobody else does this for the key: so a call that is held without an answer was left behind. */
  async #claim<T>(
    name: RouteName,
    repeated: RepeatedCall,
    call: RecordedCall,
    carryOut: (seed: string) => Promise<T>,
  ): Promise<T> {
    for (;;) {
      const present = await this.#ports.records.calls.claim(call, settlesOf(name));
      const { organisationId } = repeated.caller.principal;
      if (present === null) return this.#carryOut(name, { ...call, organisationId, input: repeated.input }, carryOut);
      if (present.digest !== call.digest) throw conflict(present);
      if (present.answer !== null) {
        return answerFrom(await this.#contents.openAnswer(rowOf(call), present.answer)) as T;
      }
      const adopted = await this.#adopt(name, repeated, present, call, carryOut);
      if (adopted !== TAKEN) return adopted;
    }
  }

  async #carryOut<T>(name: RouteName, owned: OwnedCall, carryOut: (seed: string) => Promise<T>): Promise<T> {
    const { records } = this.#ports;
    const { organisationId, input, ...call } = owned;
    const toKeep = (kept: Kept) => this.#sealed(call, { organisationId, input }, kept);
    try {
      const result = await carryOut(seedOf(call));
      await this.#quietly(async () => records.calls.keepAnswer(call, await toKeep({ result }), settlesOf(name)));
      return result;
    } catch (thrown) {
      await this.#quietly(async () => {
        const { code, message: detail, facts, kind } = asAppError(thrown);
        if (kind.retry !== 'never') return;
        const began = (await records.operationsOf(call.requestId)).length > 0;
        if (began) await records.calls.keepAnswer(call, await toKeep({ error: { code, detail, facts } }), 'now');
        else await records.calls.release(call);
      });
      throw thrown;
    }
  }

  /** A call that was left behind: what it began has ended, or is ended now. */
  async #adopt<T>(
    name: RouteName,
    { caller, input }: RepeatedCall,
    left: RecordedCall,
    call: RecordedCall,
    carryOut: (seed: string) => Promise<T>,
  ): Promise<T | typeof TAKEN> {
    const { records } = this.#ports;
    // What is still to be done is found under the first request, when this process dies as well.
    const asFirst = { ...caller, asker: { ...caller.asker, requestId: left.requestId } };
    const begun = await records.operationsOf(left.requestId);
    const retraced = await this.#retrace(name, { caller: asFirst, input }, begun);
    if (retraced !== undefined) {
      const { organisationId } = caller.principal;
      await records.calls.keepAnswer(left, await this.#sealed(left, { organisationId, input }, retraced), 'now');
      return retraced.result as T;
    }
    if (!(await records.calls.takeOver(left, call))) return TAKEN;
    const { organisationId } = caller.principal;
    return this.#carryOut(name, { ...call, at: left.at, organisationId, input }, carryOut);
  }

  #sealed(call: RecordedCall, { organisationId, input }: AnswerOwner, kept: Kept): Promise<string> {
    const sandboxId = sandboxOf(input) ?? sandboxOf(kept.result);
    return this.#contents.sealAnswer({ organisationId, row: rowOf(call), answer: toJson(kept), sandboxId });
  }

  /** The call is over, and its caller gets its end; that it is not remembered is logged. */
  async #quietly(work: () => Promise<void>): Promise<void> {
    try {
      await retryUnavailable(work);
    } catch (err) {
      this.#ports.logger.warn({ err }, 'the answer of a call could not be kept');
    }
  }
}

const TAKEN = Symbol('taken over by another request');

/**
 * What an operation does is found in its own records, which are waited for, if the answer did not come to the disk. A claim that did not,
 * before the power went, is of a call that had not begun anything.
 */
function settlesOf(name: RouteName): Settles {
  const route: Route = ROUTES[name];
  return route.async ? 'next' : 'now';
}

/** Whose vaults an answer may be sealed for, and what was asked. */
interface AnswerOwner {
  readonly organisationId: OrganisationId;
  readonly input: unknown;
}
type OwnedCall = RecordedCall & AnswerOwner;

/** The sandbox that is named by what was asked, or made by it. */
function sandboxOf(about: unknown): SandboxId | null {
  if (typeof about !== 'object' || about === null || !('id' in about) || typeof about.id !== 'string') return null;
  return parseId('sandbox', about.id) ?? null;
}

function rowOf({ apiKeyId, idempotencyKey }: RecordedCall): string {
  return `${apiKeyId} ${idempotencyKey}`;
}

/** Of the claim, whoever holds it. */
function seedOf({ apiKeyId, idempotencyKey, digest, at }: RecordedCall): string {
  return `${apiKeyId} ${idempotencyKey} ${digest} ${at.getTime()}`;
}

function digestOf(name: RouteName, { projectId }: GatedCaller, input: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([name, projectId, sorted(input)]))
    .digest('hex');
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => [key, sorted(inner)]);
}

function conflict({ route }: RecordedCall): AppError {
  return new AppError('idempotency_conflict', {
    detail: 'The idempotency key was used for another call, or for other input.',
    facts: { route },
  });
}

/** Errors among results (a fork has one per child) are marked. */
function toJson(kept: Kept): string {
  return JSON.stringify({ ...kept, result: withoutSecret(kept.result) }, (_key, value: unknown) => {
    if (!(value instanceof AppError)) return value;
    const { code, message: detail, facts } = value;
    return { $error: { code, detail, facts } satisfies KeptError };
  });
}

/** Of a key, of a share, and of the first key of an organisation: a secret is shown once, so it is not kept. */
function withoutSecret(result: unknown): unknown {
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return result;
  return {
    ...result,
    ...('secretKey' in result ? { secretKey: null } : {}),
    ...('token' in result ? { token: null } : {}),
    ...('key' in result ? { key: withoutSecret(result.key) } : {}),
  };
}

function answerFrom(json: string): unknown {
  const kept = JSON.parse(json, (_key, value: unknown) => {
    // What a caller named so himself, in metadata, is text.
    const marked = typeof value === 'object' && value !== null && '$error' in value && typeof value.$error === 'object';
    return marked ? errorFrom((value as { $error: KeptError }).$error) : value;
  }) as Kept;
  if (kept.error !== undefined) throw errorFrom(kept.error);
  return kept.result;
}

function errorFrom({ code, detail, facts }: KeptError): AppError {
  return new AppError(code, { detail, facts });
}
