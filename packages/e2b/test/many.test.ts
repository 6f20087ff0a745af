/** One client that uses many sandboxes at once: each answer is of the sandbox that was asked. */
import { Sandbox } from 'e2b';
import { expect, it } from 'vitest';
import { World } from './world.ts';

const SANDBOXES = 30;

it('thirty sandboxes at once stay apart', async () => {
  await using world = await World.start();
  const use = async (at: number) => {
    const sandbox = await Sandbox.create({ ...world.options, envs: { WHICH: `${at}` } });
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true });
    const [, ...results] = await Promise.all([
      sandbox.commands.sendStdin(cat.pid, `input ${at}`),
      ...Array.from({ length: 3 }, () => sandbox.commands.run('echo $WHICH')),
    ]);
    await sandbox.files.write('which', `file ${at}`);
    await sandbox.commands.closeStdin(cat.pid);
    const outputs = results.map(({ stdout }) => stdout.trim());
    return [...outputs, await sandbox.files.read('which'), (await cat.wait()).stdout];
  };
  const all = await Promise.all(Array.from({ length: SANDBOXES }, (_, at) => use(at)));
  expect(all).toEqual(all.map((_, at) => [`${at}`, `${at}`, `${at}`, `file ${at}`, `input ${at}`]));
});
