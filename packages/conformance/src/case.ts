/** One thing that is tried, and what must come of it. */
import type { Sandbox } from '@space/sdk';
import type { Guest } from './guest/guest.ts';
import type { Answer, Try } from './guest/tries.ts';
import type { OwnHosts, OwnPlaces, Places } from './places.ts';
import type { SceneName } from './scenes.ts';
import type { Verdict } from './verdicts.ts';

/**
 * `open host`: one that the sandbox can be let reach. `own hosts`: hosts that tell what reached them, with `--local`. `own platform`:
 * one whose processes may be killed. `full`: minutes, which `--full` allows.
 */
export type Need = 'open host' | 'own hosts' | 'own platform' | 'full';

export interface Case {
  readonly topic: string;
  readonly name: string;
  readonly needs: readonly Need[];
  readonly scene: SceneName;
  /** What was seen in the place of what must be seen; null: all is well. */
  readonly run: (stage: Stage) => Promise<string | null>;
}

/** What a case is played on. */
export interface Stage {
  readonly places: Places;
  readonly sandbox: Sandbox;
  readonly guest: Guest;
  /** Null: the hosts are not ours. */
  readonly hosts: OwnHosts | null;
  /** Ends the gateway as a crash would; it is started again by itself. Null: it is not ours. */
  readonly killGateway: (() => void) | null;
  /** Another sandbox, for whoever disposes of it. */
  create(scene: SceneName): Promise<Sandbox>;
}

interface TrickOptions {
  readonly name: string;
  readonly scene: SceneName;
  readonly needs?: readonly Need[];
  readonly tries: (places: Places) => readonly Try[];
  readonly verdict: Verdict;
}

/** A case that the program in the sandbox can play alone. */
export function trick(topic: string, { name, scene, needs = [], tries, verdict }: TrickOptions): Case {
  return {
    topic,
    name,
    needs,
    scene,
    async run(stage) {
      const answers: readonly Answer[] = await stage.guest.try(tries(stage.places));
      return verdict({ answers, heard: stage.hosts?.take() ?? null });
    },
  };
}

/** Of a case that needs hosts of our own. */
export function ownOf({ own }: Places): OwnPlaces {
  if (own === null) throw new Error('a case that needs hosts of our own was run without them');
  return own;
}
