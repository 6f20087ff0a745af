/**
 * One schedule: clients that do what a seed says, while a seed says how long each step takes and what goes wrong. The same
 * seed gives the same schedule, to the last step.
 */
import { checkAll, Violation } from './checks.ts';
import { Client, History, type Known } from './client.ts';
import { Closer } from './closer.ts';
import { Random } from './random.ts';
import { FAULTS, type Fate, type Fault, type StepKind } from './steps.ts';
import { World } from './world.ts';

const LIMIT_MS = 6 * 60 * 60_000;

export interface ScheduleReport {
  readonly seed: number;
  /** The same for the same schedule. */
  readonly digest: number;
  readonly steps: number;
  readonly faults: number;
  /** How often the vault was closed meanwhile. */
  readonly closed: number;
  readonly violation: Error | null;
  readonly trace: readonly string[];
}

const ACTIONS = {
  ...{ mark: 6, look: 3, pause: 3, resume: 3, snapshot: 3, fork: 2, forkPoint: 1 },
  ...{ rewind: 3, remove: 1, get: 1, create: 1, wait: 1 },
};

/** Draws the time of each step, and the faults at them, for as long as there are some left. */
export class DrawnFate implements Fate {
  readonly #random: Random;
  readonly #probability: number;
  readonly #kinds: readonly Fault[];
  left: number;
  struck = 0;

  constructor(random: Random) {
    this.#random = random;
    // One of four goes without, so that races alone are looked at as well.
    this.left = random.happens(0.25) ? 0 : 1 + random.below(6);
    this.#probability = random.pick([0.003, 0.01, 0.03]) ?? 0;
    this.#kinds = FAULTS.filter(() => random.happens(0.5));
  }

  delayMs(): number {
    const part = this.#random.part();
    if (part < 0.02) return 50 + this.#random.below(800);
    return 0.1 + part * part * 4;
  }

  faultAt(step: StepKind): Fault | null {
    if (this.left === 0 || !this.#random.happens(this.#probability)) return null;
    const fault = this.#random.pick(this.#kinds.filter((kind) => isPossible(kind, step)));
    if (fault === undefined) return null;
    this.left -= 1;
    this.struck += 1;
    return fault;
  }
}

/** Which faults a step may meet: those that its adapter may answer with, and the deaths of processes. */
export function isPossible(fault: Fault, { port, call, at }: StepKind): boolean {
  switch (fault) {
    case 'full':
      return port === 'vault' && at === 'begin' && !/^(delete|abandon|read|points|lives|sandboxes|close)/.test(call);
    case 'broken':
      // A start that fails leaves no VM.
      return !(at === 'end' && /^(boot|restore|adopt|survivors)$/.test(call));
    case 'silent':
      return port === 'guest' || (port === 'vm' && at === 'begin');
    default:
      return true;
  }
}

class Player {
  readonly #random: Random;
  readonly #client: Client;
  readonly #history: History;
  readonly #options: { readonly idleMs?: number; readonly collected: boolean };

  constructor(history: History, client: Client, random: Random) {
    this.#history = history;
    this.#client = client;
    this.#random = random;
    this.#options = { collected: random.happens(0.3), ...(random.happens(0.3) ? { idleMs: 10_000 } : {}) };
  }

  async play(actions: number): Promise<void> {
    for (let left = actions; left > 0; left--) {
      await this.#history.world.time.sleep(
        this.#random.happens(0.7) ? this.#random.below(30) : this.#random.below(4_000),
      );
      const known = this.#random.pick(this.#history.known);
      if (known === undefined) await this.#client.create('first', this.#options);
      else await this.#act(known);
    }
  }

  async #act(known: Known): Promise<void> {
    const client = this.#client;
    const point = this.#random.pick(known.points);
    // An explanation is looked for in every order of what overlaps.
    if (known.happenings.length > 24) return;
    switch (this.#random.weighted(ACTIONS)) {
      case 'mark':
        return void (await client.mark(known));
      case 'look':
        return void (await client.look(known));
      case 'get':
        return client.get(known);
      case 'pause':
        return void (await client.pause(known));
      case 'resume':
        return void (await client.resume(known));
      case 'snapshot':
        return void (await client.snapshot(known));
      case 'fork':
        return void (await client.fork(known, 1 + this.#random.below(2)));
      case 'forkPoint':
        if (point !== undefined) await client.fork(known, 1, point);
        return;
      case 'rewind':
        if (point !== undefined) await client.rewind(known, point);
        return;
      case 'remove':
        return void (await client.remove(known));
      case 'create':
        return void (await client.create(client.newName(), this.#options));
      case 'wait':
        return this.#history.world.time.sleep(15_000 + this.#random.below(30_000));
    }
  }
}

export async function runSchedule(seed: number, { traced = false } = {}): Promise<ScheduleReport> {
  const random = new Random(seed);
  const fate = new DrawnFate(random);
  const world = new World({
    ...{ seed, traced, fate: () => fate },
    memory: random.happens(0.5) ? 'in_place' : 'written',
    memoryMib: random.happens(0.3) ? 200 : 100_000,
    poolMib: random.happens(0.5) ? 100 : 0,
  });
  const closer = new Closer(world, seed);
  const clients = 1 + random.below(3);
  const actions = 4 + random.below(7);
  const violation = await world.time
    .run(async () => {
      const history = new History(world);
      await world.boot();
      const players = Array.from({ length: clients }, (_, index) => {
        const client = new Client(history, String.fromCharCode(97 + index));
        return new Player(history, client, random).play(actions);
      });
      const working = closer.work();
      await Promise.all(players);
      fate.left = 0;
      await closer.stop();
      await working;
      await checkAll(history, new Client(history, 'z'));
    }, LIMIT_MS)
    .then(
      () => null,
      (thrown: unknown) => (thrown instanceof Error ? thrown : new Violation(String(thrown))),
    );
  const { digest, trace } = world.steps;
  return {
    seed,
    digest,
    steps: world.time.count,
    faults: fate.struck,
    closed: closer.closed,
    violation,
    trace: trace ?? [],
  };
}
