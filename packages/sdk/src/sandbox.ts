/** A sandbox, as a program holds it: a name for something that lives on the server, with what was last known of it. */
import type {
  EgressList,
  Exported,
  ForkResults,
  ProcessList,
  Rewound,
  SandboxConsole,
  SandboxDetail,
  Sandbox as SandboxFields,
  SandboxList,
  SandboxMetrics,
  Snapshot,
  Timeline as TimelinePage,
} from '@space/contract';
import { type ExportProgress, followExport } from './archives.ts';
import { fromProblem, SpaceError } from './errors.ts';
import {
  type AttachOptions,
  attachEvents,
  type ExecEvent,
  type ExecOptions,
  execEvents,
  type Process,
  type RunOptions,
  type RunResult,
  run,
  type SignalName,
  type StartedProcess,
  type StartOptions,
  start,
  type TerminalSize,
} from './exec.ts';
import { type FileContent, Files } from './files.ts';
import { type InputOptions, writeInput } from './input.ts';
import { refuseUnknown } from './options.ts';
import { itemsOf, pagesOf } from './pages.ts';
import { Ports } from './ports.ts';
import { Schedules } from './schedules.ts';
import { type CallOptions, type ConnectionOptions, Transport, withoutConnection } from './transport.ts';

export type { Exported, SandboxFields, SandboxMetrics, Snapshot };

/** A time: it means the newest snapshot that was taken at or before it. */
export type PastTime = { readonly at: Date | string } | { readonly agoMs: number };

/** When it is snapshotted by itself, and how long the points stay. Null: as the project has it. */
export interface SnapshotPolicyChoice {
  /** 10000 to 3600000, or off. Default: every minute, if it has changed. */
  readonly everyMs?: number | 'off' | null;
  /** How long its processes may stand still for one; else it is skipped. Default 100. */
  readonly budgetMs?: number | null;
  /** For points up to an age, one is kept per so long (0: each). Pinned and named ones stay for ever. */
  readonly retention?: readonly { readonly forMs: number; readonly everyMs: number }[] | null;
  /** How often its newest snapshot is brought into an archive; `fields.archiving` says how that goes. */
  readonly archive?: { readonly everyMs: number; readonly location: string } | 'off' | null;
}

/** The points of a sandbox, newest first, what was forked from them, when none was taken and why, and what holds now. */
export type Timeline = Omit<TimelinePage, 'nextCursor'>;

/** A host that may be reached: a name, `*.` and a name (all below it, not itself), an address, or `*`. */
export type NetworkRule =
  /** Requests, each of them judged. Left out: reading only, on port 443, any path. */
  | {
      readonly host: string;
      readonly protocol?: 'http';
      readonly ports?: readonly number[] | 'all';
      readonly access?: 'read' | 'write';
      /** Requests for it and what lies below it. */
      readonly path?: string;
      /**
       * What the host speaks there. Then fetches of `git`, queries of `graphql`, what `mcp` has that calls no tool, and the `reads` of
       * `json-rpc` are reads too. What cannot be told is a write.
       */
      readonly speaks?: 'git' | 'mcp' | 'graphql' | 'json-rpc';
      /** Of `mcp`: the tools that may be called, by name, or with `*` at the end. */
      readonly tools?: readonly string[];
      /** Of `json-rpc`: the methods that read, in the same form. */
      readonly reads?: readonly string[];
    }
  /** TLS that is not opened, by its SNI; or any bytes. */
  | { readonly host: string; readonly protocol: 'tls' | 'tcp'; readonly ports: readonly number[] | 'all' };

/** Requests that are held until a reviewer has approved them. Left out: all, on port 443, of any path. */
export interface AskRule {
  readonly host: string;
  readonly ports?: readonly number[] | 'all';
  /** `write`: only those that write. */
  readonly access?: 'any' | 'write';
  readonly path?: string;
  /** As in a rule that allows. */
  readonly speaks?: 'git' | 'mcp' | 'graphql' | 'json-rpc';
  /** Of `mcp`: only what calls, or may call, one of these is held. */
  readonly tools?: readonly string[];
  /** Of `json-rpc`: the methods that read. */
  readonly reads?: readonly string[];
}

