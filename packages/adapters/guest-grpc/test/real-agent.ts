/**
 * The real agent as an ordinary process of this machine (`space-agent --listen`), for tests and measurements: unix sockets
 * take the place of the VM's ports. Freeze and process trees need a cgroup v2 directory that we may write to.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Guest, GuestPort } from '@space/core';
import { type ConnectOptions, connectGuest } from '../src/index.ts';

const ROOT = join(import.meta.dirname, '../../../..');
const PLACES = [
  'guest/agent/target/x86_64-unknown-linux-gnu/release/space-agent',
  'guest/agent/target/release/space-agent',
].map((place) => join(ROOT, place));
const START_MS = 5_000;

function agentBinary(): string {
  const named = process.env['SPACE_AGENT'];
  const found = named === undefined ? PLACES.find((place) => existsSync(place)) : named;
  if (found !== undefined && existsSync(found)) return found;
  throw new Error(
    `The agent is not built: ${named ?? PLACES.join(', ')} is missing. Build it: cd guest/agent && cargo build --release`,
  );
}

/** A fresh cgroup v2 directory, or undefined where there is none to be had. */
function makeCgroup(): string | undefined {
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  for (const [, directory, type] of mounts.map((line) => line.split(' '))) {
    if (type !== 'cgroup2' || directory === undefined) continue;
    const path = join(directory, `space-agent-test-${process.pid}-${Date.now()}`);
    try {
      mkdirSync(path);
      return path;
    } catch {
      // Not ours to write to; the next one may be.
    }
  }
  return undefined;
}

export function canMakeCgroup(): boolean {
  const path = makeCgroup();
  if (path !== undefined) rmdirSync(path);
  return path !== undefined;
}

export class RealAgent {
  readonly cgroup = makeCgroup();
  /** For sockets and files of the test. */
  readonly directory = mkdtempSync(join(tmpdir(), 'space-agent-'));
  readonly #child: ChildProcess;

  private constructor() {
    const cgroup = this.cgroup === undefined ? [] : ['--cgroup', this.cgroup];
    const args = ['--listen', this.directory, '--dry-identity', ...cgroup];
    this.#child = spawn(agentBinary(), args, { stdio: ['ignore', 'ignore', 'inherit'] });
  }

  static async start(): Promise<RealAgent> {
    const agent = new RealAgent();
    const deadline = Date.now() + START_MS;
    while (!existsSync(join(agent.directory, 'traffic'))) {
      if (agent.#child.exitCode !== null) throw new Error(`the agent ended with ${agent.#child.exitCode} at its start`);
      if (Date.now() > deadline) throw new Error(`the agent did not listen in ${START_MS} ms`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return agent;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  readonly port = async (port: GuestPort): Promise<Duplex> => {
    const socket = connectSocket(join(this.directory, port));
    await once(socket, 'connect');
    return socket;
  };

  connect(options?: ConnectOptions): Promise<Guest> {
    return connectGuest(this.port, options);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await exited;
    }
    rmSync(this.directory, { recursive: true, force: true });
    if (this.cgroup !== undefined) await removeCgroup(this.cgroup);
  }
}

/** Kills what tests left running, and removes the tree. */
async function removeCgroup(path: string): Promise<void> {
  writeFileSync(join(path, 'cgroup.kill'), '1');
  const trees = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isDirectory());
  const paths = [path, ...trees.map((entry) => join(entry.parentPath, entry.name))];
  for (const each of paths.sort((a, b) => b.length - a.length)) await removeEmptied(each);
}

async function removeEmptied(path: string): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    try {
      rmdirSync(path);
      return;
    } catch {
      // Killed processes take a moment to be gone.
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
