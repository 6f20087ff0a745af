/** The command line against a whole platform in memory. */
import { spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { createTestPlatform, type TestPlatform, type TestPrograms } from '@space/testing';
import { vi } from 'vitest';
import { runCli } from '../src/run-cli.ts';
import { MAIN, Pty } from './pty.ts';

export interface Ran {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Programs that do what those of a real guest do to a terminal and a pipe. */
const PROGRAMS: TestPrograms = {
  /** Prints what it is given until a line `quit CODE`. */
  async interactive({ input, print }, modes) {
    print(`\x1b[?1049h\x1b[?25l${modes.join('')}ready\r\n`);
    for await (const bytes of input) {
      const text = Buffer.from(bytes).toString();
      print(`<${text}>`);
      const code = /quit (\d+)/.exec(text)?.[1];
      if (code !== undefined) return Number(code);
    }
    return 0;
  },
  async bytes({ print }, [count]) {
    for (let left = Number(count); left > 0; left -= 65_536)
      print(Buffer.alloc(Math.min(left, 65_536), 'ab\0\xff', 'latin1'));
    return 0;
  },
};

export class World implements AsyncDisposable {
  readonly platform: TestPlatform;

  private constructor(platform: TestPlatform) {
    this.platform = platform;
  }

  static async start(): Promise<World> {
    return new World(await createTestPlatform({ programs: PROGRAMS }));
  }

  get env(): Record<string, string> {
    const { baseUrl, apiKey } = this.platform.connection;
    return { SPACE_URL: baseUrl, SPACE_API_KEY: apiKey };
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    return spawn(process.execPath, [MAIN, ...args], {
      env: { PATH: process.env['PATH'] ?? '', SPACE_CONFIG: '/nonexistent', ...this.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
  }

  /** A process of its own. */
  async spawned(args: readonly string[], { stdin }: RunWith = {}): Promise<Ran> {
    const child = this.start(args);
    const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
    child.stdout.on('data', (bytes) => stdout.push(bytes));
    child.stderr.on('data', (bytes) => stderr.push(bytes));
    child.stdin.on('error', () => undefined).end(stdin ?? '');
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
    return { code, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() };
  }

  /** In this process, which is quicker. One at a time: the SDK reads the environment of the process. */
  async run(args: readonly string[], { stdin, env, signals = new EventEmitter() }: RunWith = {}): Promise<Ran> {
    for (const [name, value] of Object.entries({ SPACE_CONFIG: '/nonexistent', ...this.env, ...env }))
      vi.stubEnv(name, value);
    const [stdout, stderr] = [new Collector(), new Collector()];
    const code = await runCli(args, {
      stdin: Readable.from(stdin === undefined ? [] : [Buffer.from(stdin)]),
      stdout,
      stderr,
      env: process.env,
      signals,
      suspend: () => undefined,
    });
    return { code, stdout: stdout.bytes, stderr: stderr.bytes.toString() };
  }

  /** The output of a run that succeeds. */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(args);
    if (code !== 0) throw new Error(`space ${args.join(' ')} ended with ${code}: ${stderr}`);
    return stdout.toString();
  }

  async json(...args: string[]) {
    return JSON.parse(await this.ok(...args, '--json'));
  }

  onTerminal(...args: string[]): Pty {
    return new Pty([process.execPath, MAIN, ...args], this.env);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.platform.close();
  }
}

class Collector extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

interface RunWith {
  readonly stdin?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly signals?: EventEmitter;
}
