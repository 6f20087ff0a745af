/** The tour itself, over the public SDK and HTTP; only the count of VMM processes is read from the machine. */
import { listTemplates, Sandbox } from '@space/sdk';
import { type Platform, processesNaming } from '@space/server';
import { addToCounter, isCounting, readCounter, startCounter } from './counter.ts';
import type { Narrator } from './narrator.ts';

const STRIDE = 1_000_000;

export async function tour(platform: Platform, say: Narrator): Promise<void> {
  const connection = { baseUrl: platform.url, apiKey: await platform.createApiKey() };

  const warm = await say.step('create a sandbox (first time: boot the template once)', () =>
    withProgress(connection, say, () => Sandbox.create({ ...connection, name: 'warm-up' })),
  );
  await warm.delete();
  const first = await say.step('create a sandbox (a copy of the ready snapshot)', () =>
    Sandbox.create({ ...connection, name: 'first', template: 'base' }),
  );
  say.claim('it runs', first.status === 'running');

  const sum = await say.step('run Python in it', () => first.run('python3 -c "print(sum(range(101)))"'));
  say.claim('it computed the sum', sum.exitCode === 0 && sum.stdout.trim() === '5050', sum.stdout.trim());

  await say.step('write a file', () => first.files.write('note.txt', 'kept\n'));
  const note = await say.step('read it back', () => first.files.read('note.txt'));
  say.claim('it is the same', note === 'kept\n');

  await say.step('start a background process that counts in memory', () => startCounter(first));
  const started = await readCounter(first);
  say.claim('it counts', await isCounting(first), `word ${started.word}, drawn at its start`);

  const snapshot = await say.step('take a snapshot, while it runs', () => first.snapshot({ name: 'before' }));
  say.claim(
    'the VM stood still only for a moment',
    snapshot.timings !== null,
    `${snapshot.timings?.stoppedMs.toFixed(1)} ms`,
  );
  const atSnapshot = await readCounter(first);

  const forks = await say.step('fork it three times', () => first.fork(3));
  await diverge([first, ...forks], atSnapshot.word, say);

  await addToCounter(first, STRIDE / 2);
  const beforeRewind = await readCounter(first);
  await say.step('rewind the first to the snapshot', () => first.rewind(snapshot));
  const rewound = await readCounter(first);
  say.claim(
    'its counter is back',
    rewound.word === started.word && rewound.count < STRIDE / 2 && beforeRewind.count > STRIDE / 2,
    `${beforeRewind.count} → ${rewound.count}`,
  );
  say.claim('and goes on', await isCounting(first));

  await pauseAndWake(platform, first, started.word, say);

  await say.step('delete all four', async () => {
    for (const sandbox of [first, ...forks]) await sandbox.delete();
  });
  say.claim('none is left', (await Sandbox.list(connection)).length === 0);
}

async function diverge(all: readonly Sandbox[], word: string, say: Narrator): Promise<void> {
  for (const [index, sandbox] of all.entries()) {
    if (index > 0) await addToCounter(sandbox, index * STRIDE);
  }
  const shown = await Promise.all(all.map(readCounter));
  say.claim(
    'all four hold the same process, with the same word in its memory',
    shown.every((each) => each.word === word),
    word,
  );
  say.claim(
    'their counters go separate ways',
    shown.every(({ count }, index) => count >= index * STRIDE && count < (index + 1) * STRIDE),
    shown.map(({ count }) => count).join(', '),
  );
  const names = await Promise.all(all.map(async (sandbox) => (await sandbox.run('hostname')).stdout.trim()));
  say.claim('each has a name of its own', new Set(names).size === all.length);
}

async function pauseAndWake(platform: Platform, sandbox: Sandbox, word: string, say: Narrator): Promise<void> {
  // In whichever vault it lies.
  const present = (await platform.node.inspectAll()).find(({ sandboxId }) => sandboxId === sandbox.id);
  const life = present?.life ?? null;
  if (life === null) throw new Error('the sandbox has no microVM');
  say.claim('one VMM process holds its memory', (await processesNaming(`/${life}/memory`)).length === 1);
  const before = await readCounter(sandbox);
  await say.step('pause it', () => sandbox.pause());
  say.claim('no VMM process is left', (await processesNaming(`/${life}/`)).length === 0 && sandbox.status === 'paused');
  const woken = await say.step('wake it by running a command', () => readCounter(sandbox));
  say.claim(
    'its memory is intact',
    woken.word === word && woken.count >= before.count,
    `${before.count} → ${woken.count}`,
  );
  say.claim('it goes on counting', await isCounting(sandbox));
}

/** Shows how far the building of the ready snapshot is. */
async function withProgress<T>(
  connection: { baseUrl: string; apiKey: string },
  say: Narrator,
  action: () => Promise<T>,
): Promise<T> {
  let last = '';
  const timer = setInterval(() => {
    listTemplates(connection).then(
      (templates) => {
        const step = templates[0]?.ready[0]?.step ?? '';
        if (step !== '' && step !== last) say.note(step);
        last = step;
      },
      () => undefined,
    );
  }, 300);
  try {
    return await action();
  } finally {
    clearInterval(timer);
  }
}
