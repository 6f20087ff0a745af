/**
 * The use-cases in memory, for tests of the faces over them: sandboxes are records, files are bytes, and commands are a
 * handful of words (`COMMANDS` below).
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  type Caller,
  type ForkResult,
  givenBytes,
  type Input,
  type OpenFile,
  type Readiness,
  type Rewound,
  type Sandbox,
  type SandboxDetail,
  type SandboxList,
  type SandboxMetrics,
  type Snapshot,
  type SnapshotList,
  type TemplateList,
  type Timeline,
  type UseCases,
} from '@space/contract';
import {
  AppError,
  DEFAULT_RUNS,
  DEFAULT_SIZE,
  DEFAULT_SNAPSHOT_POLICY,
  type ErrorCode,
  type FileStatus,
  type GuestProcess,
  newId,
  type ProcessEvent,
  type ProcessId,
  SIZE_LIMITS,
  type SnapshotId,
} from '@space/core';
import { FakeFiles } from '@space/testkit';
import { NoTenants } from './no-tenants.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const bytesOf = (text: string) => new TextEncoder().encode(text);

/** What every process has printed that is attached to. */
export const PRINTED = bytesOf('0123456789'.repeat(5));

interface Stored {
  sandbox: Sandbox;
  env: Record<string, string>;
  files: FakeFiles;
}

type Command = (context: {
  readonly caller: Caller;
  readonly argument: string;
  readonly env: Readonly<Record<string, string>>;
}) => AsyncGenerator<ProcessEvent>;

const out = (text: string | Uint8Array, stream: 'stdout' | 'stderr' = 'stdout', offset = 0): ProcessEvent => ({
  kind: 'output',
  stream,
  offset,
  data: typeof text === 'string' ? bytesOf(text) : text,
});
const exited = (code: number): ProcessEvent => ({
  kind: 'exited',
  exit: { code },
  timedOut: false,
  oom: false,
});

export class MemoryUseCases extends NoTenants implements UseCases {
  readonly sandboxes = new Map<string, Stored>();
  readonly snapshots = new Map<string, Snapshot>();
  readonly signals: string[] = [];
  readonly inputs: Uint8Array[] = [];
  readonly inputEnded = Promise.withResolvers<void>();
  readonly sizes: [cols: number, rows: number][] = [];
  closedProcess: ProcessId | undefined;
  interruptions = 0;
  /** Thrown by the next getSandbox. */
  nextError: unknown;
  /** How long a create takes. */
  createMs = 0;
  /** What streams did, for assertions. */
  readonly seen = { produced: 0, ended: 0, aborted: 0, writeFailed: 0 };
  ready = true;

  readonly commands: Readonly<Record<string, Command>> = {
    echo: async function* ({ argument }) {
      yield out(`${argument}\n`);
      yield exited(0);
    },
    env: async function* ({ env }) {
      yield out(JSON.stringify(env));
      yield exited(0);
    },
    exit: async function* ({ argument }) {
      yield out('bad\n', 'stderr');
      yield exited(Number(argument));
    },
    split: async function* () {
      const bytes = bytesOf('aé€😀z');
      for (const byte of bytes) yield out(Uint8Array.of(byte));
      yield exited(0);
    },
    killed: async function* () {
      yield { kind: 'exited', exit: { signal: 9 }, timedOut: true, oom: true };
    },
    fail: async function* ({ argument }) {
      yield out('before');
      throw new AppError(argument as ErrorCode, 'as asked');
    },
    bug: async function* () {
      yield out('before');
      throw new Error('a secret cause');
    },
    cut: async function* () {
      yield out('before');
    },
    /** Prints what it is given, once that has ended. */
    cat: () => this.#cat(),
    /** Takes no input. */
    deaf: async function* () {
      await new Promise((resolve) => setTimeout(resolve, 50));
      yield exited(0);
    },
    /** Does not heed its signal at once. */
    stubborn: async function* () {
      await new Promise((resolve) => setTimeout(resolve, 200));
      yield exited(0);
    },
    endless: (context) => this.#endless(context.caller),
    much: ({ argument }) => this.#much(Number(argument)),
    quiet: (context) => this.#quiet(context.caller, Number(context.argument)),
  };