/** What it may reach. Replaced as a whole; what is left out is the stricter thing. */
export interface NetworkChoice {
  /** `none` (default here): nothing. `packages`: reading from public package registries. `internet`: public addresses. */
  readonly preset?: 'none' | 'packages' | 'internet';
  readonly allow?: readonly NetworkRule[];
  /** Above what allows. */
  readonly ask?: readonly AskRule[];
  /** Hosts that are not reached, and tools of MCP servers that are not called, whatever allows it. */
  readonly deny?: readonly (
    | string
    | { readonly host: string; readonly path?: string; readonly tools: readonly string[] }
  )[];
}

/** One request that left or was refused, or one connection of which nothing could be read. */
export type EgressRecord = EgressList['records'][number];

/** A pause keeps everything, in a last snapshot (`pause_files`: its files alone), and the next use wakes it, without an expiry. */
export interface ExpiryChoice {
  readonly at: Date | string;
  readonly action?: 'pause' | 'pause_files' | 'delete';
}

/** What begins and ends the runs of a sandbox; what is left out has its default. */
export interface RunPolicy {
  /** Each run gets an expiry so long after it began, if it has none; a pause takes it away again. Null (default): none. */
  readonly limitMs?: number | null;
  /** What happens then; default `pause`. */
  readonly atLimit?: 'pause' | 'pause_files' | 'delete';
  /** False: when it is paused, only `resume` wakes it; a use is refused. Default true. */
  readonly wakeOnUse?: boolean;
}

/** A sandbox that is idle is paused, never deleted; the next use wakes it. */
export interface IdlePolicy {
  /** At least 10000; null: never. */
  readonly pauseAfterMs: number | null;
}

export interface CreateOptions extends ConnectionOptions, CallOptions {
  /** Name of a template; default `base`. Not together with `snapshot`. */
  readonly template?: string;
  /** Snapshot to start from: a snapshot, its id or its name. */
  readonly snapshot?: Snapshot | string;
  /** 1 to 63 of a-z, 0-9 and dash, starting with a letter; unique. */
  readonly name?: string;
  /** What is left out has its default. Memory and disk in MiB. */
  readonly size?: { readonly vcpus?: number; readonly memoryMib?: number; readonly diskMib?: number };
  /** Environment of every command that is run. */
  readonly env?: Readonly<Record<string, string>>;
  /** Your own labels. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** When it is paused because nobody uses it; default: after 10 minutes without use or work. */
  readonly idle?: IdlePolicy;
  /** When it is woken, once, if it is paused then. */
  readonly wakeAt?: Date | string;
  /** When it ends by itself, and whether it is paused then (default) or deleted; left out: never. */
  readonly expiry?: ExpiryChoice;
  readonly runs?: RunPolicy;
  /** Whether whoever reaches the server reaches its ports, without a key; default false. */
  readonly publicPorts?: boolean;
  /** When it is snapshotted by itself; default: every minute in which it changed. */
  readonly snapshots?: SnapshotPolicyChoice;
  /** What it may reach; left out: the preset `packages`. */
  readonly network?: NetworkChoice;
  /** Names of secret bindings that it may use, of those that its project may. */
  readonly secrets?: readonly string[];
}

/** What is left out stays. */
export interface UpdateOptions extends CallOptions {
  readonly idle?: IdlePolicy;
  /** Null: it is not woken by itself. */
  readonly wakeAt?: Date | string | null;
  /** Sooner or later than before; null: never. */
  readonly expiry?: ExpiryChoice | null;
  /** Replaces all of it. */
  readonly runs?: RunPolicy;
  readonly publicPorts?: boolean;
  readonly snapshots?: SnapshotPolicyChoice;
  /** Replaces what it may reach. Open connections that are not allowed any more are cut before this returns. */
  readonly network?: NetworkChoice;
  /** Names of secret bindings that it may use, of those that its project may. */
  readonly secrets?: readonly string[];
}

export interface ListOptions extends ConnectionOptions, CallOptions {
  readonly status?: SandboxFields['status'];
}

export interface SnapshotOptions extends CallOptions {
  /** 1 to 63 of a-z, 0-9 and dash, starting with a letter; unique among snapshots. */
  readonly name?: string;
  /** Free text, at most 4096 characters. */
  readonly note?: string;
}

export interface ForkOptions extends CallOptions {
  /** A past snapshot of this sandbox, or a time; default: its present state. */
  readonly from?: Snapshot | string | PastTime;
  /** Whether the copies may use the secret bindings of this one. Default false: they have none. */
  readonly inheritSecrets?: boolean;
}

export interface RewindOptions extends CallOptions {
  /** Default true. */
  readonly keepPresent?: boolean;
}

