/**
 * The node's side of the helper. It may be killed and started again at any time: a verb that can be said twice is said
 * again to the new one, and a start of a VMM fails as `unavailable`, to be tried anew.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type KeyBytes,
  type LifeId,
  type Size,
  type SnapshotId,
  type VaultContainer,
  type VaultFile,
  type VaultName,
} from '@space/core';
import { z } from 'zod';
import { type Connection, ConnectionLost, connectWithin } from './connection.ts';
import { lendKey } from './lent-key.ts';

/** What a VMM is started as: its build by name, how it comes to its guest, and what executes it. */
export interface VmmKind {
  readonly build: string;
  readonly mode: 'boot' | 'restore';
  readonly accelerator: 'kvm' | 'tcg';
}

export interface StartedVmm {
  readonly pid: number;
  /** Clock ticks since boot: with the pid, the identity of the process. */
  readonly startTime: string;
}

/** Which limits of the machine hold each VMM, as people are told. */
export interface HelperLimits {
  /** E.g. `memory (cgroup v1)`. */
  readonly inForce: readonly string[];
  readonly missing: readonly { readonly limit: string; readonly reason: string; readonly remedy: string }[];
}

/** Pages of a file of a life, by their numbers, and the point in which they may be the same. */
export interface PagesOfLife {
  readonly lifeId: LifeId;
  readonly snapshotId: SnapshotId;
  readonly file: VaultFile;
  /** At most 32. */
  readonly pages: readonly number[];
}

interface LifeOfVmm {
  readonly lifeId: LifeId;
  /** The vault, or other place, in which its files lie. */
  readonly place: string;
  readonly size: Size;
}

/** The key of a vault, if it has one, and what to keep in its header. */
interface VaultKey {
  readonly key: KeyBytes | null;
  readonly token: string | null;
}

export interface RootHelper {
  readonly limits: HelperLimits;
  /**
   * Makes the container of a vault that is not configured: with a key an encrypted one, whose header keeps the token. Nothing to do
   * where it is there with that key. `sizeBytes` is made up to whole MiB.
   */
  createVault(name: string, wish: { readonly sizeBytes: number } & VaultKey): Promise<void>;
  /**
   * Mounts the vault; one that is configured as plain is made when there is none. One that is open is taken up without its key.
   * `mounted`: it was not before.
   */
  openVault(name: string, key?: KeyBytes | null): Promise<{ readonly uuid: string; readonly mounted: boolean }>;
  /** Throws `vault_in_use`, with all as it was, while files are in use. */
  closeVault(name: string): Promise<void>;
  /**
   * Pages of a running life that are as they are in a point are noted anew, so that the node of the file system that tells where they lie is the life's
   * own. No byte changes. Returns how many they were.
   */
  partLife(vault: string, pages: PagesOfLife): Promise<number>;
  /** Its header, and the copy of that, keep the token from now on, in place of what they kept; open or closed. */
  keepToken(name: string, key: KeyBytes, token: string): Promise<void>;
  /** Makes it larger, open or closed; never smaller. */
  growVault(name: string, sizeBytes: number): Promise<void>;
  /** Destroys the header and every copy of it first. Throws `vault_in_use` while it is open. Idempotent. */
  removeVault(name: string): Promise<void>;
  vaults(): Promise<readonly VaultContainer[]>;
  /** Makes the run folder and starts a VMM for it. `complaints`: a socket that becomes its standard error. */
  startVmm(run: string, kind: VmmKind, complaints: number): Promise<StartedVmm>;
  /**
   * Gives a waiting VMM the files and limits of a life, and its run folder the life's name. `control` is a connection to it
   * on which nothing is under way. Returns the numbers that the files have in the VMM.
   */
  equipVmm(run: string, life: LifeOfVmm, control: number): Promise<{ readonly disk: number; readonly memory: number }>;
  /** Kills the VMM and returns when it is proved dead. Idempotent. */
  endVmm(run: string): Promise<void>;
  /** Removes what was taken for a VMM that is dead. Idempotent. */
  clearVmm(run: string): Promise<void>;
  close(): void;
}

/** What a verb may take, beyond what the helper itself allows it. Making a file system or waiting for a death takes time. */
const LIMITS_MS = {
  hello: 5_000,
  vaults: 30_000,
  createVault: 120_000,
  openVault: 120_000,
  closeVault: 60_000,
  partLife: 15_000,
  keepToken: 30_000,
  growVault: 60_000,
  removeVault: 60_000,
  startVmm: 20_000,
  equipVmm: 15_000,
  endVmm: 15_000,
  clearVmm: 15_000,
} as const;
type Verb = keyof typeof LIMITS_MS;

/** How long a helper that was killed may take to be there again. */
const CONNECT_LIMIT_MS = 10_000;
/** One that is dying may still take a connection, or two. */
const ATTEMPTS = 5;
const ATTEMPT_PAUSE_MS = 10;

const nothing = z.strictObject({});
const limitsSchema = z.object({
  pid: z.int(),
  inForce: z.array(z.string()),
  missing: z.array(z.strictObject({ limit: z.string(), reason: z.string(), remedy: z.string() })),
});
const vaultSchema = z.strictObject({ uuid: z.string(), mounted: z.boolean() });
const partedSchema = z.strictObject({ equal: z.int().min(0) });
const vaultsSchema = z.array(
  z.strictObject({
    vault: z.string().transform((name) => name as VaultName),
    encrypted: z.boolean(),
    open: z.boolean(),
    way: z.enum(['plain', 'dm-crypt', 'server']),
  }),
);
const vmmSchema = z.strictObject({ pid: z.int().min(2), startTime: z.string().regex(/^\d+$/) });
const passedSchema = z.strictObject({ disk: z.int().min(0), memory: z.int().min(0) });

