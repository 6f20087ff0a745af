/**
 * Plays the cases from within a sandbox that is made for them, one after another, and tells of each how it went. The sandbox is
 * deleted at the end, whatever happened.
 */
import { type ConnectionOptions, type NetworkChoice, Sandbox, SpaceError } from '@space/sdk';
import type { Case, Need, Stage } from './case.ts';
import { EGRESS_CASES } from './cases/cases.ts';
import { requestTo } from './cases/identity.ts';
import { Guest } from './guest/guest.ts';
import type { OwnHosts, Places } from './places.ts';
import { SCENES, type SceneName } from './scenes.ts';
import { arrives } from './verdicts.ts';

export interface Outcome {
  readonly topic: string;
  readonly name: string;
  readonly outcome: 'ok' | 'miss' | 'not run';
  /** Of a miss: what was seen. Of what was not run: why. */
  readonly why: string | null;
  readonly seconds: number;
}

export interface RunOptions {
  readonly connection: ConnectionOptions;
  readonly places: Places;
  /** Null: there are none of our own. */
  readonly hosts: OwnHosts | null;
  /** Ends the gateway as a crash would. Left out: it is not ours. */
  readonly killGateway?: () => void;
  /** What there is beside a sandbox. Whether a host can be reached is found out. */
  readonly has: readonly Exclude<Need, 'open host'>[];
  readonly signal?: AbortSignal;
}

const WHY_NOT: Readonly<Record<Exclude<Need, 'open host'>, string>> = {
  'own hosts': 'it needs hosts that tell what reached them: --local',
  'own platform': 'it ends processes of the platform: --local',
  full: 'it takes minutes: --full',
};

export async function* runCases(options: RunOptions, cases: readonly Case[] = EGRESS_CASES): AsyncGenerator<Outcome> {
  await using sandbox = await create(options, { preset: 'none' });
  const player = new Player(sandbox, options);
  for (const one of cases) {
    options.signal?.throwIfAborted();
    yield await player.play(one);
  }
}

function create({ connection, signal }: RunOptions, network: NetworkChoice): Promise<Sandbox> {
  return Sandbox.create({
    ...connection,
    network,
    idle: { pauseAfterMs: null },
    snapshots: { everyMs: 'off' },
    metadata: { purpose: 'conformance' },
    ...(signal === undefined ? {} : { signal }),
  });
}

class Player {
  readonly #sandbox: Sandbox;
  readonly #options: RunOptions;
  #guest: Guest | null = null;
  #scene: SceneName | null = null;
  #unreachable: Promise<string | null> | null = null;
  /** Scenes that the organisation does not let anybody set, with what it says. */
  readonly #barred = new Map<SceneName, string>();

  constructor(sandbox: Sandbox, options: RunOptions) {
    this.#sandbox = sandbox;
    this.#options = options;
  }

  /** What broke off is tried once more: a busy machine cuts calls, and what was not tried to its end proves nothing. */
  async play({ topic, name, needs, scene, run }: Case): Promise<Outcome> {
    const startedAt = performance.now();
    const told = (outcome: Outcome['outcome'], why: string | null): Outcome => {
      return { topic, name, outcome, why, seconds: Math.round(performance.now() - startedAt) / 1000 };
    };
    const whyNot = (await this.#lacks(needs)) ?? (await this.#set(scene));
    if (whyNot !== null) return told('not run', whyNot);
    const first = await this.#attempt(run);
    const { seen, brokeOff } = first.brokeOff === null ? first : await this.#attempt(run);
    if (brokeOff !== null) return told('miss', `it broke off, twice: ${brokeOff}`);
    return told(seen === null ? 'ok' : 'miss', seen);
  }

  async #attempt(run: Case['run']): Promise<{ readonly seen: string | null; readonly brokeOff: string | null }> {
    try {
      // What came late of an earlier case is no part of this one.
      this.#options.hosts?.take();
      return { seen: await run(await this.#stage()), brokeOff: null };
    } catch (thrown) {
      // The next attempt has a program of its own.
      await this.#guest?.end();
      this.#guest = null;
      return { seen: null, brokeOff: thrown instanceof Error ? thrown.message : String(thrown) };
    }
  }

  async #lacks(needs: readonly Need[]): Promise<string | null> {
    for (const need of needs) {
      const why =
        need === 'open host' ? await this.#unreached() : this.#options.has.includes(need) ? null : WHY_NOT[need];
      if (why !== null) return why;
    }
    return null;
  }

  /** Of a host of somebody else: why it cannot be reached, without which no refusal would prove anything. Null: it can be. */
  #unreached(): Promise<string | null> {
    this.#unreachable ??= this.#options.hosts === null ? this.#tryHost() : Promise.resolve(null);
    return this.#unreachable;
  }

  async #tryHost(): Promise<string | null> {
    const { places } = this.#options;
    const barred = await this.#set('reading');
    if (barred !== null) return barred;
    const { guest } = await this.#stage();
    const why = arrives()({ answers: await guest.try([requestTo(places)]), heard: null });
    return why === null ? null : `${places.open} cannot be reached from a sandbox, name another with --host: ${why}`;
  }

  async #stage(): Promise<Stage> {
    this.#guest ??= await Guest.start(this.#sandbox);
    const { places, hosts, killGateway = null } = this.#options;
    return {
      places,
      hosts,
      killGateway,
      sandbox: this.#sandbox,
      guest: this.#guest,
      create: (name) => create(this.#options, SCENES[name](places)),
    };
  }

  /** Null, or why it cannot be. */
  async #set(scene: SceneName): Promise<string | null> {
    const barred = this.#barred.get(scene);
    if (barred !== undefined) return barred;
    if (this.#scene === scene) return null;
    try {
      await this.#sandbox.update({ network: SCENES[scene](this.#options.places) });
      this.#scene = scene;
      return null;
    } catch (thrown) {
      if (!(thrown instanceof SpaceError) || thrown.code !== 'network_too_wide') throw thrown;
      const why = `the organisation does not allow what it needs: ${thrown.message}`;
      this.#barred.set(scene, why);
      return why;
    }
  }
}