export interface ExportOptions extends CallOptions {
  /** A place for archives that the platform has; default `default`. */
  readonly location?: string;
  /** One of its own snapshots; default: its present. */
  readonly snapshot?: Snapshot | string;
  /** All of its snapshots up to that one; default false. */
  readonly timeline?: boolean;
  /** An earlier archive of it, in the same place. */
  readonly base?: string;
  /** Called now and then while it lasts. */
  readonly onProgress?: (progress: ExportProgress) => void;
}

export interface MoveSandboxOptions extends CallOptions {
  /** A place for archives that both installations have; default `default`. */
  readonly location?: string;
  /** All of its snapshots go along; default true. */
  readonly timeline?: boolean;
  /** An earlier archive of it, in the same place. */
  readonly base?: string;
}

export interface ImportOptions extends ConnectionOptions, CallOptions {
  /** Where the archive lies; default `default`. */
  readonly location?: string;
  /** `move`: the sandbox itself, which one installation can have; default `copy`. */
  readonly as?: 'copy' | 'move';
  readonly name?: string;
  /** The archive of a copy holds no environment and no labels. */
  readonly env?: Readonly<Record<string, string>>;
  readonly metadata?: Readonly<Record<string, string>>;
  /** The disk alone, booted; default false. */
  readonly boot?: boolean;
}

/** Some children of a fork could not be made. Those that were made run, and are in `sandboxes`. */
export class ForkError extends AggregateError {
  override readonly name = 'ForkError';
  readonly sandboxes: readonly Sandbox[];
  declare readonly errors: SpaceError[];

  constructor(sandboxes: readonly Sandbox[], errors: readonly SpaceError[]) {
    const total = sandboxes.length + errors.length;
    super(errors, `${errors.length} of ${total} forks failed: ${errors[0]?.message ?? ''}`);
    this.sandboxes = sandboxes;
  }
}

export interface PauseOptions extends CallOptions {
  /** Default: `disk`. */
  readonly keep?: 'disk' | 'files';
}

export class Sandbox implements AsyncDisposable {
  readonly files: Files;
  readonly ports: Ports;
  /** Times at which it is woken again and again. */
  readonly schedules: Schedules;
  readonly #transport: Transport;
  readonly #path: string;
  #fields: SandboxFields;

