/**
 * The use-cases in memory, for tests of the faces over them: sandboxes are records, files are bytes, and commands are a
 * handful of words (`COMMANDS` below).
 */
import { createHash, randomBytes } from 'node:crypto';
import type {
  Caller,
  ExecEvent,
  ForkResult,
  Input,
  OpenFile,
  ProcessList,
  Readiness,
  Rewound,
  Sandbox,
  SandboxDetail,
  SandboxList,
  Snapshot,
  SnapshotList,
  TemplateList,
  UseCases,
} from '@space/contract';
import {
  AppError,
  DEFAULT_SIZE,
  type ErrorCode,
  type FileStatus,
  newId,
  type ProcessId,
  SIZE_LIMITS,
  type SnapshotId,
} from '@space/core';

const chance = { bytes: (count: number) => randomBytes(count) };
const bytesOf = (text: string) => new TextEncoder().encode(text);

interface Stored {
  sandbox: Sandbox;
  env: Record<string, string>;
  files: Map<string, { bytes: Uint8Array; mode: number }>;
}

type Command = (context: {
  readonly caller: Caller;
  readonly argument: string;
  readonly env: Readonly<Record<string, string>>;
}) => AsyncGenerator<ExecEvent>;

const out = (text: string | Uint8Array, stream: 'stdout' | 'stderr' = 'stdout'): ExecEvent => ({
  kind: 'output',
  stream,
  data: typeof text === 'string' ? bytesOf(text) : text,
});
const exited = (code: number): ExecEvent => ({ kind: 'exited', exit: { code }, timedOut: false });

export class MemoryUseCases implements UseCases {
  readonly sandboxes = new Map<string, Stored>();
  readonly snapshots = new Map<string, Snapshot>();
  readonly signals: string[] = [];
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
      yield { kind: 'exited', exit: { signal: 9 }, timedOut: true };
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
    /** Does not heed its signal at once. */
    stubborn: async function* () {
      await new Promise((resolve) => setTimeout(resolve, 200));
      yield exited(0);
    },
    endless: (context) => this.#endless(context.caller),
    much: async function* ({ argument }) {
      const chunk = new Uint8Array(1024 * 1024).fill(97);
      for (let index = 0; index < Number(argument); index += 1) yield out(chunk);
      yield exited(0);
    },
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

