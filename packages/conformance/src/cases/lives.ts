/** Over all that may befall a sandbox: a program that asks without end reaches what the rules of now let it reach, and nothing else. */
import type { Sandbox } from '@space/sdk';
import { type Case, ownOf, type Stage } from '../case.ts';
import { startBeacon } from '../guest/beacon.ts';
import type { Heard } from '../places.ts';
import { shown } from '../verdicts.ts';

const TOPIC = 'from the first moment on';
/** On a busy machine a gateway takes half a minute to be there again. */
const HEARD_WITHIN_MS = 120_000;
/** What a beacon that nobody lets out would have used. */
const SILENT_FOR_MS = 1_500;

/** Of everything that was heard: what may not have been. */
function strayed({ text, names }: Heard, { shut }: Stage['places']): string | null {
  if (/\/shut\//.test(text)) return `a host heard ${shown(text.slice(text.indexOf('/shut/') - 4))}`;
  return names.includes(shut) ? `the name server was asked for ${shut}` : null;
}

class Listening {
  readonly #stage: Stage;
  #heard: Heard = { text: '', connections: 0, names: [] };

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** Null when `count` requests have come; of one machine, when it is named. */
  async requests(count = 3, from = ''): Promise<string | null> {
    this.#take();
    const before = this.#count(from);
    const late = performance.now() + HEARD_WITHIN_MS;
    while (this.#count(from) < before + count) {
      if (performance.now() > late) return 'what rules let through did not arrive any more';
      await pause(100);
      this.#take();
    }
    return strayed(this.#heard, this.#stage.places);
  }

  /** Null when nothing comes for a while. */
  async nothing(): Promise<string | null> {
    this.#take();
    const before = this.#heard.text.length;
    await pause(SILENT_FOR_MS);
    this.#take();
    const more = this.#heard.text.slice(before);
    return more === '' ? strayed(this.#heard, this.#stage.places) : `a host heard ${shown(more)}`;
  }

  #count(from: string): number {
    return this.#heard.text.split(`/open/beacon/${from}`).length - 1;
  }

  #take(): void {
    const { text, connections, names } = this.#stage.hosts?.take() ?? this.#heard;
    this.#heard = {
      text: this.#heard.text + text,
      connections: this.#heard.connections + connections,
      names: [...this.#heard.names, ...names],
    };
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

interface Told {
  readonly stage: Stage;
  readonly sandbox: Sandbox;
  readonly listening: Listening;
}

function story(name: string, tell: (told: Told) => Promise<string | null>, needs: Case['needs'] = []): Case {
  return {
    topic: TOPIC,
    name,
    needs: ['own hosts', ...needs],
    scene: 'nothing',
    async run(stage) {
      await using sandbox = await stage.create('reading');
      await startBeacon(sandbox, stage.places, ownOf(stage.places));
      const listening = new Listening(stage);
      return (await listening.requests()) ?? (await tell({ stage, sandbox, listening }));
    },
  };
}

export const LIFE_CASES: readonly Case[] = [
  story('over a pause and a wake, a fork, and a rewind', async ({ sandbox, listening }) => {
    const point = await sandbox.snapshot();
    await sandbox.pause();
    await sandbox.resume();
    const woken = await listening.requests();
    if (woken !== null) return `woken: ${woken}`;
    const [copy] = await sandbox.fork(1);
    if (copy === undefined) return 'there is no fork';
    await using fork = copy;
    const hostname = (await fork.run('hostname')).stdout.trim();
    const forked = await listening.requests(3, hostname);
    if (forked !== null) return `forked: ${forked}`;
    await sandbox.rewind(point);
    const rewound = await listening.requests();
    return rewound === null ? null : `rewound: ${rewound}`;
  }),
  story('rules that were taken away while it was paused are gone when it wakes', async ({ sandbox, listening }) => {
    await sandbox.pause();
    await sandbox.update({ network: { preset: 'none' } });
    await listening.nothing();
    await sandbox.resume();
    return listening.nothing();
  }),
  story(
    'rules that are taken away are not brought back by a rewind, nor by a fork of the past',
    async ({ sandbox, listening }) => {
      const point = await sandbox.snapshot();
      await sandbox.update({ network: { preset: 'none' } });
      await sandbox.rewind(point);
      const rewound = await listening.nothing();
      if (rewound !== null) return `rewound: ${rewound}`;
      const [copy] = await sandbox.fork(1, { from: point });
      if (copy === undefined) return 'there is no fork';
      await using _fork = copy;
      const forked = await listening.nothing();
      return forked === null ? null : `forked: ${forked}`;
    },
  ),
  story(
    'while the gateway is killed, and when it is there again',
    async ({ stage, listening }) => {
      stage.killGateway?.();
      const again = await listening.requests();
      if (again !== null) return again;
      stage.killGateway?.();
      return listening.requests();
    },
    ['own platform'],
  ),
];