  private constructor(transport: Transport, fields: SandboxFields) {
    this.#transport = transport;
    this.#fields = fields;
    this.#path = `/v1/sandboxes/${fields.id}`;
    this.files = new Files(transport, this.#path);
    this.ports = new Ports(transport, fields.id);
    this.schedules = new Schedules(transport, this.#path);
  }

  /**
   * Makes a sandbox; it runs when this returns. The first create of a template in a size takes tens of seconds, on a slow
   * machine minutes.
   *
   * Errors: `template_unknown`, `size_impossible`, `name_taken`, `insufficient_memory`, `insufficient_space`, …
   */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    const { snapshot, signal, ...given } = withoutConnection(options);
    const { template, name, size, env, metadata, idle, wakeAt, expiry, runs, publicPorts, ...more } = given;
    const { snapshots, network, secrets, ...unknown } = more;
    refuseUnknown(unknown);
    const transport = new Transport(options);
    const own = { name, env, metadata, idle, wakeAt, expiry, runs, publicPorts, snapshots, network, secrets };
    const json = { template, snapshot: referenceOf(snapshot), size, ...own };
    const fields = await transport.json<SandboxFields>({ method: 'POST', path: '/v1/sandboxes', json, signal });
    return new Sandbox(transport, fields);
  }

  /**
   * Makes a sandbox from an archive, as `export` has named it; it runs when this returns. It is a copy, with an id and an
   * identity of its own; or, `as: 'move'` from what `move` has named, the sandbox itself, which one installation can have. All that is read is checked against the digests that hang on the name.
   *
   * Errors: `archive_damaged`, `archive_unsupported`, `archive_unavailable`, `not_found`; `snapshot_unfit` when its memory
   * needs what is not there: then `boot: true` takes its disk alone; `move_taken`.
   */
  static async import(archive: string, options: ImportOptions = {}): Promise<Sandbox> {
    const { location, as, name, env, metadata, boot, signal, ...unknown } = withoutConnection(options);
    refuseUnknown(unknown);
    const transport = new Transport(options);
    const json = { archive, location, as, name, env, metadata, boot };
    const call = { method: 'POST', path: '/v1/sandboxes/import', json, signal } as const;
    return new Sandbox(transport, await transport.json<SandboxFields>(call));
  }

  /** The sandbox of that id or name. It is not woken. Throws `not_found`. */
  static async connect(idOrName: string, options: ConnectionOptions & CallOptions = {}): Promise<Sandbox> {
    const { signal, ...unknown } = withoutConnection(options);
    refuseUnknown(unknown);
    const transport = new Transport(options);
    return new Sandbox(transport, await getFields(transport, idOrName, signal));
  }

  /** All sandboxes, newest first, fetched page by page. */
  static async list(options: ListOptions = {}): Promise<Sandbox[]> {
    const { status, signal, ...unknown } = withoutConnection(options);
    refuseUnknown(unknown);
    const transport = new Transport(options);
    const pages = pagesOf<SandboxList>(transport, '/v1/sandboxes', { status }, signal);
    return itemsOf(pages, (page) => page.sandboxes.map((fields) => new Sandbox(transport, fields)));
  }

  get id(): string {
    return this.#fields.id;
  }

  get name(): string | null {
    return this.#fields.name;
  }

  /** As of the last call that told; `refresh` asks again. */
  get status(): SandboxFields['status'] {
    return this.#fields.status;
  }

  /** Everything that was last known of it. */
  get fields(): SandboxFields {
    return this.#fields;
  }

  /**
   * Runs a command and waits for its end: a line of shell (`/bin/bash -lc`), or a program with its arguments. A non-zero
   * exit is a result, not an exception. Aborting the signal ends the waiting; the command runs on (see `kill`).
   *
   * Errors: `command_not_started`, `vm_lost`, `link_lost`, …: then how the command ended is not known.
   */
  run(command: string | readonly string[], options: RunOptions = {}): Promise<RunResult> {
    return run(this.#transport, this.#path, command, options);
  }

  /** As `run`, giving the events as they come. The stream waits for its reader, and the command then waits too. */
  exec(command: string | readonly string[], options: ExecOptions = {}): AsyncGenerator<ExecEvent> {
    return execEvents(this.#transport, this.#path, command, options);
  }

  /** Starts a command and does not wait for it. It goes on whoever reads its output; `attach` gives that, and its end. */
  start(command: string | readonly string[], options: StartOptions = {}): Promise<StartedProcess> {
    return start(this.#transport, this.#path, command, options);
  }

  /**
   * The events of a process from a position on, `started` first, as `exec` gives them. The sandbox keeps the last 1 MiB of
   * each stream, also of the last 64 processes that have ended; what is no longer there comes as a `lost` event.
   *
   * Errors: `not_found`; `bad_request` for an offset that it has not printed yet (as after a rewind).
   */
  attach(processId: string, options: AttachOptions = {}): AsyncGenerator<ExecEvent> {
    return attachEvents(this.#transport, this.#path, processId, options);
  }

  /**
   * Gives input to a process that was started with `stdin` or `pty`; returns, when it has taken all, how many bytes it has
   * taken since its start. Errors: `input_closed`, `not_found`.
   */
  writeInput(processId: string, content: FileContent, options: InputOptions = {}): Promise<number> {
    return writeInput(this.#transport, this.#path, processId, content, options);
  }

  /** Sets the size of the terminal of a process. */
  async resizeTerminal(processId: string, size: TerminalSize, { signal, ...unknown }: CallOptions = {}): Promise<void> {
    refuseUnknown(unknown);
    const path = `${this.#path}/processes/${encodeURIComponent(processId)}/resize`;
    await this.#transport.done({ method: 'POST', path, json: { cols: size.cols, rows: size.rows }, signal });
  }

  /** The processes that were started here and that are not gone; with `ended`, the last that have ended, too. */
  async processes({ ended, signal, ...unknown }: CallOptions & { readonly ended?: boolean } = {}): Promise<Process[]> {
    refuseUnknown(unknown);
    const query = { ended: ended === undefined ? undefined : String(ended) };
    const call = { method: 'GET', path: `${this.#path}/processes`, query, signal } as const;
    return (await this.#transport.json<ProcessList>(call)).processes;
  }

  /**
   * Sends a signal to a process and its descendants, or to it alone (`target: 'leader'`). For the default, SIGKILL to all,
   * they are gone when this returns.
   */
  async kill(
    processId: string,
    name: SignalName = 'SIGKILL',
    { target, signal, ...unknown }: CallOptions & { readonly target?: 'tree' | 'leader' } = {},
  ): Promise<void> {
    refuseUnknown(unknown);
    const path = `${this.#path}/processes/${encodeURIComponent(processId)}/signal`;
    await this.#transport.done({ method: 'POST', path, json: { signal: name, target }, signal });
  }

  /** Takes a snapshot, durable when this returns, and pins it; the sandbox goes on. A named one outlives the sandbox. */
  async snapshot({ name, note, signal, ...unknown }: SnapshotOptions = {}): Promise<Snapshot> {
    refuseUnknown(unknown);
    return this.#transport.json({ method: 'POST', path: `${this.#path}/snapshots`, json: { name, note }, signal });
  }

  /** Its snapshots, each with its parent, and what was forked from them: its part of the tree. */
  async timeline({ signal, ...unknown }: CallOptions = {}): Promise<Timeline> {
    refuseUnknown(unknown);
    const pages: TimelinePage[] = [];
    const source = pagesOf<TimelinePage>(this.#transport, `${this.#path}/snapshots`, {}, signal);
    for await (const page of source) pages.push(page);
    const [first] = pages;
    if (first === undefined) throw new Error('a list has a page');
    return {
      policy: first.policy,
      snapshots: pages.flatMap(({ snapshots }) => snapshots),
      forks: pages.flatMap(({ forks }) => forks),
      skipped: pages.flatMap(({ skipped }) => skipped),
    };
  }

  /**
   * Makes `count` running copies, all from one instant. Throws `ForkError`, which holds the copies that were made, when
   * some could not be; a plain `SpaceError` when none was.
   */
  async fork(count = 1, { from, inheritSecrets, signal, ...unknown }: ForkOptions = {}): Promise<Sandbox[]> {
    refuseUnknown(unknown);
    const json = { count, inheritSecrets, from: from === undefined ? undefined : pastPoint(from) };
    const call = { method: 'POST', path: `${this.#path}/fork`, json, signal } as const;
    const { results } = await this.#transport.json<ForkResults>(call);
    const sandboxes: Sandbox[] = [];
    const errors: SpaceError[] = [];
    for (const result of results) {
      if ('sandbox' in result) sandboxes.push(new Sandbox(this.#transport, result.sandbox));
      else errors.push(fromProblem(result.problem));
    }
    if (errors.length > 0) throw new ForkError(sandboxes, errors);
    return sandboxes;
  }

  /**
   * Puts it back to a snapshot, or to how it was at a time (`{ agoMs: 600_000 }`). Returns the snapshot that holds what it was: rewind to that to undo. `keepPresent: false`
   * gives the present up instead, for a sandbox whose processes cannot be made to stand still any more. A snapshot whose `kind` is
   * `disk` holds no memory: the sandbox boots, and none of its programs runs on.
   */
  async rewind(
    to: Snapshot | string | PastTime,
    { keepPresent, signal, ...unknown }: RewindOptions = {},
  ): Promise<Snapshot | null> {
    refuseUnknown(unknown);
    const json = { to: pastPoint(to), keepPresent };
    const call = { method: 'POST', path: `${this.#path}/rewind`, json, signal } as const;
    const { sandbox, kept } = await this.#transport.json<Rewound>(call);
    this.#fields = sandbox;
    return kept;
  }

  /**
   * Brings it into an archive, durable when this returns: its present (a snapshot is taken when it runs), a `snapshot` of it,
   * or its whole `timeline` up to that. It goes on meanwhile. Give the archive before as `base`: what is in that one is not
   * read again. An export that broke off is done again, and goes on where it was.
   */
  async export(options: ExportOptions = {}): Promise<Exported> {
    const { location, snapshot, timeline, base, onProgress, signal, ...unknown } = options;
    refuseUnknown(unknown);
    const json = { location, snapshot: referenceOf(snapshot), timeline, base };
    const call = { method: 'POST', path: `${this.#path}/export`, json, signal } as const;
    return onProgress === undefined ? this.#transport.json(call) : followExport(this.#transport, call, onProgress);
  }

  /**
   * Hands it over: its `archive` can then be imported `as: 'move'`, once, here or in another installation that has the same place for
   * archives. It is paused and never runs here again, unless `undoMove` takes it back before. Repeated, it tells the archive again.
   */
  async move({ location, timeline, base, signal, ...unknown }: MoveSandboxOptions = {}): Promise<Exported> {
    refuseUnknown(unknown);
    const json = { location, timeline, base };
    return this.#transport.json({ method: 'POST', path: `${this.#path}/move`, json, signal });
  }

  /** Takes a move back that nobody has taken up: it is paused, as it left. Throws `move_taken` when somebody has. */
  async undoMove({ signal, ...unknown }: CallOptions = {}): Promise<this> {
    refuseUnknown(unknown);
    this.#fields = await this.#transport.json({ method: 'DELETE', path: `${this.#path}/move`, signal });
    return this;
  }

  /** What left it or was refused, newest first, fetched as they are asked for. */
  async *egress({ signal, ...unknown }: CallOptions = {}): AsyncGenerator<EgressRecord> {
    refuseUnknown(unknown);
    const pages = pagesOf<EgressList>(this.#transport, `${this.#path}/egress`, {}, signal);
    for await (const page of pages) yield* page.records;
  }

  /** Changes what it may reach, and when it is paused as idle, woken or snapshotted, or ends. */
  async update({
    idle,
    wakeAt,
    expiry,
    runs,
    publicPorts,
    snapshots,
    network,
    secrets,
    signal,
    ...unknown
  }: UpdateOptions): Promise<this> {
    refuseUnknown(unknown);
    const json = { idle, wakeAt, expiry, runs, publicPorts, snapshots, network, secrets };
    this.#fields = await this.#transport.json({ method: 'PATCH', path: this.#path, json, signal });
    return this;
  }

  /** Keeps everything on disk and frees the microVM. The next use wakes it. With `keep: 'files'` only files are kept, and it boots then. */
  async pause({ keep, signal, ...unknown }: PauseOptions = {}): Promise<this> {
    refuseUnknown(unknown);
    return this.#change('pause', signal, { keep });
  }

  async resume({ signal, ...unknown }: CallOptions = {}): Promise<this> {
    refuseUnknown(unknown);
    return this.#change('resume', signal, {});
  }

  /** Asks the server what it is now. */
  async refresh({ signal, ...unknown }: CallOptions = {}): Promise<this> {
    refuseUnknown(unknown);
    this.#fields = await getFields(this.#transport, this.id, signal);
    return this;
  }

  /**
   * What it takes of the host: now (null while it does not run), and every 10 s over the last hour. It is not woken.
   */
  async metrics({ signal, ...unknown }: CallOptions = {}): Promise<SandboxMetrics> {
    refuseUnknown(unknown);
    return this.#transport.json({ method: 'GET', path: `${this.#path}/metrics`, signal });
  }

  /**
   * The last 64 KiB or less of what its kernel wrote to the console in its present run; null while it does not run. Root in
   * the sandbox can write anything to it: escape it before it is shown. It is not woken.
   */
  async console({ signal, ...unknown }: CallOptions = {}): Promise<string | null> {
    refuseUnknown(unknown);
    const call = { method: 'GET', path: `${this.#path}/console`, signal } as const;
    return (await this.#transport.json<SandboxConsole>(call)).text;
  }

  /** The environment that it was created with. */
  async env({ signal, ...unknown }: CallOptions = {}): Promise<Record<string, string>> {
    refuseUnknown(unknown);
    return (await getDetail(this.#transport, this.id, signal)).env;
  }

  /** Deletes it, with its unnamed snapshots. Of one that is gone already: nothing. */
  async delete({ signal, ...unknown }: CallOptions = {}): Promise<void> {
    refuseUnknown(unknown);
    try {
      await this.#transport.done({ method: 'DELETE', path: this.#path, signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** `await using` deletes it at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete();
  }

  async #change(verb: 'pause' | 'resume', signal: AbortSignal | undefined, json: object): Promise<this> {
    this.#fields = await this.#transport.json({ method: 'POST', path: `${this.#path}/${verb}`, json, signal });
    return this;
  }
}

function getDetail(transport: Transport, idOrName: string, signal: AbortSignal | undefined): Promise<SandboxDetail> {
  return transport.json({ method: 'GET', path: `/v1/sandboxes/${encodeURIComponent(idOrName)}`, signal });
}

async function getFields(transport: Transport, idOrName: string, signal: AbortSignal | undefined) {
  const { env: _, ...fields } = await getDetail(transport, idOrName, signal);
  return fields;
}

function referenceOf<T extends Snapshot | string | undefined>(snapshot: T): string | undefined {
  return typeof snapshot === 'object' ? snapshot.id : snapshot;
}

function pastPoint(past: Snapshot | string | PastTime) {
  if (typeof past === 'string') return past;
  if ('id' in past) return past.id;
  return 'at' in past ? { at: new Date(past.at).toISOString() } : past;
}

function isNotFound(error: unknown): boolean {
  return error instanceof SpaceError && error.code === 'not_found';
}
