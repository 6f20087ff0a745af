/** Secrets and their bindings, from the command line: a value goes in by standard input, and comes out nowhere. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { World } from './world.ts';

const VALUE = 'a-value-that-nobody-sees';
let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(() => world[Symbol.asyncDispose]());

const bind = (...more: string[]) =>
  world.run(['bindings', 'set', 'github', '--secret', 'token', '--host', 'api.github.com', '--bearer', ...more]);

it('a secret is set from standard input and bound, and says so when no project may use it', async () => {
  const set = await world.run(['secrets', 'set', 'token'], { stdin: `${VALUE}\n` });
  expect(set).toMatchObject({ code: 0, stderr: '' });
  expect((await bind()).stderr).toContain('no project may use it yet: say --for PROJECT, or --for all');
  expect((await world.run(['create', '--name', 'box', '--secret', 'github'])).stderr).toContain('secret_not_granted');
  expect(await bind('--for', 'all')).toMatchObject({ code: 0, stderr: '' });
  await world.ok('create', '--name', 'box', '--secret', 'github');
  const listed = [await world.ok('secrets'), await world.ok('bindings'), await world.ok('get', 'box')].join('\n');
  expect(listed).toMatch(/token[\s\S]*github[\s\S]*any api\.github\.com/);
  expect(listed).not.toContain(VALUE);
});
