/**
 * Clients as they are meant to be written: each call that changes something has an idempotency key, and is repeated with it
 * for as long as the answer says so, or when none came. What each was told goes into the history of its sandbox.
 */
import type { Caller, Input } from '@space/contract';
import type { Control } from '@space/control';
import {
  AppError,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  type ErrorCode,
  newId,
  type ProcessEvent,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { type Happening, NO_MARKS } from './model.ts';
import { TINY, type World } from './world.ts';

const MAX_ATTEMPTS = 25;
const PAUSE_MS = 400;
/** Repeating does not help before somebody decides what is to become of the sandbox. */
/** What is done anew when somebody else took it back before its caller was told. */
const REPEATABLE: readonly Happening['kind'][] = ['mark', 'leave'];
/** What may turn out either way. */
const PASSING: readonly string[] = ['creating', 'deleting', 'arriving', 'moving'];
const FINAL: readonly ErrorCode[] = ['vm_lost', 'insufficient_memory'];

/** A sandbox as clients know it. */
export interface Known {
  /** Its name, or its id. */
  readonly reference: string;
  readonly happenings: Happening[];
  id: SandboxId | null;
  /** Points that clients were told of. */
  readonly points: SnapshotId[];
}

export type Told<T> =
  | { readonly kind: 'ok'; readonly value: T; readonly attempts: number }
  | { readonly kind: 'refused'; readonly error: AppError }
  /** No answer came at all: it may yet take effect. */
  | { readonly kind: 'lost' };

export interface Forked {
  readonly told: Told<unknown>;
  readonly children: readonly Known[];
}

/** Nobody answers any more. */
class ConnectionLostError extends Error {}

export class History {
  readonly known: Known[] = [];
  readonly world: World;
  readonly #crashes: { readonly sandboxId: SandboxId; readonly crash: Happening }[] = [];
  #order = 0;

  constructor(world: World) {
    this.world = world;
    this.follow(world);
  }

  /** The deaths of its VMMs. */
  follow(world: World): void {
    world.onVmmDeath = (sandboxId) => {
      const begunAt = this.next();
      // It may be found out late; and what was being done may have come first.
      const crash = {
        kind: 'crash',
        value: null,
        begunAt,
        endedAt: Infinity,
        maybe: true,
        text: 'its VMM dies',
        site: world.name,
      } as const;
      this.#crashes.push({ sandboxId, crash });
    };
  }

  /** All that happened to a sandbox. */
  of({ id, happenings }: Known): readonly Happening[] {
    return [...happenings, ...this.#crashes.filter(({ sandboxId }) => sandboxId === id).map(({ crash }) => crash)];
  }

  next(): number {
    return this.#order++;
  }

  add(reference: string, id: SandboxId | null): Known {
    const known: Known = { reference, id, happenings: [], points: [] };
    this.known.push(known);
    return known;
  }
}

type Ending = Pick<Happening, 'kind' | 'value'> & Partial<Happening>;

interface Patience {
  /** After which the caller leaves; undefined: it stays. */
  readonly patienceMs?: number | undefined;
}

export class Client {
  readonly history: History;
  readonly #name: string;
  readonly #apiKeyId;
  readonly world: World;
  #calls = 0;

  /** Of an installation; left out: of the first. */
  constructor(history: History, name: string, world = history.world) {
    this.history = history;
    this.#name = name;
    this.world = world;
    this.#apiKeyId = newId('apiKey', world.chance);
  }

  newName(): string {
    return `${this.#name}${this.#calls}`;
  }

  async create(name: string, options: { readonly idleMs?: number; readonly collected?: boolean } = {}): Promise<Known> {
    const present = this.history.known.find(({ reference }) => reference === name);
    const known = present ?? this.history.add(name, null);
    const snapshots = {
      everyMs: 'off' as const,
      ...(options.collected === true ? { retention: [{ forMs: 1, everyMs: 0 }] } : {}),
    };
    const idle = { pauseAfterMs: options.idleMs ?? null };
    await this.#create(known, { snapshots, idle });
    return known;
  }

  #create(known: Known, options: Pick<Input<'createSandbox'>, 'snapshots' | 'idle'>): Promise<Told<unknown>> {
    const name = known.reference;
    return this.does(known, `create ${name}`, { kind: 'create', value: NO_MARKS }, async (control, caller) => {
      const { id } = await control.createSandbox(caller, { name, size: TINY, ...options });
      known.id = id;
      return {};
    });
  }

  /** Another of that name: refused, unless the first is gone. */
  async createAgain(name: string): Promise<Told<unknown>> {
    const known = this.history.add(name, null);
    return this.#create(known, { snapshots: {}, idle: { pauseAfterMs: null } });
  }

  async mark(known: Known): Promise<Told<unknown>> {
    const mark = `${this.#name}${this.#calls}`;
    return this.does(known, `mark ${mark}`, { kind: 'mark', value: mark }, async (control, caller) => {
      await this.#exec(control, caller, known, `mark ${mark}`);
      return {};
    });
  }

  async look(known: Known): Promise<Told<unknown>> {
    return this.does(known, 'look', { kind: 'look', value: null }, async (control, caller) => {
      return { value: await this.#exec(control, caller, known, 'marks') };
    });
  }

  async get(known: Known): Promise<void> {
    await this.does(known, 'get', { kind: 'exists', value: null }, async (control, caller) => {
      const { status } = await control.getSandbox(caller, { id: known.reference });
      // What is being created may yet come to nothing, and what is being deleted is gone for others.
      const passes = PASSING.includes(status);
      if (status === 'moved') return { kind: 'away', text: 'get → moved' };
      return passes ? { maybe: true, text: `get → ${status}` } : {};
    });
  }

  async pause(known: Known): Promise<Told<unknown>> {
    return this.does(known, 'pause', { kind: 'pause', value: null }, async (control, caller) => {
      await control.pauseSandbox(caller, { id: known.reference });
      return {};
    });
  }

  async resume(known: Known): Promise<Told<unknown>> {
    return this.does(known, 'resume', { kind: 'resume', value: null }, async (control, caller) => {
      await control.resumeSandbox(caller, { id: known.reference });
      return {};
    });
  }

  async snapshot(known: Known): Promise<Told<unknown>> {
    return this.does(known, 'snapshot', { kind: 'take', value: null }, async (control, caller) => {
      const { id } = await control.takeSnapshot(caller, { id: known.reference });
      known.points.push(id);
      return { value: this.contentOf(id), text: `snapshot ${id}` };
    });
  }

  async rewind(known: Known, to: SnapshotId): Promise<Told<unknown>> {
    const value = this.contentOf(to);
    const own = known.points.includes(to);
    return this.does(known, `rewind to ${to}`, { kind: 'rewind', value, own }, async (control, caller) => {
      const { kept } = await control.rewindSandbox(caller, { id: known.reference, to, keepPresent: true });
      if (kept === null) return {};
      known.points.push(kept.id);
      return { kept: this.contentOf(kept.id) };
    });
  }

  /** Copies of the present, or of a point. */
  async fork(known: Known, count: number, from?: SnapshotId): Promise<Forked> {
    const begunAt = this.history.next();
    const children: Known[] = [];
    const kind = from === undefined ? 'take' : 'exists';
    const told = await this.does(known, `fork ${count}`, { kind, value: null }, async (control, caller) => {
      const input = { id: known.reference, count, ...(from === undefined ? {} : { from }) };
      const results = await control.forkSandbox(caller, input);
      let value: string | null = null;
      for (const result of results) {
        if ('error' in result) continue;
        const { id, forkedFrom } = result.sandbox;
        const point = forkedFrom?.snapshotId;
        value = point === undefined ? null : this.contentOf(point);
        const child = this.history.add(id, id);
        const text = `forked from ${known.reference} at ${point}`;
        const { name: site } = this.world;
        child.happenings.push({
          kind: 'create',
          value,
          begunAt,
          endedAt: this.history.next(),
          maybe: false,
          text,
          site,
        });
        children.push(child);
      }
      // Of what it was forked from, a point is known.
      return from === undefined ? { value } : {};
    });
    return { told, children };
  }

  async remove(known: Known): Promise<Told<unknown>> {
    return this.does(known, 'delete', { kind: 'delete', value: null }, async (control, caller) => {
      await control.deleteSandbox(caller, { id: known.reference });
      return {};
    });
  }

  protected contentOf(point: SnapshotId): string | null {
    return this.world.contents.get(point) ?? null;
  }

  async #exec(control: Control, caller: Caller, known: Known, command: string): Promise<string> {
    let output = '';
    let last: ProcessEvent | undefined;
    for await (const event of control.exec(caller, { id: known.reference, command })) {
      if (event.kind === 'output') output += Buffer.from(event.data).toString();
      last = event;
    }
    if (last?.kind !== 'exited') throw new AppError('link_lost', 'The stream ended before the command.');
    return output;
  }

  /** Does it, and notes what was told. */
  protected async does(
    known: Known,
    text: string,
    { patienceMs, ...promised }: Ending & Patience,
    work: (control: Control, caller: Caller) => Promise<Partial<Happening>>,
  ): Promise<Told<unknown>> {
    const begunAt = this.history.next();
    const final = promised.kind === 'create' ? [] : FINAL;
    const told = await this.#repeat(`${this.#name}-${this.#calls++}`, { final, patienceMs }, work);
    const answeredAt = this.history.next();
    const site = this.world.name;
    const base = { begunAt, endedAt: answeredAt, maybe: false, text: `${this.#name}: ${text}`, site, ...promised };
    switch (told.kind) {
      case 'ok':
        known.happenings.push({ ...base, text: `${base.text} → ok`, ...told.value });
        // What a rewind took away again, or an undo, is done anew; that it is in one line twice is looked at apart.
        if (REPEATABLE.includes(promised.kind) && told.attempts > 1) known.happenings.push({ ...base, maybe: true });
        break;
      case 'lost':
        known.happenings.push({ ...base, endedAt: Infinity, maybe: true, text: `${base.text} → no answer` });
        break;
      case 'refused': {
        const { code } = told.error;
        const isGone = promised.kind !== 'create' && code === 'not_found' && !told.error.message.includes('snapshot');
        const refused = { ...base, text: `${base.text} → ${code}: ${told.error.message}` };
        known.happenings.push(isGone ? { ...refused, kind: 'gone' } : { ...refused, maybe: true });
      }
    }
    this.world.steps.note(known.happenings.at(-1)?.text ?? '');
    return told;
  }

  async #repeat<T>(
    key: string,
    { final, patienceMs }: { readonly final: readonly ErrorCode[] } & Patience,
    work: (control: Control, caller: Caller) => Promise<T>,
  ): Promise<Told<T>> {
    let refusal: AppError | null = null;
    const leaving = new AbortController();
    if (patienceMs !== undefined) this.world.time.after(patienceMs, () => leaving.abort(new ConnectionLostError()));
    const left = rejectedBy(leaving.signal);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      if (attempt > 0) await this.world.time.sleep(PAUSE_MS * Math.min(10, attempt));
      const running = this.world.control;
      if (running === null) continue;
      try {
        const lost = running.process.killed.then(() => {
          throw new ConnectionLostError();
        });
        const value = await Promise.race([
          work(running.control, this.#caller(key, attempt, leaving.signal)),
          lost,
          left,
        ]);
        return { kind: 'ok', value, attempts: attempt + 1 };
      } catch (thrown) {
        if (leaving.signal.aborted) return { kind: 'lost' };
        if (thrown instanceof ConnectionLostError) refusal = null;
        else if (!(thrown instanceof AppError)) throw thrown;
        else if (thrown.kind.retry === 'never' || final.includes(thrown.code))
          return { kind: 'refused', error: thrown };
        else refusal = thrown;
      }
    }
    return refusal === null ? { kind: 'lost' } : { kind: 'refused', error: refusal };
  }

  #caller(idempotencyKey: string, attempt: number, signal: AbortSignal): Caller {
    return {
      principal: {
        apiKeyId: this.#apiKeyId,
        organisationId: DEFAULT_ORGANISATION,
        operator: true,
        onlyProject: null,
        roles: ['admin'],
      },
      projectId: DEFAULT_PROJECT,
      idempotencyKey,
      requestId: `${idempotencyKey}-${attempt}`,
      signal,
    };
  }
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined);
  signal.addEventListener('abort', () => reject(signal.reason));
  return promise;
}
