/**
 * Processes, and the steps that they take. Every call of a process on what it stands on (vault, VMs, agents, database,
 * link) is two steps: the one that begins it, and the one by which its end is learned. Between steps nothing else happens;
 * at each of them the process may be killed, or be told that the call failed.
 *
 * The steps come from the ports themselves, so that a call which is added to one is a step as well.
 */
import { AppError } from '@space/core';
import type { VirtualTime } from './time.ts';

/** What may go wrong at a step. */
export const FAULTS = [
  /** The call fails. At its begin it had no effect, at its end it had. */
  'full',
  'broken',
  /** It fails after so long that whoever waits has given up. */
  'silent',
  /** It takes very long, and goes well. */
  'slow',
  'kill node',
  'kill control',
  /** A microVM dies. */
  'kill vmm',
  'database down',
  'link cut',
] as const;
export type Fault = (typeof FAULTS)[number];

export interface StepKind {
  readonly port: 'vault' | 'runtime' | 'vm' | 'guest' | 'records' | 'link' | 'archive';
  readonly call: string;
  readonly at: 'begin' | 'end';
}

/** E.g. `vault.commit`, and `vault.commit done`. */
export function labelOf({ port, call, at }: StepKind): string {
  return at === 'begin' ? `${port}.${call}` : `${port}.${call} done`;
}

/** A process that can be killed: then it takes no further step. */
export class Process {
  readonly name: 'control' | 'node';
  /** Settles when it is killed. */
  readonly killed: Promise<void>;
  alive = true;
  readonly #killed = Promise.withResolvers<void>();

  constructor(name: 'control' | 'node') {
    this.name = name;
    this.killed = this.#killed.promise;
  }

  kill(): void {
    this.alive = false;
    this.#killed.resolve();
  }
}

/** Who decides how long a step takes and what goes wrong at it. */
export interface Fate {
  delayMs(): number;
  faultAt(step: StepKind, process: Process): Fault | null;
}

/** What faults do to the world; see `FAULTS`. */
export interface Strike {
  kill(name: 'node' | 'control'): void;
  killVmm(): void;
  takeDatabaseDown(): void;
  isDatabaseDown(): boolean;
  cutLink(): void;
}

export interface StepsOptions {
  /** Of the installation. */
  readonly name: string;
  readonly trace: string[] | null;
}

const SILENCE_MS = 31_000;
const SLOW_MS = 12_000;

export class Steps {
  readonly time: VirtualTime;
  /** All that were taken, of all installations, when asked for. */
  readonly trace: string[] | null;
  /** Of all that were taken. */
  digest = 0x811c9dc5;
  fate: Fate;
  /** Told of each step before it is taken. */
  onStep: (label: string, step: StepKind) => void = () => undefined;
  readonly #strike: Strike;
  readonly #name: string;

  constructor(time: VirtualTime, fate: Fate, strike: Strike, { name, trace }: StepsOptions) {
    this.time = time;
    this.fate = fate;
    this.#strike = strike;
    this.#name = name;
    this.trace = trace;
  }

  /** Rejects with the error of the port when the call fails; never settles when the process is dead by then. */
  take(process: Process, step: StepKind): Promise<void> {
    this.onStep(labelOf(step), step);
    const fault = this.fate.faultAt(step, process);
    const waitMs = fault === 'silent' ? SILENCE_MS : fault === 'slow' ? SLOW_MS : 0;
    return new Promise((resolve, reject) => {
      this.time.after(this.fate.delayMs() + waitMs, () => {
        if (!process.alive) return;
        this.note(`${process.name} ${labelOf(step)}${fault === null ? '' : ` ← ${fault}`}`);
        if (fault !== null) this.#hit(fault);
        if (!process.alive) return;
        const isDown = step.port === 'records' && this.#strike.isDatabaseDown();
        if (isDown || (fault !== null && isFailure(fault))) reject(failureOf(step, fault));
        else resolve();
      });
    });
  }

  /** For people only. */
  log(text: string): void {
    this.trace?.push(`${this.time.nowMs.toFixed(1)} ${this.#name}: ${text}`);
  }

