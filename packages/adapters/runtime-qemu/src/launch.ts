/**
 * Starts one VMM process in its jail: no environment, no stdio but a pipe for its complaints, its own session (it outlives
 * us), first in line for the OOM killer. Beside it stays its warden, our child, which ends as the VMM ends.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { ByteRing, harmlessTail } from './byte-ring.ts';
import type { Jail } from './jail.ts';
import { connectForFiles } from './kernel.ts';
import { killProcess, type ProcessIdentity } from './process-identity.ts';
import { Qmp } from './qmp.ts';
import { parseRecord, type RunFolder } from './run-folder.ts';

const STARTUP_LIMIT_MS = 15_000;
const STDERR_BYTES = 8 * 1024;
const OOM_SCORE = '500';

/** A VMM that this process started. */
export interface Launched {
  readonly identity: ProcessIdentity;
  readonly qmp: Qmp;
  /** How the process ended, once it has. */
  readonly exited: Promise<string>;
  /** The end of what the VMM complained of; harmless text. */
  complaints(): string;
  /** Kills it and waits for proof of death. */
  kill(): Promise<void>;
  readonly uid: number;
  /** Forgets the process, which runs on. */
  disown(): void;
}

/** Starts QEMU in preconfig, in the jail of `folder`; leaves no process behind when it throws. */
export async function launchVmm(
  jail: Jail,
  mode: 'boot' | 'restore',
  folder: RunFolder,
  signal?: AbortSignal,
): Promise<Launched> {
  signal?.throwIfAborted();
  const { uid, argv } = await jail.prepare(folder, mode);
  const child = spawn(argv[0] ?? '', argv.slice(1), {
    cwd: folder.sockets,
    env: {},
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const process = new Child(child);
  const limit = AbortSignal.any([AbortSignal.timeout(STARTUP_LIMIT_MS), ...(signal ? [signal] : [])]);
  try {
    const identity = await process.identify(limit);
    await writeFile(`/proc/${identity.pid}/oom_score_adj`, OOM_SCORE);
    const qmp = await process.unlessItEnds(connectQmp(folder, STARTUP_LIMIT_MS), limit);
    return process.launched(identity, uid, qmp);
  } catch (cause) {
    await process.kill();
    throw new Error(`${cause instanceof Error ? cause.message : cause}. ${process.complaints()}`, { cause });
  }
}

/** Through a connection that can carry files. The VMM may still be starting: its sockets exist before it does. */
export async function connectQmp(folder: RunFolder, timeoutMs: number): Promise<Qmp> {
  const { socket, send } = connectForFiles(folder.socket('qmp'));
  return await Qmp.open(socket, timeoutMs, send);
}

class Child {
  readonly #child: ChildProcess;
  readonly #stderr = new ByteRing(STDERR_BYTES);
  readonly exited: Promise<string>;
  /** How it ended; null while it runs. */
  ending: string | null = null;
  #vmm: ProcessIdentity | null = null;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr?.on('data', (chunk: Buffer) => this.#stderr.push(chunk));
    this.exited = new Promise((resolve) => {
      const end = (how: string): void => {
        this.ending = how;
        resolve(how);
      };
      child.once('error', (cause) => end(`could not be started (${cause.message})`));
      child.once('close', (code, signal) => end(signal ? `was ended by ${signal}` : `exited with status ${code}`));
    });
  }

  /** The launcher says which process it has recorded, and only then starts the VMM in it. */
  async identify(limit: AbortSignal): Promise<ProcessIdentity> {
    const { stdout } = this.#child;
    if (!stdout) throw new Error(`The VMM ${await this.exited}`);
    const [said] = await this.unlessItEnds(once(stdout, 'data', { signal: limit }), limit);
    stdout.destroy();
    this.#vmm = parseRecord(String(said));
    return this.#vmm;
  }

  async unlessItEnds<T>(wait: Promise<T>, limit: AbortSignal): Promise<T> {
    wait.catch(() => {});
    const outOfTime = Promise.withResolvers<never>();
    const giveUp = (): void => outOfTime.reject(limit.reason);
    limit.addEventListener('abort', giveUp, { once: true });
    if (limit.aborted) giveUp();
    const end = this.exited.then((how) => Promise.reject(new Error(`The VMM ${how} while starting`)));
    end.catch(() => {});
    return await Promise.race([wait, end, outOfTime.promise]).finally(() => limit.removeEventListener('abort', giveUp));
  }

  complaints(): string {
    return harmlessTail(this.#stderr.text());
  }

  /** The VMM, and the warden with it; before the VMM is known it has not been started, and never will be. */
  async kill(): Promise<void> {
    if (this.#vmm) await killProcess(this.#vmm);
    else if (this.#child.pid !== undefined && this.ending === null) this.#child.kill('SIGKILL');
    await this.exited;
  }

  launched(identity: ProcessIdentity, uid: number, qmp: Qmp): Launched {
    return {
      identity,
      uid,
      qmp,
      exited: this.exited,
      complaints: () => this.complaints(),
      kill: async () => {
        await this.kill();
        qmp.close();
      },
      disown: () => {
        this.#child.unref();
        // QEMU ignores SIGPIPE: what it says from now on is lost, and nothing else.
        this.#child.stderr?.destroy();
        (this.#child.stderr as Socket | null)?.unref();
      },
    };
  }
}
