/** The program in a sandbox that does what cases try. It is root there, as somebody hostile would be. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ExecEvent, Sandbox } from '@space/sdk';
import type { Answer, Try } from './tries.ts';

const PATH = '/root/space-conformance.py';
/** For all tries of a case together: an emulated guest is slow. */
const ANSWER_WITHIN_MS = 120_000;

export class Guest {
  readonly #sandbox: Sandbox;
  readonly #processId: string;
  readonly #output: AsyncGenerator<ExecEvent>;
  #held = '';

  private constructor(sandbox: Sandbox, processId: string) {
    this.#sandbox = sandbox;
    this.#processId = processId;
    this.#output = sandbox.attach(processId);
  }

  /** To be started again after whatever ends the life that it runs in. */
  static async start(sandbox: Sandbox): Promise<Guest> {
    await sandbox.files.write(PATH, await readFile(join(import.meta.dirname, 'client.py')), { user: 'root' });
    const { processId } = await sandbox.start(['python3', '-u', PATH], { user: 'root', stdin: true });
    return new Guest(sandbox, processId);
  }

  /** One after another. Throws when the program does not tell, which no case may bring about. */
  async try(tries: readonly Try[], withinMs = ANSWER_WITHIN_MS): Promise<readonly Answer[]> {
    await this.#sandbox.writeInput(this.#processId, `${JSON.stringify(tries)}\n`);
    const late = Promise.withResolvers<never>();
    late.promise.catch(() => undefined);
    const timer = setTimeout(
      () => late.reject(new Error('The program in the sandbox did not answer in time.')),
      withinMs,
    );
    try {
      return JSON.parse(await Promise.race([this.#line(), late.promise])) as readonly Answer[];
    } finally {
      clearTimeout(timer);
    }
  }

  /** The program ends; what it has open ends with it. */
  async end(): Promise<void> {
    await this.#sandbox.kill(this.#processId).catch(() => undefined);
    await this.#output.return(undefined).catch(() => undefined);
  }

  async #line(): Promise<string> {
    for (;;) {
      const end = this.#held.indexOf('\n');
      if (end >= 0) {
        const line = this.#held.slice(0, end);
        this.#held = this.#held.slice(end + 1);
        return line;
      }
      const { value, done } = await this.#output.next();
      if (done) throw new Error('The program in the sandbox has ended.');
      if (value.type === 'stdout') this.#held += Buffer.from(value.data).toString('latin1');
      if (value.type === 'stderr') this.#stderr += Buffer.from(value.data).toString();
      if (value.type === 'exited')
        throw new Error(`The program in the sandbox has ended. ${this.#stderr.slice(-1000)}`);
    }
  }

  #stderr = '';
}
