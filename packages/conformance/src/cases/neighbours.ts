/** What one sandbox can do to another, and to the way out of all. */
import { type Case, ownOf, type Stage } from '../case.ts';
import { Guest } from '../guest/guest.ts';
import { NONSENSE } from '../guest/nonsense.ts';
import type { Try } from '../guest/tries.ts';
import { arrives, shown } from '../verdicts.ts';
import { requestTo } from './identity.ts';

const TOPIC = 'sandboxes together';
const PORT = 8000;
const STREAMS = 10_000;
/** More than a sandbox may have, so that some wait. */
const AT_ONCE = 300;
const STREAMS_WITHIN_MS = 900_000;
const GONE_WITHIN_MS = 20_000;

/** By whatever a program may call the other one. */
async function relay({ guest, create }: Stage): Promise<string | null> {
  await using other = await create('internet');
  await other.start(['python3', '-m', 'http.server', `${PORT}`, '--bind', '::'], { user: 'root' });
  await other.run(`until curl -s -o /dev/null http://[::1]:${PORT}/; do sleep 0.2; done; echo ready > served`);
  const address = (
    await other.run("ip -o -4 addr | awk '{print $4}' | cut -d/ -f1; ip -o -6 addr | awk '{print $4}' | cut -d/ -f1")
  ).stdout;
  const name = (await other.run('hostname')).stdout.trim();
  const targets = [
    other.id,
    name,
    `${other.id}.internal`,
    `${PORT}-${other.id}.localhost`,
    ...address.trim().split('\n'),
  ];
  const tries = [...new Set(targets)]
    .filter((target) => target !== '')
    .map(
      (host): Try => ({
        do: 'tcp',
        host,
        port: PORT,
        say: [`GET / HTTP/1.1\r\nHost: ${host}:${PORT}\r\n\r\n`],
        seconds: 20,
      }),
    );
  const answers = await guest.try(tries);
  const reached = answers.find(({ said }) => /^HTTP\/1\.[01] 200|SimpleHTTP/.test(said));
  return reached === undefined ? null : `it was told ${shown(reached.said)}`;
}

/** Its agent is gone then, and with it all that it could ask for; others are served. */
async function nonsense(stage: Stage): Promise<string | null> {
  await using loud = await stage.create('both');
  const signal = AbortSignal.timeout(5_000);
  await loud.run(NONSENSE, { user: 'root', signal }).catch(() => undefined);
  stage.hosts?.take();
  for (let round = 0; round < 5; round++) {
    const told = arrives()({ answers: await stage.guest.try([requestTo(stage.places)]), heard: null });
    if (told !== null) return `beside it, ${told}`;
  }
  const heard = stage.hosts?.take().text.replaceAll(/GET \/open HTTP[\s\S]*?\r\n\r\n/g, '') ?? '';
  return heard === '' ? null : `a host heard ${shown(heard)}`;
}

/** All get through in their turn, others are served meanwhile, and nothing is left of them. */
async function streams(stage: Stage): Promise<string | null> {
  const { places, hosts } = stage;
  await using busy = await stage.create('bytes');
  const crowd = await Guest.start(busy);
  const many: Try = {
    do: 'many',
    host: places.open,
    port: ownOf(places).echo,
    count: STREAMS,
    atOnce: AT_ONCE,
    seconds: 60,
  };
  let isOver = false;
  const counted = crowd.try([many], STREAMS_WITHIN_MS).finally(() => {
    isOver = true;
  });
  counted.catch(() => undefined);
  let beside = 0;
  while (!isOver) {
    const told = arrives()({ answers: await stage.guest.try([requestTo(places)]), heard: null });
    if (told !== null) return `beside them, ${told}`;
    beside++;
  }
  const [answer] = await counted;
  if (answer?.answered !== STREAMS)
    return `${answer?.answered} of ${STREAMS} were answered; ${JSON.stringify(answer?.refused ?? answer?.error)}`;
  const late = performance.now() + GONE_WITHIN_MS;
  while ((hosts?.connections ?? 0) > 0) {
    if (performance.now() > late) return `${hosts?.connections} connections are left at the hosts`;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return beside > 0 ? null : 'nothing was tried beside them';
}

export const NEIGHBOUR_CASES: readonly Case[] = [
  {
    topic: TOPIC,
    name: 'another sandbox is no way, by whatever name or address',
    needs: [],
    scene: 'internet',
    run: relay,
  },
  {
    topic: TOPIC,
    name: 'one that speaks nonsense in the place of its agent is not heard outside, and others are served',
    needs: ['open host'],
    scene: 'reading',
    run: nonsense,
  },
  {
    topic: TOPIC,
    name: `${STREAMS.toLocaleString('en')} connections of one: all get through, others are served, nothing is left`,
    needs: ['own hosts', 'full'],
    scene: 'reading',
    run: streams,
  },
];
