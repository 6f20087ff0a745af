/** Vaults and their keys from the command line, by a key holder, who is no admin. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { World } from './world.ts';

let world: World;
let holder: { readonly env: Record<string, string> };
beforeAll(async () => {
  world = await World.start();
  const key = (await world.ok('keys', 'create', '--role', 'key_holder')).trim();
  holder = { env: { SPACE_API_KEY: key } };
});
afterAll(() => world[Symbol.asyncDispose]());

const run = (...args: string[]) => world.run(['vaults', ...args], holder);

it('a vault is made, rotated, revoked and reinstated, and its sandboxes stop and are back', async () => {
  await world.ok('create', '--name', 'box');
  const [own] = (await world.json('vaults')) as { name: string; isDefault: boolean; key: string }[];
  expect(own).toMatchObject({ isDefault: true, kms: 'local', key: 'installation', open: true, state: 'ready' });
  const name = own?.name ?? '';
  expect((await run('rotate', name, '--kms', 'local', '--key', 'second')).code).toBe(0);
  expect(await world.ok('vaults')).toMatch(new RegExp(`${name} \\*.*ready.*open.*local.*second`));
  expect((await run('revoke', name, '--reason', 'a laptop was lost')).code).toBe(0);
  const stopped = await world.run(['exec', 'box', 'true']);
  expect([stopped.code, stopped.stderr]).toEqual([125, expect.stringContaining('vault_revoked')]);
  expect(await world.ok('vaults')).toContain('revoked');
  expect((await run('reinstate', name)).code).toBe(0);
  await world.ok('exec', 'box', 'true');
});

it('an admin changes none of it, and is told so', async () => {
  const refused = await world.run(['vaults', 'create', 'mine', '--kms', 'local', '--key', 'a']);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('forbidden')]);
});

it('one is made to be the default, and one is destroyed', async () => {
  expect(await world.ok('vaults', 'kms')).toContain('local');
  expect(await run('create', 'next', '--kms', 'local', '--key', 'a', '--default', '--outage', 'never')).toMatchObject({
    code: 0,
    stderr: '',
  });
  expect(await world.json('vaults')).toContainEqual(
    expect.objectContaining({ name: 'next', isDefault: true, outageMs: null, onRevoke: 'pause' }),
  );
  expect((await run('destroy', 'next')).stderr).toContain('vault_in_use');
  expect((await run('create', 'last', '--kms', 'local', '--key', 'b', '--default')).code).toBe(0);
  expect((await run('destroy', 'next')).code).toBe(0);
  expect(await world.json('vaults')).toContainEqual(expect.objectContaining({ name: 'next', state: 'deleted' }));
  expect((await run('set', 'last', '--on-revoke', 'sometimes')).code).toBe(2);
});
