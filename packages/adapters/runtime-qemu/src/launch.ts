/**
 * Starts one VMM process, with as little as it needs: no environment, no stdio but a pipe for its complaints, its own
 * session (it outlives us), no core files (they would hold guest memory), first in line for the OOM killer. With a
 * `vmmUser` it also has no privileges and no network. This is the one place that decides what a VMM process may do.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { stat, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { ByteRing, harmlessTail } from './byte-ring.ts';
import { vmmArguments } from './command-line.ts';
import type { QemuRuntimeOptions } from './options.ts';
import { identify, isAlive, killProcess, type ProcessIdentity } from './process-identity.ts';
import { Qmp } from './qmp.ts';
import type { RunFolder } from './run-folder.ts';
import { connectWhenListening } from './sockets.ts';

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
  /** Forgets the process, which runs on. */
  disown(): void;
}

/** Starts QEMU in preconfig with its working directory in `folder`; leaves no process behind when it throws. */
export async function launchVmm(
  options: QemuRuntimeOptions,
  mode: 'boot' | 'restore',
  folder: RunFolder,
  signal?: AbortSignal,
): Promise<Launched> {
  signal?.throwIfAborted();
  const argv = [...(await confine(options)), ...options.vmm.argv, ...vmmArguments(options.accelerator, mode)];
  const child = spawn(argv[0] ?? '', argv.slice(1), {
    cwd: folder.work,
    env: {},
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const process = new Child(child);
  try {
    const identity = await process.identify();
    await folder.writeRecord(identity);
    await writeFile(`/proc/${identity.pid}/oom_score_adj`, OOM_SCORE);
    const deadline = performance.now() + STARTUP_LIMIT_MS;
    const socket = await connectWhenListening(folder.socket('qmp'), () => {
      signal?.throwIfAborted();
      if (process.ending !== null) throw new Error(`The VMM ${process.ending} while starting`);
      if (performance.now() > deadline) throw new Error(`The VMM did not start within ${STARTUP_LIMIT_MS} ms`);
    });
    const qmp = await Qmp.open(socket, STARTUP_LIMIT_MS);
    return process.launched(identity, qmp);
  } catch (cause) {
    await process.kill();
    throw new Error(`${cause instanceof Error ? cause.message : cause}. ${process.complaints()}`, { cause });
  }
}

/** Each program replaces itself by the next, so the pid stays the same. */
async function confine({ vmmUser, accelerator }: QemuRuntimeOptions): Promise<string[]> {
  const noCore = ['/usr/bin/prlimit', '--core=0:0', '--'];
  if (!vmmUser) return noCore;
  const groups = accelerator === 'kvm' ? `--groups=${(await stat('/dev/kvm')).gid}` : '--clear-groups';
  return [
    ...noCore,
    ...['/usr/bin/unshare', '--net', '--'],
    ...['/usr/bin/setpriv', `--reuid=${vmmUser.uid}`, `--regid=${vmmUser.gid}`, groups],
    ...['--no-new-privs', '--inh-caps=-all', '--'],
  ];
}

class Child {
  readonly #child: ChildProcess;
  readonly #stderr = new ByteRing(STDERR_BYTES);
  readonly exited: Promise<string>;
  /** How it ended; null while it runs. */
  ending: string | null = null;

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

  async identify(): Promise<ProcessIdentity> {
    const { pid } = this.#child;
    const identity = pid === undefined ? null : await identify(pid);
    if (identity) return identity;
    throw new Error(`The VMM ${await this.exited}`);
  }

  complaints(): string {
    return harmlessTail(this.#stderr.text());
  }

  /** Also before its identity is known: the pid of a child that was not waited for is not used again. */
  async kill(): Promise<void> {
    if (this.#child.pid === undefined || this.ending !== null) return;
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  launched(identity: ProcessIdentity, qmp: Qmp): Launched {
    return {
      identity,
      qmp,
      exited: this.exited,
      complaints: () => this.complaints(),
      kill: async () => {
        if (this.ending === null) this.#child.kill('SIGKILL');
        await this.exited;
        if (await isAlive(identity)) await killProcess(identity);
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
