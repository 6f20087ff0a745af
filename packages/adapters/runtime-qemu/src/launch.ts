/**
 * Starts one VMM process, by way of the helper, which jails it: it outlives us and the helper. What it complains of comes
 * through a socket of ours, whose end is the end of the process: its warden has the other side, and says at last how.
 */
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type ErrorCode } from '@space/core';
import { connectForFiles, type FileSocket, type RootHelper, socketPair, type VmmKind } from '@space/root-helper';
import { ByteRing, harmlessTail } from './byte-ring.ts';
import { isAlive, type ProcessIdentity } from './process-identity.ts';
import { Qmp } from './qmp.ts';
import { RunFolder } from './run-folder.ts';

const STARTUP_LIMIT_MS = 15_000;
const STDERR_BYTES = 8 * 1024;
const LAST_WORDS_LIMIT_MS = 2_000;
const QUEUE_FULL_RETRY_MS = 20;
/** Failures that have nothing to do with the VMM. */
const AS_IT_IS: ReadonlySet<ErrorCode> = new Set(['unavailable', 'insufficient_space', 'insufficient_memory']);
const ENDED = /\n?\[ended\] (signal|status) (\d+)\n$/;
const SIGNALS: Readonly<Record<number, string>> = {
  6: 'SIGABRT',
  7: 'SIGBUS',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  31: 'SIGSYS',
};

/** Where VMMs are started. */
export interface LaunchPad {
  readonly helper: RootHelper;
  readonly runDir: string;
}

/** Starts QEMU in preconfig, in the run folder of this name; leaves neither process nor folder behind when it throws. */
export async function launchVmm(pad: LaunchPad, run: string, kind: VmmKind, signal?: AbortSignal): Promise<Launched> {
  signal?.throwIfAborted();
  const complaints = new Complaints();
  const limit = AbortSignal.any([AbortSignal.timeout(STARTUP_LIMIT_MS), ...(signal ? [signal] : [])]);
  try {
    const identity = await complaints.passTo((fd) => pad.helper.startVmm(run, kind, fd));
    const qmp = connectQmp(RunFolder.of(pad.runDir, run), STARTUP_LIMIT_MS);
    return new Launched(pad.helper, run, identity, await unlessItEnds(qmp, complaints, limit), complaints);
  } catch (cause) {
    // Somebody else's VMM, which stays.
    if (cause instanceof AppError && cause.code === 'name_taken') throw cause;
    await endAndClear(pad.helper, run);
    await Promise.race([complaints.ended, sleep(LAST_WORDS_LIMIT_MS)]);
    if (cause instanceof AppError && AS_IT_IS.has(cause.code)) throw cause;
    throw new Error(`${cause instanceof Error ? cause.message : cause}. ${complaints.text()}`, { cause });
  }
}

/** Proves a VMM dead and removes all that was taken for it. */
export async function endAndClear(helper: RootHelper, run: string): Promise<void> {
  await helper.endVmm(run);
  await helper.clearVmm(run);
}

/** Through a connection that can carry files. The VMM may still be starting: its sockets exist before it does. */
export async function connectQmp(folder: RunFolder, timeoutMs: number): Promise<Qmp> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const connection = connectionTo(folder.socket('qmp'));
    if (connection !== null) return await Qmp.open(connection, timeoutMs);
    if (performance.now() > until) throw new Error('QEMU takes no connection: others wait for it');
    await sleep(QUEUE_FULL_RETRY_MS);
  }
}

/** Null while the queue of the socket is full, as it is of a VMM that stood still: of one connection, which may be one that was given up. */
function connectionTo(socketPath: string): FileSocket | null {
  try {
    return connectForFiles(socketPath);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EAGAIN') return null;
    throw cause;
  }
}

/** A VMM that this process has asked for. */
export class Launched {
  readonly identity: ProcessIdentity;
  readonly qmp: Qmp;
  /** How the process ended, once it is proved dead. */
  readonly exited: Promise<string>;
  readonly #helper: RootHelper;
  readonly #complaints: Complaints;
  /** A spare's folder is renamed when it gets a life. */
  #run: string;
  #disowned = false;