/** Waits for a helper that is just starting. */
export async function connectHelper(socketPath: string): Promise<RootHelper> {
  const client = new Client(socketPath);
  try {
    const { pid, ...limits } = limitsSchema.parse(await client.ask('hello', []));
    await requireSight(pid);
    return new Helper(client, limits);
  } catch (thrown) {
    client.close();
    throw thrown;
  }
}

/** Whether a VMM lives is read in /proc, where a process of another user can be hidden: then it would seem dead. */
async function requireSight(pid: number): Promise<void> {
  try {
    await readFile(`/proc/${pid}/stat`);
  } catch (cause) {
    throw new AppError(
      'unavailable',
      '/proc hides the processes of other users here, so it cannot be told which VMMs live. Mount it without hidepid.',
      { cause },
    );
  }
}

class Helper implements RootHelper {
  readonly limits: HelperLimits;
  readonly #client: Client;

  constructor(client: Client, limits: HelperLimits) {
    this.#client = client;
    this.limits = limits;
  }

  async createVault(name: string, { sizeBytes, key, token }: { readonly sizeBytes: number } & VaultKey) {
    nothing.parse(await this.#askKeyed('createVault', [name, mibOf(sizeBytes)], { key, token }));
  }

  async openVault(name: string, key: KeyBytes | null = null) {
    return vaultSchema.parse(await this.#askKeyed('openVault', [name], { key, token: null }));
  }

  async keepToken(name: string, key: KeyBytes, token: string) {
    nothing.parse(await this.#askKeyed('keepToken', [name], { key, token }));
  }

  async growVault(name: string, sizeBytes: number) {
    nothing.parse(await this.#client.ask('growVault', [name, mibOf(sizeBytes)]));
  }

  async removeVault(name: string) {
    nothing.parse(await this.#client.ask('removeVault', [name]));
  }

  async vaults() {
    return vaultsSchema.parse(await this.#client.ask('vaults', []));
  }

  /** Each time that it is said, the key goes over a connection of its own, which only the helper has the other end of. */
  async #askKeyed(verb: Verb, words: readonly string[], { key, token }: VaultKey): Promise<unknown> {
    if (key === null) return await this.#client.ask(verb, [...words, 'plain']);
    const lent: (() => void)[] = [];
    try {
      return await this.#client.ask(verb, [...words, 'keyed'], () => {
        const { descriptor, end } = lendKey(key, token);
        lent.push(end);
        return descriptor;
      });
    } finally {
      for (const end of lent) end();
    }
  }

  async closeVault(name: string) {
    nothing.parse(await this.#client.ask('closeVault', [name]));
  }

  async partLife(vault: string, { lifeId, snapshotId, file, pages }: PagesOfLife) {
    const words = [vault, lifeId, snapshotId, file, ...pages.map(String)];
    return partedSchema.parse(await this.#client.ask('partLife', words, undefined, 1)).equal;
  }

  async startVmm(run: string, { build, mode, accelerator }: VmmKind, complaints: number) {
    const words = [run, build, mode, accelerator];
    return vmmSchema.parse(await this.#client.ask('startVmm', words, () => complaints, 1));
  }

  async equipVmm(run: string, { lifeId, place, size }: LifeOfVmm, control: number) {
    const words = [run, lifeId, place, String(size.memoryMib), String(size.vcpus)];
    return passedSchema.parse(await this.#client.ask('equipVmm', words, () => control));
  }

  async endVmm(run: string) {
    nothing.parse(await this.#client.ask('endVmm', [run]));
  }

  async clearVmm(run: string) {
    nothing.parse(await this.#client.ask('clearVmm', [run]));
  }

  close() {
    this.#client.close();
  }
}

const MIB = 1024 * 1024;
const mibOf = (sizeBytes: number): string => String(Math.ceil(sizeBytes / MIB));

/** One connection, made anew when it is lost. */
class Client {
  readonly #path: string;
  #connection: Promise<Connection> | null = null;
  #closed = false;

  constructor(path: string) {
    this.#path = path;
  }

  /** Says it again, so often at most, when the helper ends meanwhile. */
  async ask(verb: Verb, words: readonly string[], descriptor?: () => number, attempts = ATTEMPTS): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const connection = await this.#connected();
      try {
        return await connection.ask([verb, ...words], LIMITS_MS[verb], descriptor && [descriptor()]);
      } catch (cause) {
        if (!(cause instanceof ConnectionLost)) throw cause;
        // Only then is it forgotten, and another one made.
        await connection.lost;
        if (attempt < attempts && !this.#closed) {
          await sleep(attempt * ATTEMPT_PAUSE_MS);
          continue;
        }
        throw new AppError('unavailable', `The helper ended during ${verb}; it is started again.`, { cause });
      }
    }
  }

  close(): void {
    this.#closed = true;
    const open = this.#connection;
    this.#connection = null;
    open?.then((connection) => connection.close()).catch(() => undefined);
  }

  #connected(): Promise<Connection> {
    if (this.#closed) return Promise.reject(new AppError('unavailable', 'The connection to the helper was closed.'));
    if (this.#connection !== null) return this.#connection;
    const made = connectWithin(this.#path, CONNECT_LIMIT_MS);
    this.#connection = made;
    const forget = (): void => {
      if (this.#connection === made) this.#connection = null;
    };
    made.then((connection) => connection.lost.then(forget), forget);
    return made;
  }
}
