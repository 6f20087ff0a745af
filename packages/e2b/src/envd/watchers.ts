/**
 * Watches for clients that can only ask: what has happened is kept until it is fetched, up to a limit, and a watch that
 * nobody asks about any more ends.
 */
import { randomUUID } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { SandboxId } from '@space/core';
import { type FilesystemEvent, FilesystemEventSchema } from '../../gen/filesystem_pb.ts';
import type { EnvdCall } from './call.ts';
import { toConnectError } from './errors.ts';
import { toldChanges, type Watched } from './watch-events.ts';

const MAX_EVENTS = 10_000;
/** Of what is kept of one: names, and what is told of entries. */
const MAX_EVENT_BYTES = 4 * 1024 * 1024;
/** As many as a sandbox can watch for. */
const MAX_OF_A_SANDBOX = 16;
const UNASKED_MS = 60 * 60_000;
/** One that nobody has asked about since it was made: its answer may have been lost. It gives its place up when there is no other. */
const NEVER_ASKED_MS = 60_000;

interface Watcher {
  readonly sandboxId: SandboxId;
  readonly stop: AbortController;
  readonly madeAtMs: number;
  asked: boolean;
  events: FilesystemEvent[];
  eventBytes: number;
  broken: ConnectError | undefined;
  unasked: NodeJS.Timeout;
}

export class Watchers {
  readonly #all = new Map<string, Watcher>();

  /** Once it is in place. It outlives the request. */
  async create(call: EnvdCall, watched: Watched): Promise<string> {
    this.#makeRoom(call.sandboxId);
    const id = randomUUID();
    const stop = new AbortController();
    const watcher: Watcher = {
      sandboxId: call.sandboxId,
      stop,
      madeAtMs: performance.now(),
      asked: false,
      events: [],
      eventBytes: 0,
      broken: undefined,
      unasked: this.#expiryOf(id),
    };
    this.#all.set(id, watcher);
    const ready = Promise.withResolvers<void>();
    const { caller, target } = call;
    caller.signal.addEventListener('abort', () => ready.reject(caller.signal.reason), { once: true });
    // A client that has left before it had the answer will never ask.
    target.caller.signal.addEventListener('abort', () => this.#end(id), { once: true });
    void this.#follow(watcher, toldChanges({ ...call, caller: { ...caller, signal: stop.signal } }, watched), ready);
    try {
      await ready.promise;
      return id;
    } catch (thrown) {
      this.#end(id);
      throw thrown;
    }
  }

  drain(call: EnvdCall, id: string): FilesystemEvent[] {
    const watcher = this.#find(call, id);
    watcher.unasked.refresh();
    watcher.asked = true;
    const { events, broken } = watcher;
    watcher.events = [];
    watcher.eventBytes = 0;
    // What came before it broke is told first.
    if (events.length > 0 || broken === undefined) return events;
    this.#end(id);
    throw broken;
  }

  remove(call: EnvdCall, id: string): void {
    this.#find(call, id);
    this.#end(id);
  }

  endAllOf(sandboxId: SandboxId): void {
    for (const [id, watcher] of this.#all) if (watcher.sandboxId === sandboxId) this.#end(id);
  }

  close(): void {
    for (const id of this.#all.keys()) this.#end(id);
  }

  async #follow(
    watcher: Watcher,
    changes: AsyncIterable<'ready' | FilesystemEvent>,
    ready: PromiseWithResolvers<void>,
  ): Promise<void> {
    try {
      for await (const change of changes) {
        if (change === 'ready') ready.resolve();
        else keep(watcher, change);
      }
      throw new ConnectError('the watch has ended', Code.Unavailable);
    } catch (thrown) {
      watcher.broken = toConnectError(thrown);
      ready.reject(thrown);
    }
  }

  /** Throws when all places are taken by those that somebody may still ask about. */
  #makeRoom(sandboxId: SandboxId): void {
    const mine = [...this.#all].filter(([, watcher]) => watcher.sandboxId === sandboxId);
    if (mine.length < MAX_OF_A_SANDBOX) return;
    const before = performance.now() - NEVER_ASKED_MS;
    const lost = mine.find(([, { asked, madeAtMs }]) => !asked && madeAtMs <= before);
    if (lost === undefined) {
      throw new ConnectError(`a sandbox has at most ${MAX_OF_A_SANDBOX} watchers`, Code.ResourceExhausted);
    }
    this.#end(lost[0]);
  }

  #find({ sandboxId }: EnvdCall, id: string): Watcher {
    const watcher = this.#all.get(id);
    if (watcher?.sandboxId !== sandboxId) throw new ConnectError(`watcher with id ${id} not found`, Code.NotFound);
    return watcher;
  }

  #end(id: string): void {
    const watcher = this.#all.get(id);
    if (watcher === undefined) return;
    this.#all.delete(id);
    clearTimeout(watcher.unasked);
    watcher.stop.abort();
  }

  #expiryOf(id: string): NodeJS.Timeout {
    return setTimeout(() => this.#end(id), UNASKED_MS).unref();
  }
}

function keep(watcher: Watcher, event: FilesystemEvent): void {
  const { events } = watcher;
  if (events.length >= MAX_EVENTS) {
    throw new ConnectError(`more than ${MAX_EVENTS} changes were not fetched`, Code.DataLoss);
  }
  watcher.eventBytes += toBinary(FilesystemEventSchema, event).length;
  if (watcher.eventBytes > MAX_EVENT_BYTES) {
    throw new ConnectError(`more than ${MAX_EVENT_BYTES} bytes of changes were not fetched`, Code.DataLoss);
  }
  events.push(event);
}