  async deleteSandbox(_caller: Caller, { id }: Input<'deleteSandbox'>): Promise<void> {
    this.sandboxes.delete(this.#get(id).sandbox.id);
  }

  async *exec(caller: Caller, input: Input<'exec'>): AsyncGenerator<ExecEvent> {
    const { env } = this.#get(input.id);
    const [word = '', ...rest] = input.argv ?? (input.command ?? '').split(' ');
    const command = this.commands[word];
    if (command === undefined) throw new AppError('command_not_started', `${word}: not found`);
    yield { kind: 'started', processId: newId('process', chance), pid: 42 };
    yield* command({ caller, argument: rest.join(' '), env: { ...env, ...input.env } });
  }

  async listProcesses(_caller: Caller, { id }: Input<'listProcesses'>): Promise<ProcessList> {
    this.#get(id);
    return { processes: [{ processId: newId('process', chance), pid: 42, argv: ['sleep', '1'], leaderAlive: true }] };
  }

  async signalProcess(_caller: Caller, input: Input<'signalProcess'>): Promise<void> {
    this.#get(input.id);
    this.signals.push(`${input.processId satisfies ProcessId} ${input.signal}`);
  }

  async readFile(_caller: Caller, input: Input<'readFile'>): Promise<OpenFile> {
    if (input.path === '/broken') return { status: statusOf('broken', 100, 0o600), body: chunksOf(new Uint8Array(50)) };
    if (input.path === '/proc/x')
      return { status: statusOf('x', 0, 0o444), body: chunksOf(bytesOf('from the kernel')) };
    if (input.path === '/endless') return { status: statusOf('endless', 2 ** 40, 0o644), body: this.#endlessBytes() };
    const file = this.#file(input.id, input.path);
    const { offset = 0, length = file.bytes.length } = input;
    return {
      status: statusOf(input.path, file.bytes.length, file.mode),
      body: chunksOf(file.bytes.subarray(offset, offset + length)),
    };
  }

  async writeFile(caller: Caller, input: Input<'writeFile'>, body: AsyncIterable<Uint8Array>) {
    const stored = this.#get(input.id);
    if (input.path === '/full') throw new AppError('guest_full', 'no space');
    const hash = createHash('sha256');
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    try {
      for await (const chunk of body) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        if (input.path !== '/dev/null') chunks.push(chunk);
      }
    } catch (error) {
      this.seen.writeFailed += 1;
      throw error;
    }
    caller.signal.throwIfAborted();
    stored.files.set(input.path, { bytes: Buffer.concat(chunks), mode: input.mode ?? 0o644 });
    return { sizeBytes, sha256: hash.digest('hex') };
  }

  async statFile(_caller: Caller, input: Input<'statFile'>): Promise<FileStatus> {
    const file = this.#file(input.id, input.path);
    return statusOf(input.path, file.bytes.length, file.mode);
  }

  async *listFiles(_caller: Caller, input: Input<'listFiles'>): AsyncGenerator<FileStatus> {
    const { files } = this.#get(input.id);
    if (input.path === '/missing') throw new AppError('file_not_found', 'no such directory');
    for (const [path, file] of files) yield statusOf(path, file.bytes.length, file.mode);
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

  async getTimeline(_caller: Caller, { id }: Input<'getTimeline'>): Promise<SnapshotList> {
    const { sandbox } = this.#get(id);
    return {
      snapshots: [...this.snapshots.values()].filter((point) => point.sandboxId === sandbox.id).reverse(),
      nextCursor: null,
    };
  }

  /** The child after the third fails. */
  async forkSandbox(_caller: Caller, input: Input<'forkSandbox'>): Promise<readonly ForkResult[]> {
    const { env, sandbox } = this.#get(input.id);
    const point = input.from === undefined ? this.#take(input.id, 'fork', null, null) : this.#snapshot(input.from);
    return Array.from({ length: input.count }, (_, index) => {
      if (index >= 3) return { error: new AppError('insufficient_memory', 'too many') };
      const child = this.#store(null, env, sandbox.metadata);
      child.sandbox = { ...child.sandbox, forkedFrom: { sandboxId: sandbox.id, snapshotId: point.id } };
      return { sandbox: child.sandbox };
    });
  }

  async rewindSandbox(_caller: Caller, input: Input<'rewindSandbox'>): Promise<Rewound> {
    const to = this.#snapshot(input.to);
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

  async deleteSnapshot(_caller: Caller, { id }: Input<'deleteSnapshot'>): Promise<void> {
    this.snapshots.delete(this.#snapshot(id).id);
  }

  async listTemplates(): Promise<TemplateList> {
    return {
      templates: [{ name: 'base', ready: [{ size: { ...DEFAULT_SIZE }, state: 'ready', step: 'ready', progress: 1 }] }],
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
    } as const satisfies object as unknown as Awaited<ReturnType<UseCases['getCapabilities']>>;
  }

  async readiness(): Promise<Readiness> {
    return {
      ready: this.ready,
      checks: [{ name: 'memory', ready: this.ready, detail: this.ready ? 'fine' : 'missing' }],
    };
  }

  async *#endless(caller: Caller): AsyncGenerator<ExecEvent> {
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
  async *#quiet({ signal }: Caller, milliseconds: number): AsyncGenerator<ExecEvent> {
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

  #file(id: string, path: string) {
    const file = this.#get(id).files.get(path);
    if (file === undefined) throw new AppError('file_not_found', 'no such file');
    return file;
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
    };
    const stored: Stored = { sandbox, env, files: new Map() };
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
      parent: sandbox.head,
      generation: sandbox.generation,
      template: sandbox.template,
      takenAt: new Date().toISOString(),
      state: 'good',
      badReason: null,
      timings: { stoppedMs: 1.5, frozenMs: 2, totalMs: 3 },
    };
    this.snapshots.set(snapshotId, snapshot);
    this.#change(id, { head: snapshotId });
    return snapshot;
  }
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
