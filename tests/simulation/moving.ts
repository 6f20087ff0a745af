/** One schedule of sandboxes that move, between two installations that share nothing but an archive. */
import { Violation } from './checks.ts';
import { History, type Known } from './client.ts';
import { checkBoth, type Pair, watchClaims } from './moving-checks.ts';
import { Book, MovingClient } from './moving-client.ts';
import { Random } from './random.ts';
import { DrawnFate, type ScheduleReport } from './schedule.ts';
import { World } from './world.ts';

const LIMIT_MS = 12 * 60 * 60_000;

const ACTIONS = {
  ...{ mark: 6, look: 2, get: 1, pause: 1, resume: 1, snapshot: 2, rewind: 1, remove: 1, create: 1, wait: 1 },
  ...{ leave: 5, arrive: 7, undo: 2, export: 2, import: 1 },
};

class MovingPlayer {
  readonly #random: Random;
  readonly #pair: Pair;
  readonly #book: Book;

  constructor(pair: Pair, book: Book, random: Random) {
    this.#pair = pair;
    this.#book = book;
    this.#random = random;
  }

  async play(actions: number): Promise<void> {
    const { history, world } = this.#pair[0];
    for (let left = actions; left > 0; left--) {
      await world.time.sleep(this.#random.happens(0.7) ? this.#random.below(60) : this.#random.below(6_000));
      const known = this.#random.pick(history.known);
      if (known === undefined) await this.#pair[0].create('first', { collected: this.#random.happens(0.2) });
      // An explanation is looked for in every order of what overlaps.
      else if (known.happenings.length <= 24) await this.#act(known);
    }
  }

  /** Mostly where it was heard of last. */
  #clientFor({ happenings }: Known): MovingClient {
    const last = happenings.findLast(({ kind, maybe }) => !maybe && kind !== 'gone' && kind !== 'away');
    const at = last?.site === 'b' ? 1 : 0;
    return this.#pair[this.#random.happens(0.85) ? at : ((1 - at) as 0 | 1)];
  }

  async #act(known: Known): Promise<unknown> {
    const client = this.#clientFor(known);
    const point = this.#random.pick(known.points);
    const timeline = this.#random.happens(0.6);
    const patience = this.#random.happens(0.2) ? { patienceMs: this.#random.below(400) } : {};
    switch (this.#random.weighted(ACTIONS)) {
      case 'mark':
        return client.mark(known);
      case 'look':
        return client.look(known);
      case 'get':
        return client.get(known);
      case 'pause':
        return client.pause(known);
      case 'resume':
        return client.resume(known);
      case 'snapshot':
        return client.snapshot(known);
      case 'rewind':
        return point === undefined ? undefined : client.rewind(known, point);
      case 'remove':
        return this.#random.happens(0.4) ? client.remove(known) : undefined;
      case 'create':
        return client.create(client.newName());
      case 'wait':
        return client.world.time.sleep(15_000 + this.#random.below(30_000));
      case 'leave':
        return client.leave(known, { timeline, ...patience });
      case 'arrive':
        return this.#arrive();
      case 'undo':
        return client.undo(known);
      case 'export':
        return client.export(known, { timeline, ...patience });
      case 'import': {
        const copy = this.#random.pick(this.#book.copies);
        return copy === undefined ? undefined : this.#pair[this.#random.below(2) as 0 | 1].import(copy);
      }
    }
  }

  /** By one of the last moves, at either of them; now and then at both, or twice. */
  async #arrive(): Promise<unknown> {
    const move = this.#random.pick(this.#book.moves.slice(-3));
    if (move === undefined) return;
    const clients = Array.from(
      { length: this.#random.happens(0.3) ? 2 : 1 },
      () => this.#pair[this.#random.below(2) as 0 | 1],
    );
    return Promise.all(clients.map((client) => client.arrive(move.known, move.archive)));
  }
}

export async function runMoves(seed: number, { traced = false } = {}): Promise<ScheduleReport> {
  const random = new Random(seed);
  const fate = new DrawnFate(random);
  const options = { seed, traced, fate: () => fate, memory: random.happens(0.5) ? 'in_place' : 'written' } as const;
  const a = new World(options);
  const b = new World({ ...options, beside: a });
  const players = 1 + random.below(3);
  const actions = 5 + random.below(8);
  let twice: Error | null = null;
  watchClaims([a, b], (violation) => {
    twice ??= violation;
  });
  const violation = await a.time
    .run(async () => {
      const history = new History(a);
      history.follow(b);
      const book = new Book();
      await Promise.all([a.boot(), b.boot()]);
      const pairOf = (name: string): Pair => [
        new MovingClient(history, `${name}a`, a, book),
        new MovingClient(history, `${name}b`, b, book),
      ];
      await Promise.all(
        Array.from({ length: players }, (_, at) => {
          return new MovingPlayer(pairOf(String.fromCharCode(112 + at)), book, random).play(actions);
        }),
      );
      fate.left = 0;
      await checkBoth(pairOf('z'));
    }, LIMIT_MS)
    .then(
      () => twice,
      (thrown: unknown) => twice ?? (thrown instanceof Error ? thrown : new Violation(String(thrown))),
    );
  const { trace } = a.steps;
  const digest = a.steps.digest ^ b.steps.digest;
  return { seed, digest, steps: a.time.count, faults: fate.struck, closed: 0, violation, trace: trace ?? [] };
}