  async createSandbox(_caller: Caller, input: Input<'createSandbox'>): Promise<Sandbox> {
    if (this.createMs > 0) await new Promise((resolve) => setTimeout(resolve, this.createMs));
    if (input.template === 'unknown') throw new AppError('template_unknown', 'no such template');
    if (input.name !== undefined && this.#find(input.name) !== undefined) throw new AppError('name_taken', 'in use');
    const from = input.snapshot === undefined ? undefined : this.#snapshot(input.snapshot);
    const stored = this.#store(input.name ?? null, input.env ?? {}, input.metadata ?? {});
    if (from !== undefined)
      stored.sandbox = { ...stored.sandbox, forkedFrom: { sandboxId: from.sandboxId, snapshotId: from.id } };
    return stored.sandbox;
  }

  async listSandboxes(_caller: Caller, input: Input<'listSandboxes'>): Promise<SandboxList> {
    const all = [...this.sandboxes.values()]
      .map(({ sandbox }) => sandbox)
      .filter((sandbox) => input.status === undefined || sandbox.status === input.status);
    const start = input.cursor === undefined ? 0 : Number(input.cursor);
    const end = start + input.limit;
    return { sandboxes: all.slice(start, end), nextCursor: end < all.length ? String(end) : null };
  }

  async getSandbox(_caller: Caller, { id }: Input<'getSandbox'>): Promise<SandboxDetail> {
    if (this.nextError !== undefined) {
      const error = this.nextError;
      this.nextError = undefined;
      throw error;
    }
    const { sandbox, env } = this.#get(id);
    return { ...sandbox, env };
  }

  async getSandboxMetrics(_caller: Caller, { id }: Input<'getSandboxMetrics'>): Promise<SandboxMetrics> {
    this.#find(id);
    return { now: null, history: [] };
  }

  async getSandboxConsole(_caller: Caller, { id }: Input<'getSandboxConsole'>) {
    this.#get(id);
    return { text: null };
  }

  async updateSandbox(_caller: Caller, { id, ...asked }: Input<'updateSandbox'>): Promise<Sandbox> {
    const stored = this.#get(id);
    const { sandbox } = stored;
    const { idle = sandbox.idle, wakeAt = sandbox.wakeAt, expiry = sandbox.expiry } = asked;
    stored.sandbox = { ...sandbox, idle, wakeAt, expiry, snapshots: { ...sandbox.snapshots, ...asked.snapshots } };
    return stored.sandbox;
  }

  async deleteSandbox(_caller: Caller, { id }: Input<'deleteSandbox'>): Promise<void> {
    this.sandboxes.delete(this.#get(id).sandbox.id);
  }

  async *exec(caller: Caller, input: Input<'exec'>): AsyncGenerator<ProcessEvent> {
    const { env } = this.#get(input.id);
    const [word = '', ...rest] = input.argv ?? (input.command ?? '').split(' ');
    const command = this.commands[word];
    if (command === undefined) throw new AppError('command_not_started', `${word}: not found`);
    yield { kind: 'started', processId: newId('process', chance), pid: 42 };
    yield* command({ caller, argument: rest.join(' '), env: { ...env, ...input.env } });
  }

  async startProcess(caller: Caller, input: Input<'startProcess'>) {
    for await (const event of this.exec(caller, input)) {
      if (event.kind === 'started') return { processId: event.processId, pid: event.pid };
    }
    throw new Error('it has not started');
  }

  /** Every process has printed `PRINTED` when it is attached to; `interruptions` of the streams break off half-way. */
  async *attachProcess(_caller: Caller, input: Input<'attachProcess'>): AsyncGenerator<ProcessEvent> {
    this.#get(input.id);
    yield { kind: 'started', processId: input.processId, pid: 42 };
    const rest = PRINTED.subarray(input.stdoutOffset);
    yield { kind: 'lost', stream: 'stderr', offset: input.stderrOffset, sizeBytes: 7 };
    yield out(rest.subarray(0, 10), 'stdout', input.stdoutOffset);
    if (this.interruptions > 0) {
      this.interruptions -= 1;
      throw new AppError('link_lost', 'as asked');
    }
    yield out(rest.subarray(10), 'stdout', input.stdoutOffset + Math.min(10, rest.length));
    yield exited(0);
  }

  async writeInput(_caller: Caller, input: Input<'writeInput'>, body: AsyncIterable<Uint8Array>) {
    this.#get(input.id);
    if (input.processId === this.closedProcess) throw new AppError('input_closed', 'as asked');
    for await (const chunk of body) this.inputs.push(chunk);
    if (input.eof) this.inputEnded.resolve();
    return { acceptedBytes: (input.offset ?? 0) + Buffer.concat(this.inputs).length };
  }

  async resizeTerminal(_caller: Caller, { id, cols, rows }: Input<'resizeTerminal'>): Promise<void> {
    this.#get(id);
    this.sizes.push([cols, rows]);
  }

  async listProcesses(_caller: Caller, { id, ended }: Input<'listProcesses'>): Promise<readonly GuestProcess[]> {
    this.#get(id);
    const process: GuestProcess = {
      processId: newId('process', chance),
      pid: 42,
      argv: ['sleep', '1'],
      cwd: '/',
      pty: false,
      label: 'for a face of its own',
      startedMs: 1.7e12,
      leaderAlive: true,
      liveProcesses: 1,
      stdoutBytes: 0,
      stderrBytes: 0,
      stdinBytes: 0,
    };
    const end = { exit: { signal: 9 }, timedOut: true, oom: false };
    return ended ? [process, { ...process, leaderAlive: false, liveProcesses: 0, end }] : [process];
  }

  async signalProcess(_caller: Caller, input: Input<'signalProcess'>): Promise<void> {
    this.#get(input.id);
    this.signals.push(`${input.processId satisfies ProcessId} ${input.signal} ${input.target}`);
  }

  async readFile(_caller: Caller, { id, path, pathBase64, ...range }: Input<'readFile'>): Promise<OpenFile> {
    if (path === '/broken') return { status: statusOf('broken', 100, 0o600), body: chunksOf(new Uint8Array(50)) };
    if (path === '/proc/x') return { status: statusOf('x', 0, 0o444), body: chunksOf(bytesOf('from the kernel')) };
    if (path === '/endless') return { status: statusOf('endless', 2 ** 40, 0o644), body: this.#endlessBytes() };
    return this.#get(id).files.readFile({ ...range, path: givenBytes(path, pathBase64) });
  }

  async writeFile(caller: Caller, input: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    const { id, path, pathBase64, ...options } = input;
    const { files } = this.#get(id);
    if (path === '/full') throw new AppError('guest_full', 'no space');
    if (path === '/full-later') await refuseWhileReading(body);
    const sink = path === '/dev/null' ? drained(body) : undefined;
    try {
      if (sink !== undefined) return await sink;
      const chunks = await Array.fromAsync(body);
      caller.signal.throwIfAborted();
      return await files.writeFile({ ...options, path: givenBytes(path, pathBase64) }, chunksOf(Buffer.concat(chunks)));
    } catch (error) {
      this.seen.writeFailed += 1;
      throw error;
    }
  }

  async statFile(_caller: Caller, { id, path, pathBase64, ...rest }: Input<'statFile'>): Promise<FileStatus> {
    return this.#get(id).files.stat({ ...rest, path: givenBytes(path, pathBase64) });
  }

  listFiles(_caller: Caller, { id, path, pathBase64, ...rest }: Input<'listFiles'>) {
    return this.#get(id).files.list({ ...rest, path: givenBytes(path, pathBase64) });
  }

  async makeDirectory(_caller: Caller, { id, path, pathBase64, ...rest }: Input<'makeDirectory'>) {
    return this.#get(id).files.makeDirectory({ ...rest, path: givenBytes(path, pathBase64) });
  }

  async moveFile(_caller: Caller, { id, from, fromBase64, to, toBase64, ...rest }: Input<'moveFile'>) {
    const move = { ...rest, from: givenBytes(from, fromBase64), to: givenBytes(to, toBase64) };
    return this.#get(id).files.moveFile(move);
  }

  async removeFile(_caller: Caller, { id, path, pathBase64, ...rest }: Input<'removeFile'>) {
    return this.#get(id).files.removeFile({ ...rest, path: givenBytes(path, pathBase64) });
  }

  async setFileAttributes(_caller: Caller, { id, path, pathBase64, ...rest }: Input<'setFileAttributes'>) {
    return this.#get(id).files.setAttributes({ ...rest, path: givenBytes(path, pathBase64) });
  }

  async makeSymlink(_caller: Caller, input: Input<'makeSymlink'>) {
    const { id, path, pathBase64, target, targetBase64 } = input;
    const link = { path: givenBytes(path, pathBase64), target: givenBytes(target, targetBase64) };
    return this.#get(id).files.makeSymlink(link);
  }

  async listXattrs(_caller: Caller, { id, path, pathBase64 }: Input<'listXattrs'>) {
    return this.#get(id).files.xattrs({ path: givenBytes(path, pathBase64) });
  }

  async getXattr(_caller: Caller, input: Input<'getXattr'>) {
    return this.#get(input.id).files.xattr(attributeOf(input));
  }

  async setXattr(_caller: Caller, input: Input<'setXattr'>) {
    return this.#get(input.id).files.setXattr(attributeOf(input), input.value);
  }

  async removeXattr(_caller: Caller, input: Input<'removeXattr'>) {
    return this.#get(input.id).files.removeXattr(attributeOf(input));
  }

  watchFiles({ signal }: Caller, { id, path, pathBase64, ...rest }: Input<'watchFiles'>) {
    return this.#get(id).files.watch({ ...rest, path: givenBytes(path, pathBase64) }, signal);
  }

  async pauseSandbox(_caller: Caller, { id }: Input<'pauseSandbox'>): Promise<Sandbox> {
    return this.#change(id, { status: 'paused' });
  }

  async resumeSandbox(_caller: Caller, { id }: Input<'resumeSandbox'>): Promise<Sandbox> {
    return this.#change(id, { status: 'running' });
  }

  async takeSnapshot(_caller: Caller, input: Input<'takeSnapshot'>): Promise<Snapshot> {
    return this.#take(input.id, 'snapshot', input.name ?? null, input.note ?? null);
  }

  async getTimeline(_caller: Caller, { id }: Input<'getTimeline'>): Promise<Timeline> {
    const { sandbox } = this.#get(id);
    const { retention, ...policy } = DEFAULT_SNAPSHOT_POLICY;
    return {
      snapshots: [...this.snapshots.values()].filter((point) => point.sandboxId === sandbox.id).reverse(),
      forks: [],
      skipped: [],
      policy: { ...policy, retention: [...retention] },
      nextCursor: null,
    };
  }

  /** The child after the third fails. */
  async forkSandbox(_caller: Caller, input: Input<'forkSandbox'>): Promise<readonly ForkResult[]> {
    const { env, sandbox } = this.#get(input.id);
    const point = input.from === undefined ? this.#take(input.id, 'fork', null, null) : this.#past(input.from);
    return Array.from({ length: input.count }, (_, index) => {
      if (index >= 3) return { error: new AppError('insufficient_memory', 'too many') };
      const child = this.#store(null, env, sandbox.metadata);
      child.sandbox = { ...child.sandbox, forkedFrom: { sandboxId: sandbox.id, snapshotId: point.id } };
      return { sandbox: child.sandbox };
    });
  }

  async rewindSandbox(_caller: Caller, input: Input<'rewindSandbox'>): Promise<Rewound> {
    const to = this.#past(input.to);
    const kept = this.#take(input.id, 'rewind', null, null);
    const { sandbox } = this.#get(input.id);
    return { sandbox: this.#change(input.id, { head: to.id, generation: sandbox.generation + 1 }), kept };
  }

  async listSnapshots(): Promise<SnapshotList> {
    return { snapshots: [...this.snapshots.values()].filter(({ name }) => name !== null), nextCursor: null };
  }

  async getSnapshot(_caller: Caller, { id }: Input<'getSnapshot'>): Promise<Snapshot> {
    return this.#snapshot(id);
  }

  async updateSnapshot(_caller: Caller, { id, ...changes }: Input<'updateSnapshot'>): Promise<Snapshot> {
    const after = { ...this.#snapshot(id), ...changes };
    this.snapshots.set(after.id, after);
    return after;
  }

  async deleteSnapshot(_caller: Caller, { id }: Input<'deleteSnapshot'>): Promise<void> {
    this.snapshots.delete(this.#snapshot(id).id);
  }

  async listTemplates(): Promise<TemplateList> {
    return {
      templates: [{ name: 'base', ready: [{ size: { ...DEFAULT_SIZE }, state: 'ready', step: 'ready', progress: 1 }] }],
      built: [],
    };
  }

  async getCapabilities() {
    return {
      runtime: 'memory',
      accelerator: { name: 'tcg', reason: 'a test', remedy: null },
      vmmVersion: '1',
      jail: { inForce: [], missing: [] },
      limits: { ...SIZE_LIMITS, forkCount: { min: 1, max: 20 } },
      memory: { totalMib: 1, promisedMib: 0 },
      vaults: [],
      pool: { budgetMib: 0, takenMib: 0, members: 0, filling: 0, hits: 0, misses: 0 },
      archives: [],
      egress: { available: false, reason: 'there is nothing to leave', remedy: null },
    } as const satisfies object as unknown as Awaited<ReturnType<UseCases['getCapabilities']>>;
  }

  async readiness(): Promise<Readiness> {
    return {
      ready: this.ready,
      checks: [{ name: 'memory', ready: this.ready, detail: this.ready ? 'fine' : 'missing' }],
    };
  }

  async *#cat(): AsyncGenerator<ProcessEvent> {
    await this.inputEnded.promise;
    yield out(Buffer.concat(this.inputs));
    yield exited(0);
  }

  async *#much(count: number): AsyncGenerator<ProcessEvent> {
    const chunk = new Uint8Array(1024 * 1024).fill(97);
    for (let index = 0; index < count; index += 1) {
      this.seen.produced += chunk.length;
      yield out(chunk);
    }
    yield exited(0);
  }

  async *#endless(caller: Caller): AsyncGenerator<ProcessEvent> {
    const chunk = new Uint8Array(64 * 1024).fill(120);
    try {
      while (!caller.signal.aborted) {
        this.seen.produced += chunk.length;
        yield out(chunk);
      }
    } finally {
      this.seen.ended += 1;
      if (caller.signal.aborted) this.seen.aborted += 1;
    }
  }

  async *#endlessBytes(): AsyncGenerator<Uint8Array> {
    const chunk = new Uint8Array(64 * 1024);
    try {
      for (;;) {
        this.seen.produced += chunk.length;
        yield chunk;
      }
    } finally {
      this.seen.ended += 1;
    }
  }

  /** Says nothing for a time, or until its signal aborts. */
  async *#quiet({ signal }: Caller, milliseconds: number): AsyncGenerator<ProcessEvent> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => resolve());
    await promise;
    clearTimeout(timer);
    this.seen.ended += 1;
    if (signal.aborted) {
      this.seen.aborted += 1;
      return;
    }
    yield exited(0);
  }

  #find(reference: string): Stored | undefined {
    return (
      this.sandboxes.get(reference) ?? [...this.sandboxes.values()].find(({ sandbox }) => sandbox.name === reference)
    );
  }

