/** What the SDK seals the gateway opens, for the secret that it was sealed for, and nothing in between can read it. */
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OrganisationId } from '@space/core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LocalSecrets } from '../../packages/gateway/src/secrets/local-secrets.ts';
import { seal } from '../../packages/sdk/src/sealing.ts';

const organisation = 'org_0000000000000001' as OrganisationId;
const VALUE = 'canary-9b1d-ä\nvalue';
const secret = { organisationId: organisation, name: 'token' };
let folder: string;
let local: LocalSecrets;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-secrets-'));
  local = new LocalSecrets(folder);
});
afterEach(() => rm(folder, { recursive: true }));

const sealed = async (value = VALUE, name = 'token') =>
  seal({ publicKey: await local.publicKey(), organisation, name }, value);

it('a value is opened by the gateway, and kept over a restart', async () => {
  const text = await sealed();
  expect(Buffer.from(text, 'base64').includes(VALUE)).toBe(false);
  await local.putSealed(secret, text);
  expect((await local.find(secret))?.reveal()).toBe(VALUE);
  const again = new LocalSecrets(folder);
  expect((await again.find(secret))?.reveal()).toBe(VALUE);
  expect(await again.publicKey()).toBe(await local.publicKey());
  await again.drop(secret);
  expect(await new LocalSecrets(folder).find(secret)).toBeNull();
});

it('a value is not opened for another name or organisation, nor when a letter of it was changed', async () => {
  const text = await sealed();
  const flipped = Buffer.from(text, 'base64');
  flipped[40] = (flipped[40] ?? 0) ^ 1;
  const elsewhere = new LocalSecrets(join(folder, 'other'));
  for (const put of [
    () => local.putSealed({ ...secret, name: 'other' }, text),
    () => local.putSealed({ ...secret, organisationId: 'org_0000000000000002' as OrganisationId }, text),
    () => local.putSealed(secret, flipped.toString('base64')),
    () => local.putSealed(secret, 'AA=='),
    () => local.putSealed(secret, ''),
    () => elsewhere.putSealed(secret, text),
  ]) {
    await expect(put()).rejects.toMatchObject({ code: 'bad_request' });
  }
  expect(await local.find(secret)).toBeNull();
});

it('what lies on the disk is readable by its owner only, and holds nothing in clear', async () => {
  await Promise.all([
    local.putSealed(secret, await sealed()),
    local.putSealed({ ...secret, name: 'b' }, await sealed(VALUE, 'b')),
  ]);
  const files = await readdir(folder);
  expect(files.sort()).toEqual(['secrets', 'secrets.key']);
  for (const file of files) {
    const bytes = await readFile(join(folder, file));
    for (const form of [VALUE, Buffer.from(VALUE).toString('base64'), Buffer.from(VALUE).toString('hex'), 'token']) {
      expect(bytes.includes(form), `${file} holds ${form}`).toBe(false);
    }
    expect((await stat(join(folder, file))).mode & 0o077).toBe(0);
  }
});

it('an empty value, and one that is too long, is refused', async () => {
  await expect(local.putSealed(secret, await sealed(''))).rejects.toMatchObject({ code: 'bad_request' });
  await expect(local.putSealed(secret, await sealed('x'.repeat(20_000)))).rejects.toMatchObject({
    code: 'bad_request',
  });
});
