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
  await bind('--for', 'all', '--port', '8443');
  expect(await world.ok('bindings')).toContain('api.github.com:8443');
});

it('a sandbox that is moved says which bindings it goes without, and how it gets them', async () => {
  await bind('--for', 'all');
  const { id } = await world.json('create', '--name', 'mover', '--secret', 'github');
  const archive = (await world.ok('move', 'mover')).trim();
  await world.ok('bindings', 'rm', 'github');
  const { stderr } = await world.run(['import', '--move', archive]);
  expect(stderr).toContain(`not granted here, and goes without: github.`);
  expect(stderr).toContain(`space bindings use ${id} github`);
  expect((await world.run(['bindings', 'use', id, 'github'])).stderr).toContain('secret_not_granted');
  await bind('--for', 'all');
  expect((await world.ok('bindings', 'use', id, 'github')).trim()).toBe('github');
  expect(await world.json('get', id)).toMatchObject({ secrets: ['github'], missingSecrets: [] });
  expect(await world.json('bindings', 'use', id)).toMatchObject({ secrets: [] });
});