  #get(reference: string): Stored {
    const found = this.#find(reference);
    if (found === undefined) throw new AppError('not_found', 'There is no such sandbox.');
    return found;
  }

  #past(wanted: Input<'rewindSandbox'>['to']): Snapshot {
    if (typeof wanted === 'string') return this.#snapshot(wanted);
    const at = 'at' in wanted ? Date.parse(wanted.at) : Date.now() - wanted.agoMs;
    const past = [...this.snapshots.values()].findLast(({ takenAt }) => Date.parse(takenAt) <= at);
    if (past === undefined) throw new AppError('not_found', 'There is no snapshot from that time.');
    return past;
  }

  #snapshot(reference: string): Snapshot {
    const found = this.snapshots.get(reference) ?? [...this.snapshots.values()].find(({ name }) => name === reference);
    if (found === undefined) throw new AppError('not_found', 'There is no such snapshot.');
    return found;
  }

  #store(name: string | null, env: Record<string, string>, metadata: Record<string, string>): Stored {
    const now = new Date().toISOString();
    const sandbox: Sandbox = {
      id: newId('sandbox', chance),
      name,
      status: 'running',
      template: 'base',
      size: { ...DEFAULT_SIZE },
      generation: 1,
      head: null,
      forkedFrom: null,
      createdAt: now,
      updatedAt: now,
      metadata,
      crash: null,
      pauseFailure: null,
      moved: null,
      archiving: null,
      idle: { pauseAfterMs: 600_000 },
      wakeAt: null,
      expiry: null,
      runs: DEFAULT_RUNS,
      startedAt: now,
      publicPorts: false,
      secrets: [],
      missingSecrets: [],
      network: { preset: 'packages', allow: [], ask: [], deny: [] },
      snapshots: { everyMs: null, budgetMs: null, retention: null, archive: null },
    };
    const stored: Stored = { sandbox, env, files: new FakeFiles() };
    this.sandboxes.set(sandbox.id, stored);
    return stored;
  }

  #change(id: string, change: Partial<Sandbox>): Sandbox {
    const stored = this.#get(id);
    stored.sandbox = { ...stored.sandbox, ...change, updatedAt: new Date().toISOString() };
    return stored.sandbox;
  }

  #take(id: string, cause: Snapshot['cause'], name: string | null, note: string | null): Snapshot {
    const { sandbox } = this.#get(id);
    const snapshotId: SnapshotId = newId('snapshot', chance);
    const snapshot: Snapshot = {
      id: snapshotId,
      sandboxId: sandbox.id,
      name,
      note,
      cause,
      kind: 'memory',
      degraded: null,
      pinned: cause === 'snapshot',
      parent: sandbox.head,
      generation: sandbox.generation,
      template: sandbox.template,
      takenAt: new Date().toISOString(),
      state: 'good',
      badReason: null,
      checkedAt: null,
      timings: { stoppedMs: 1.5, frozenMs: 2, totalMs: 3 },
      changed: { diskBytes: 0, memoryBytes: 4096 },
    };
    this.snapshots.set(snapshotId, snapshot);
    this.#change(id, { head: snapshotId });
    return snapshot;
  }
}

function attributeOf(input: Input<'getXattr'>) {
  const { path, pathBase64, name, nameBase64 } = input;
  return { path: givenBytes(path, pathBase64), name: givenBytes(name, nameBase64) };
}

/** As a guest does that answers while the next piece of the body is still waited for. */
async function refuseWhileReading(body: AsyncIterable<Uint8Array>): Promise<never> {
  const pieces = body[Symbol.asyncIterator]();
  await pieces.next();
  void pieces.next().then(() => pieces.return?.());
  throw new AppError('guest_full', 'no space');
}

/** Takes a body of any size and keeps none of it. */
async function drained(body: AsyncIterable<Uint8Array>) {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of body) {
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  return { sizeBytes, sha256: hash.digest('hex') };
}

async function* chunksOf(bytes: Uint8Array, size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < bytes.length; offset += size) yield bytes.subarray(offset, offset + size);
}

function statusOf(path: string, sizeBytes: number, mode: number): FileStatus {
  return {
    name: path.split('/').at(-1) ?? '',
    type: 'file',
    sizeBytes,
    mode,
    uid: 1000,
    gid: 1000,
    modifiedMs: 1.7e12,
  };
}
