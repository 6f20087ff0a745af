/**
 * The users of a sandbox, from its own /etc/passwd and /etc/group: where their homes are, and what the owners of its files
 * are called. Both files belong to root in the sandbox, so nothing is believed of them that could hurt anybody else.
 */
import { AppError } from '@space/core';
import { type EnvdCall, invalidUser } from './call.ts';

export interface GuestUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/** One reading of both files. */
export interface Names {
  readonly users: readonly GuestUser[];
  readonly groups: ReadonlyMap<number, string>;
}

const MAX_BYTES = 256 * 1024;
/** Of either file; the first ones count. */
const MAX_LINES = 2_000;
/** A reading serves the calls of the next moment; who is missing from it is looked for again. */
const FRESH_MS = 5_000;
const MAX_KEPT = 200;
const READ_MS = 30_000;

/** What a sandbox without such files has. */
const BUILT_IN = 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n';

export class Users {
  readonly #readings = new Map<string, { readonly names: Promise<Names>; readonly until: number }>();

  /** Throws the error of the SDKs for one that the sandbox does not have. */
  async find(call: EnvdCall): Promise<GuestUser> {
    const found = userIn(await this.names(call), call.user) ?? userIn(await this.#read(call), call.user);
    if (found === undefined) throw invalidUser(call.user);
    return found;
  }

  names(call: EnvdCall): Promise<Names> {
    const kept = this.#readings.get(call.sandboxId);
    return kept !== undefined && kept.until > performance.now() ? kept.names : this.#read(call);
  }

  forget(sandboxId: string): void {
    this.#readings.delete(sandboxId);
  }

  #read(call: EnvdCall): Promise<Names> {
    // For all who ask meanwhile, so it does not end when the first of them leaves.
    const names = readNames({ ...call, caller: { ...call.caller, signal: AbortSignal.timeout(READ_MS) } });
    names.catch(() => this.#readings.delete(call.sandboxId));
    this.#readings.delete(call.sandboxId);
    const now = performance.now();
    for (const [id, { until }] of this.#readings) if (until < now) this.#readings.delete(id);
    this.#readings.set(call.sandboxId, { names, until: now + FRESH_MS });
    const [oldest] = this.#readings.keys();
    if (this.#readings.size > MAX_KEPT && oldest !== undefined) this.#readings.delete(oldest);
    return names;
  }
}

function userIn({ users }: Names, who: string): GuestUser | undefined {
  return users.find(({ name }) => name === who) ?? users.find(({ uid }) => `${uid}` === who);
}

async function readNames(call: EnvdCall): Promise<Names> {
  const [passwd, group] = await Promise.all([textOf(call, '/etc/passwd', BUILT_IN), textOf(call, '/etc/group', '')]);
  return {
    users: passwd.split('\n', MAX_LINES).flatMap(parseUser),
    groups: new Map(group.split('\n', MAX_LINES).flatMap(parseGroup)),
  };
}

async function textOf({ useCases, caller, sandboxId }: EnvdCall, path: string, absent: string): Promise<string> {
  try {
    const { body } = await useCases.readFile(caller, { id: sandboxId, path, user: 'root', length: MAX_BYTES });
    return Buffer.concat(await Array.fromAsync(body)).toString('utf8');
  } catch (thrown) {
    if (thrown instanceof AppError && thrown.code.startsWith('file_')) return absent;
    throw thrown;
  }
}

function parseUser(line: string): GuestUser[] {
  const [name, , uid, gid, , home] = line.split(':');
  const [user, group] = [idOf(uid), idOf(gid)];
  if (!name || user === undefined || group === undefined) return [];
  return [{ name, uid: user, gid: group, home: home?.startsWith('/') ? home : '/' }];
}

function parseGroup(line: string): [number, string][] {
  const [name, , gid] = line.split(':');
  const id = idOf(gid);
  return name && id !== undefined ? [[id, name]] : [];
}

function idOf(text: string | undefined): number | undefined {
  return /^[0-9]{1,10}$/.test(text ?? '') ? Number(text) : undefined;
}
