/** Keys of other installations, beside the own one. */
import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KeyBytes, newId, type VaultName } from '@space/core';
import { fileKms, makeKeyFile } from '@space/kms-local';
import { expect, it } from 'vitest';

const chance = { bytes: (count: number) => randomBytes(count) };
const context = { organisationId: newId('organisation', chance), vault: 'acme' as VaultName };
const signal = AbortSignal.timeout(60_000);
const wrong = expect.objectContaining({ code: 'vault_key_wrong' });

it('unwraps what it wrapped there, and wraps nothing here', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'space-others-'));
  try {
    const [here, there] = [join(parent, 'here'), join(parent, 'there')];
    for (const folder of [here, there]) await makeKeyFile(folder, 'installation');
    const secret = randomBytes(65);
    const wrapped = await fileKms(there, 'installation').wrap(new KeyBytes(Buffer.from(secret)), context, signal);
    const own = fileKms(here, 'installation');
    await expect(own.unwrap(wrapped, context, signal)).rejects.toEqual(wrong);
    await mkdir(join(here, 'others'), { mode: 0o700 });
    await copyFile(join(there, 'installation.key'), join(here, 'others', 'there.key'));
    expect(Buffer.from((await own.unwrap(wrapped, context, signal)).reveal())).toEqual(secret);
    const other = { ...context, vault: 'other' as VaultName };
    await expect(own.unwrap(wrapped, other, signal)).rejects.toEqual(wrong);
    const back = await own.wrap(new KeyBytes(Buffer.from(secret)), context, signal);
    await expect(fileKms(there, 'installation').unwrap(back, context, signal)).rejects.toEqual(wrong);
    await rm(join(here, 'others', 'there.key'));
    await expect(own.unwrap(wrapped, context, signal)).rejects.toEqual(wrong);
  } finally {
    await rm(parent, { recursive: true });
  }
});
