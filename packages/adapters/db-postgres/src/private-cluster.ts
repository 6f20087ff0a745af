/**
 * The private PostgreSQL: a server of our own on a unix socket, run as a system user that owns nothing else.
 *
 * - It outlives a kill -9 of this process, and is adopted by the next; `close` stops it.
 * - When it dies (a full disk makes it panic; its data is intact) it is started again, with growing pauses.
 * - Its log is a file of bounded length beside the data.
 */
import { copyFile, open, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@space/control';
import { AppError } from '@space/core';
import {
  checkSocketPath,
  DATABASE,
  ensureCluster,
  ensureSocketDir,
  ROLE,
  serverArguments,
  writeAccessRules,
} from './cluster-files.ts';
import type { DatabaseAddress } from './database.ts';
import { findServerBinaries } from './server-binaries.ts';
import { findRunning, isReady, launch, type ServerProcess, stop } from './server-process.ts';
import { findServerUser, type ServerUser } from './server-user.ts';

/** Recovery after a crash reads at most 128 MB of log. */
const READY_TIMEOUT_MS = 60_000;
const READY_POLL_MS = 20;
/** After a kill -9 of the server its children need a moment to leave the shared memory. */
const START_ATTEMPTS = 3;
const FIRST_PAUSE_MS = 200;
const MAX_PAUSE_MS = 10_000;
/** A server that ran so long was well; the next pause is short again. */
const STEADY_MS = 60_000;
const MAX_LOG_BYTES = 4 * 1024 * 1024;
const LOG_CHECK_MS = 60_000;
const LOG_TAIL_BYTES = 2_000;

export interface PrivateClusterOptions {
  /** Made when it is missing; its parent must let the server's user through. The log lies beside it. */
  readonly dataDir: string;
  readonly socketDir: string;
  /** Name, or numbers of a user that /etc/passwd knows. Not used when this process is not root. */
  readonly user: string | { readonly uid: number; readonly gid: number };
  /** Folder of `postgres` and `initdb`; left out: Debian's. */
  readonly binDir?: string;
  readonly logger: Logger;
}

export interface PrivateCluster {
  readonly address: DatabaseAddress;
  /** Of the server that runs now; null while it is started again. */
  readonly pid: number | null;
  /** Stops the server. */
  close(): Promise<void>;
}

/** Returns when the server takes connections. Throws `unavailable` with the end of its log. */
export async function startPrivateCluster(options: PrivateClusterOptions): Promise<PrivateCluster> {
  const { dataDir, socketDir } = options;
  checkSocketPath(socketDir);
  const binDir = options.binDir ?? (await findServerBinaries(dataDir));
  const user = await findServerUser(options.user);
  await ensureSocketDir(socketDir, user);
  await ensureCluster(dataDir, binDir, user);
  const cluster = new Cluster(options, binDir, user);
  await cluster.start();
  return cluster;
}

class Cluster implements PrivateCluster {
  readonly address: DatabaseAddress;
  readonly #options: PrivateClusterOptions;
  readonly #binDir: string;
  readonly #user: ServerUser;
  readonly #logPath: string;
  readonly #closing = new AbortController();
  #server: ServerProcess | null = null;
  #supervision: Promise<void> = Promise.resolve();
  #logTimer: NodeJS.Timeout | undefined;

  constructor(options: PrivateClusterOptions, binDir: string, user: ServerUser) {
    this.#options = options;
    this.#binDir = binDir;
    this.#user = user;
    this.#logPath = `${options.dataDir}.log`;
    this.address = { socketDir: options.socketDir, user: ROLE, database: DATABASE };
  }

  get pid(): number | null {
    return this.#server?.pid ?? null;
  }

  async start(): Promise<void> {
    const server = (await this.#adopt()) ?? (await this.#launchWithRetry());
    this.#server = server;
    this.#supervision = this.#supervise(server);
    this.#logTimer = setInterval(() => {
      this.#boundLog().catch((err: unknown) => this.#options.logger.warn({ err }, 'the log of PostgreSQL was not cut'));
    }, LOG_CHECK_MS);
    this.#logTimer.unref();
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return this.#supervision;
    this.#closing.abort();
    clearInterval(this.#logTimer);
    const server = this.#server;
    if (server !== null) await stop(server);
    await this.#supervision;
  }

  /** Takes over what an earlier process of ours left running; one with another socket is stopped. */
  async #adopt(): Promise<ServerProcess | null> {
    const { dataDir, socketDir, logger } = this.#options;
    const running = await findRunning(dataDir);
    if (running === null) return null;
    if (running.socketDir !== socketDir) {
      await stop(running);
      return null;
    }
    await this.#waitUntilReady(running);
    logger.info({ pid: running.pid }, 'adopted the PostgreSQL server that was running');
    return running;
  }

  async #launchWithRetry(): Promise<ServerProcess> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#launch();
      } catch (thrown) {
        if (attempt >= START_ATTEMPTS) throw thrown;
        await sleep(FIRST_PAUSE_MS * attempt);
      }
    }
  }

  async #launch(): Promise<ServerProcess> {
    const { dataDir, socketDir } = this.#options;
    await writeAccessRules(dataDir, this.#user);
    await this.#boundLog();
    const argv = [join(this.#binDir, 'postgres'), ...serverArguments(dataDir, socketDir)];
    const server = await launch(this.#user, argv, this.#logPath);
    try {
      await this.#waitUntilReady(server);
    } catch (thrown) {
      await stop(server);
      throw thrown;
    }
    return server;
  }

  async #waitUntilReady(server: ServerProcess): Promise<void> {
    const deadline = performance.now() + READY_TIMEOUT_MS;
    let gone = false;
    void server.exited.then(() => {
      gone = true;
    });
    while (!(await isReady(this.#options.dataDir, server.pid))) {
      if (gone || performance.now() > deadline) {
        const what = gone ? 'ended while it started' : `was not ready within ${READY_TIMEOUT_MS / 1000} s`;
        throw new AppError('unavailable', `PostgreSQL ${what}. The end of ${this.#logPath}:\n${await this.#logTail()}`);
      }
      await sleep(READY_POLL_MS);
    }
  }

  /** Starts it again for as long as we live. */
  async #supervise(first: ServerProcess): Promise<void> {
    const { logger } = this.#options;
    let server = first;
    let since = performance.now();
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      await server.exited;
      if (this.#closing.signal.aborted) return;
      this.#server = null;
      if (performance.now() - since > STEADY_MS) pauseMs = FIRST_PAUSE_MS;
      logger.error({ log: await this.#logTail(), pauseMs }, 'PostgreSQL ended by itself; it is started again');
      for (;;) {
        await sleep(pauseMs, undefined, { signal: this.#closing.signal }).catch(() => undefined);
        if (this.#closing.signal.aborted) return;
        pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS);
        const next = await this.#launch().catch((err: unknown) => {
          logger.error({ err, pauseMs }, 'PostgreSQL could not be started');
          return null;
        });
        if (next === null) continue;
        server = next;
        break;
      }
      this.#server = server;
      since = performance.now();
      // Closing came while it started: it was not there to be stopped.
      if (this.#closing.signal.aborted) return stop(server);
    }
  }

  /** The server appends, so cutting the file to nothing is safe while it writes. */
  async #boundLog(): Promise<void> {
    const size = await stat(this.#logPath).then(
      (found) => found.size,
      () => 0,
    );
    if (size <= MAX_LOG_BYTES) return;
    await copyFile(this.#logPath, `${this.#logPath}.1`);
    await truncate(this.#logPath, 0);
  }

  async #logTail(): Promise<string> {
    try {
      await using file = await open(this.#logPath);
      const { size } = await file.stat();
      const start = Math.max(0, size - LOG_TAIL_BYTES);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(LOG_TAIL_BYTES), 0, LOG_TAIL_BYTES, start);
      return buffer.subarray(0, bytesRead).toString().trim();
    } catch {
      return '(there is no log)';
    }
  }
}
