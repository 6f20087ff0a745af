/** Templates are built from a folder, listed and deleted. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { World } from './world.ts';

let world: World;
let folder: string;
beforeAll(async () => {
  world = await World.start();
});
afterAll(() => world[Symbol.asyncDispose]());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-recipe-'));
  return () => rm(folder, { recursive: true });
});

const recipe = (content: object) => writeFile(join(folder, 'template.json'), JSON.stringify(content));

it('a folder with a recipe becomes a template, and sandboxes have what it says', async () => {
  await mkdir(join(folder, 'src'));
  await writeFile(join(folder, 'src', 'greeting'), 'hello\n');
  const steps = [
    { type: 'copy', from: 'src', to: '/opt/tools' },
    { type: 'run', command: 'echo made > /home/user/made' },
  ];
  await recipe({ name: 'tools', from: 'base', size: { memoryMib: 1024 }, steps });
  expect(await world.ok('templates', 'build', folder, '-t', 'default', '-t', 'v1')).toBe('tools\n');
  expect(await world.ok('run', '--template', 'tools:v1', '--', 'cat', '/opt/tools/greeting', '/home/user/made')).toBe(
    'hello\nmade\n',
  );
  const table = await world.ok('templates');
  expect(table).toMatch(/^base .* any/m);
  expect(table).toMatch(/^tools +1 CPU, 1024 MiB +default v1; last build ready/m);
  const again = JSON.parse(await world.ok('templates', 'build', folder, '--name', 'tools', '--json'));
  expect(again).toMatchObject({ status: 'ready', cachedSteps: 3 });
  expect(await world.ok('templates', 'rm', 'tools')).toBe('tools\n');
  expect((await world.run(['templates', 'rm', 'tools'])).stderr).toContain("template 'tools' not found");
});

it('a step that fails, and a recipe that is none, are told of', async () => {
  await recipe({ name: 'broken', steps: [{ type: 'run', command: 'echo no such thing >&2; exit 4' }] });
  const failed = await world.run(['templates', 'build', folder]);
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('exit status 4: no such thing')]);
  await recipe({ name: 'broken', steps: [{ type: 'copy', from: '../..', to: '/x' }] });
  expect(await world.run(['templates', 'build', folder])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('outside of the folder'),
  });
  await recipe({ name: 'broken', steps: [], other: 1 });
  expect((await world.run(['templates', 'build', folder])).stderr).toContain('other');
  await writeFile(join(folder, 'template.json'), '[');
  expect((await world.run(['templates', 'build', folder])).code).toBe(2);
  expect((await world.run(['templates', 'build', 'no-such'])).stderr).toContain('There is no recipe no-such');
});

it('an image in a file beside the recipe is brought', async () => {
  await recipe({ name: 'image', from: { archive: 'image.tar' } });
  const without = await world.run(['templates', 'build', folder]);
  expect(without).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no image.tar beside the recipe'),
  });
  await writeFile(join(folder, 'image.tar'), 'an image');
  // Here is nothing that opens it: the build comes as far as that.
  const brought = await world.run(['templates', 'build', folder]);
  expect(brought.stderr).toMatch(/FROM archive .*The build failed at step base/s);
});
