/**
 * The helper as a process: started by root, and started again when it ends, until it is closed. It ends with us, since we
 * hold its standard input.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { configText, type HelperConfig, helperSocket } from './config.ts';

const READY_LIMIT_MS = 15_000;
/** Between an end and the next start: at once at first, then ever longer while it does not come up. */
const RESTART_MS = { first: 10, last: 2_000 } as const;

export interface HelperProcess {
  /** Where it listens, for its one user. */
  readonly socketPath: string;
  /** Of the process that runs now. */
  readonly pid: number | undefined;
  /** Returns when it has ended. Vaults stay mounted and VMMs run on. */
  close(): Promise<void>;
}

export interface HelperProcessOptions {
  readonly program: string;
  readonly config: HelperConfig;
  /** Told when it ended by itself, or does not start again. */
  readonly onWarning?: (message: string) => void;
}

/** Returns when it listens; throws, with what it said, when it does not start. Needs root. */
export async function startHelper(options: HelperProcessOptions): Promise<HelperProcess> {
  const socketPath = helperSocket(options.config.folder);
  const configPath = await writeConfig(options.config);
  const supervised = new Supervised(options, configPath);
  await supervised.start();
  void supervised.attend();
  return {
    socketPath,
    get pid() {
      return supervised.pid;
    },
    close: () => supervised.close(),
  };
}

async function writeConfig(config: HelperConfig): Promise<string> {
  const path = join(config.folder, 'config');
  await mkdir(config.folder, { recursive: true, mode: 0o755 });
  await mkdir(dirname(config.runDir), { recursive: true, mode: 0o755 });
  await writeFile(`${path}.new`, configText(config), { mode: 0o600 });
  await rename(`${path}.new`, path);
  return path;
}

class Supervised {
  readonly #options: HelperProcessOptions;
  readonly #configPath: string;
  #child: ChildProcess | null = null;
  #ended: Promise<unknown> = Promise.resolve();
  #closing = false;

  constructor(options: HelperProcessOptions, configPath: string) {
    this.#options = options;
    this.#configPath = configPath;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(): Promise<void> {
    const child = spawn(this.#options.program, [this.#configPath], {
      cwd: '/',
      env: {},
      // Not ended by what a terminal sends to all that it started: sandboxes are paused first.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    let said = '';
    child.stdin.on('error', () => undefined);
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-2_000);
    });
    this.#ended = new Promise((resolve) => {
      child.once('error', resolve);
      child.once('close', resolve);
    });
    const limit = AbortSignal.timeout(READY_LIMIT_MS);
    const ready = once(child.stdout, 'data', { signal: limit }).then(() => true);
    ready.catch(() => undefined);
    const isReady = await Promise.race([ready, this.#ended.then(() => false)]);
    if (isReady) return;
    throw new Error(said.trim() || `The helper ${this.#options.program} could not be started`);
  }

  /** Starts it again whenever it has ended. */
  async attend(): Promise<unknown> {
    let pauseMs: number = RESTART_MS.first;
    for (;;) {
      await this.#ended;
      if (this.#closing) return null;
      await sleep(pauseMs);
      if (this.#closing) return null;
      try {
        await this.start();
        if (this.#closing) return this.#child?.stdin?.end();
        this.#options.onWarning?.('The helper had ended; it is there again.');
        pauseMs = RESTART_MS.first;
      } catch (thrown) {
        this.#options.onWarning?.(`The helper does not start: ${thrown instanceof Error ? thrown.message : thrown}`);
        this.#child?.kill('SIGKILL');
        pauseMs = Math.min(pauseMs * 4, RESTART_MS.last);
      }
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#child?.stdin?.end();
    await this.#ended;
  }
}