  note(text: string): void {
    this.log(text);
    for (let at = 0; at < text.length; at++) this.digest = Math.imul(this.digest ^ text.charCodeAt(at), 0x01000193);
    this.digest = Math.imul(this.digest ^ Math.round(this.time.nowMs * 1000), 0x01000193);
  }

  #hit(fault: Fault): void {
    if (fault === 'kill node') this.#strike.kill('node');
    if (fault === 'kill control') this.#strike.kill('control');
    if (fault === 'kill vmm') this.#strike.killVmm();
    if (fault === 'database down') this.#strike.takeDatabaseDown();
    if (fault === 'link cut') this.#strike.cutLink();
  }
}

function isFailure(fault: Fault): boolean {
  return fault === 'full' || fault === 'broken' || fault === 'silent';
}

/** As the adapter of the port would throw it. */
function failureOf({ port, call }: StepKind, fault: Fault | null): Error {
  const doing = `${port}.${call}`;
  switch (port) {
    case 'records':
      return new AppError('unavailable', `The database does not answer: ${doing}.`);
    case 'guest':
      return fault === 'silent'
        ? new AppError('agent_lost', `The agent does not answer: ${doing}.`)
        : new AppError('link_lost', `The channel to the agent broke: ${doing}.`);
    case 'vm':
    case 'runtime':
      return fault === 'silent'
        ? new AppError('vm_unresponsive', `The VMM does not answer: ${doing}.`)
        : Object.assign(new Error(`EIO: ${doing}`), { code: 'EIO' });
    case 'archive':
      return new AppError('archive_unavailable', `The storage of archives does not answer: ${doing}.`);
    case 'link':
      return new AppError('node_unavailable', `The node does not answer: ${doing}.`);
    case 'vault':
      return fault === 'full'
        ? new AppError('insufficient_space', `The vault ran out of space: ${doing}.`)
        : Object.assign(new Error(`EIO: ${doing}`), { code: 'EIO' });
  }
}

type Method = (...args: unknown[]) => unknown;

export interface PortOptions {
  /** Calls that answer at once, and are no steps. */
  readonly plain?: readonly string[];
  /** Calls that give items. */
  readonly streams?: readonly string[];
  /** What is told of an answer before it is handed on; what it returns is handed on. */
  readonly answered?: (call: string, args: readonly unknown[], answer: unknown) => unknown;
}

/** The same port, each of whose calls is two steps of the process. */
export function stepped<T extends object>(
  steps: Steps,
  process: Process,
  port: StepKind['port'],
  target: T,
  options: PortOptions = {},
  prefix = '',
): T {
  const methods = new Map<PropertyKey, unknown>();
  return new Proxy(target, {
    get(_, key) {
      const known = methods.get(key);
      if (known !== undefined) return known;
      const value: unknown = Reflect.get(target, key, target);
      if (typeof key !== 'string') return value;
      if (typeof value !== 'function') {
        // Records of one kind in the records.
        if (port !== 'records' || typeof value !== 'object' || value === null) return value;
        const inner = stepped(steps, process, port, value, options, `${key}.`);
        methods.set(key, inner);
        return inner;
      }
      const method = value.bind(target) as Method;
      const wrapped = wrap(steps, process, { port, call: `${prefix}${key}` }, method, options);
      methods.set(key, wrapped);
      return wrapped;
    },
  });
}

function wrap(
  steps: Steps,
  process: Process,
  step: Pick<StepKind, 'port' | 'call'>,
  method: Method,
  { plain = [], streams = [], answered }: PortOptions,
): Method {
  if (plain.includes(step.call)) return method;
  if (streams.includes(step.call)) {
    return async function* (...args) {
      await steps.take(process, { ...step, at: 'begin' });
      for await (const item of method(...args) as AsyncIterable<unknown>) {
        await steps.take(process, { ...step, at: 'end' });
        yield item;
      }
    };
  }
  return async (...args) => {
    await steps.take(process, { ...step, at: 'begin' });
    const answer = await Promise.resolve(method(...args)).catch(async (thrown: unknown) => {
      await steps.take(process, { ...step, at: 'end' });
      throw thrown;
    });
    const told = answered === undefined ? answer : answered(step.call, args, answer);
    await steps.take(process, { ...step, at: 'end' });
    return told;
  };
}