  constructor(helper: RootHelper, run: string, identity: ProcessIdentity, qmp: Qmp, complaints: Complaints) {
    this.identity = identity;
    this.qmp = qmp;
    this.#helper = helper;
    this.#run = run;
    this.#complaints = complaints;
    this.exited = this.#end();
  }

  /** The end of what the VMM complained of; harmless text. */
  complaints(): string {
    return this.#complaints.text();
  }

  /** Gives it the files and limits of a life. After a failure it can only be discarded. */
  async equip(life: Parameters<RootHelper['equipVmm']>[1]): ReturnType<RootHelper['equipVmm']> {
    const spare = this.#run;
    // Whichever name the folder has after a failure, `discard` finds it.
    this.#run = life.lifeId;
    try {
      return await this.#helper.equipVmm(spare, life, this.qmp.descriptor());
    } catch (thrown) {
      if (spare !== this.#run) await endAndClear(this.#helper, spare);
      throw thrown;
    }
  }

  /** Kills it and waits for proof of death. */
  async kill(): Promise<void> {
    await this.#helper.endVmm(this.#run);
    if (!this.#disowned) await this.exited;
    this.qmp.close();
  }

  /** Kills it and leaves nothing of it. */
  async discard(): Promise<void> {
    await this.kill();
    await this.#helper.clearVmm(this.#run);
  }

  /** Forgets the process, which runs on: how it ends is not heard any more. */
  disown(): void {
    this.#disowned = true;
    this.#complaints.close();
  }

  async #end(): Promise<string> {
    const how = await this.#complaints.ended;
    // A warden that was killed takes the VMM with it, a moment later.
    if (await isAlive(this.identity).catch(() => true)) await this.#helper.endVmm(this.#run).catch(() => undefined);
    return how;
  }
}

/** What the launcher, the VMM and its warden say. */
class Complaints {
  readonly #said = new ByteRing(STDERR_BYTES);
  readonly #socket: Socket;
  readonly #theirs: number;
  /** How the process ended, as its warden said last. */
  readonly ended: Promise<string>;

  constructor() {
    const { ours, theirs } = socketPair();
    this.#socket = ours;
    this.#theirs = theirs;
    ours.on('data', (chunk) => this.#said.push(chunk));
    ours.on('error', () => undefined);
    ours.on('end', () => ours.destroy());
    this.ended = new Promise((resolve) => ours.once('close', () => resolve(this.#ending())));
  }

  /** The other end goes to the process, and is not kept here. */
  async passTo<T>(take: (fd: number) => Promise<T>): Promise<T> {
    try {
      return await take(this.#theirs);
    } finally {
      closeSync(this.#theirs);
    }
  }

  text(): string {
    return harmlessTail(this.#said.text().replace(ENDED, ''));
  }

  /** QEMU ignores SIGPIPE: what it says from now on is lost, and nothing else. */
  close(): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  #ending(): string {
    const [, kind, number] = ENDED.exec(this.#said.text()) ?? [];
    if (kind === undefined) return 'ended';
    return kind === 'signal'
      ? `was ended by ${SIGNALS[Number(number)] ?? `signal ${number}`}`
      : `exited with status ${number}`;
  }
}

async function unlessItEnds<T>(wait: Promise<T>, { ended }: Complaints, limit: AbortSignal): Promise<T> {
  wait.catch(() => {});
  const outOfTime = Promise.withResolvers<never>();
  const giveUp = (): void => outOfTime.reject(limit.reason);
  limit.addEventListener('abort', giveUp, { once: true });
  if (limit.aborted) giveUp();
  const end = ended.then((how) => Promise.reject(new Error(`The VMM ${how} while starting`)));
  end.catch(() => {});
  return await Promise.race([wait, end, outOfTime.promise]).finally(() => limit.removeEventListener('abort', giveUp));
}
