/** The world of the guest suite: a guest with the few verbs that the cases are written in. */
import {
  type Guest,
  type GuestBytes,
  type GuestCommand,
  newId,
  type ProcessEvent,
  type ProcessExit,
  type ProcessId,
} from '@space/core';

export interface GuestUnderTest {
  /** A guest for one case. The suite closes it. */
  readonly guest: Guest;
  /** Another connection to the same agent, which takes the place of the one before. */
  readonly reconnect?: () => Promise<Guest>;
  /** A user that exists, and a directory that is the user's to write in. */
  readonly user: string;
  readonly directory: string;
}

export interface GuestAbilities {
  /** There is a real shell, and processes that live on. */
  readonly shell: boolean;
  /** There is a file system with directories, owners and modes. */
  readonly fileSystem: boolean;
  /** Its directory has extended attributes. */
  readonly xattrs: boolean;
  readonly freeze: boolean;
  /** A whole process tree can be signalled. */
  readonly trees: boolean;
}

export type MakeGuest = () => Promise<GuestUnderTest>;

export type WithGuest = (run: (world: World) => Promise<void>) => () => Promise<void>;

/** Time for something in the guest to become true. */
const SETTLE_MS = 5_000;

export interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: ProcessExit;
}

export const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };

/** A guest with the few verbs that the cases are written in. */
export class World {
  readonly guest: Guest;
  readonly user: string;
  readonly directory: string;
  readonly reconnect: () => Promise<Guest>;

  constructor({ guest, user, directory, reconnect }: GuestUnderTest) {
    this.guest = guest;
    this.user = user;
    this.directory = directory;
    this.reconnect = reconnect ?? (() => Promise.reject(new Error('this guest cannot be connected to again')));
  }

  command(...argv: string[]): GuestCommand {
    return { processId: newId('process', chance), argv, env: {}, user: this.user, cwd: this.directory };
  }

  shell(script: string): GuestCommand {
    return this.command('/bin/bash', '-c', script);
  }

  kill(processId: ProcessId): Promise<void> {
    return this.guest.signalProcess(processId, 9, 'tree');
  }

  run(script: string): Promise<Ran> {
    return collect(this.guest.exec(this.shell(script)));
  }

  path(name: string) {
    return { path: `${this.directory}/${name}`, user: this.user };
  }

  write(name: string, content: Uint8Array | string, mode?: number) {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    return this.guest.writeFile({ ...this.path(name), ...(mode === undefined ? {} : { mode }) }, once(bytes));
  }

  async read(name: string, range: { offset?: number; length?: number } = {}): Promise<Buffer> {
    const { body } = await this.guest.readFile({ ...this.path(name), ...range });
    return Buffer.concat(await Array.fromAsync(body));
  }

  async names(): Promise<GuestBytes[]> {
    const entries = await Array.fromAsync(this.guest.list({ path: this.directory, user: this.user }));
    return entries.map((entry) => entry.name);
  }
}

export function exited(exit: ProcessExit): ProcessEvent {
  return { kind: 'exited', exit, timedOut: false, oom: false };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}

export async function collect(events: AsyncIterable<ProcessEvent>): Promise<Ran> {
  const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  let exit: ProcessExit | undefined;
  for await (const event of events) {
    if (event.kind === 'output') parts[event.stream].push(event.data);
    if (event.kind === 'exited') exit = event.exit;
  }
  if (!exit) throw new Error('a stream ended without an exit and without an error');
  return { stdout: `${Buffer.concat(parts.stdout)}`, stderr: `${Buffer.concat(parts.stderr)}`, exit };
}

export async function eventually(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + SETTLE_MS;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`it did not come true in ${SETTLE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
