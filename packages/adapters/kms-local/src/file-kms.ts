/**
 * Keys in files of one folder: `NAME.key` holds 32 random bytes, in base 64, and is readable for the platform alone. The file is
 * read each time it is needed, so that one who takes it away has revoked it.
 *
 * Keys of other installations, whose archives are to be read here, lie in `others/`. They unwrap and wrap nothing.
 */
import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type KeyContext, type Kms } from '@space/core';
import { LOCAL_KEY_BYTES, notOurs, unwrapWith, wrapWith } from './envelope.ts';
import { readPrivateFile } from './read-private-file.ts';

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;
const VERSION = 1;

/** Throws `bad_request` when the name is none. */
export function fileKms(folder: string, name: string): Kms {
  const path = pathOf(folder, name);
  const placeIn = (context: KeyContext) => ({ by: `file ${name}`, context });
  const unwrap: Kms['unwrap'] = async (wrapped, context, signal) => {
    signal.throwIfAborted();
    if (wrapped[0] !== VERSION) throw notOurs();
    let refusal: unknown;
    for (const one of [path, ...(await othersIn(folder))]) {
      const key = await readKey(one, name);
      try {
        return unwrapWith(key, wrapped.subarray(1), placeIn(context));
      } catch (thrown) {
        refusal ??= thrown;
      } finally {
        key.fill(0);
      }
    }
    throw refusal;
  };
  return {
    unwrap,
    check: async (...how) => (await unwrap(...how)).wipe(),
    async wrap(wrapped, context, signal) {
      signal.throwIfAborted();
      const key = await readKey(path, name);
      try {
        return Buffer.concat([Buffer.of(VERSION), wrapWith(key, wrapped, placeIn(context))]);
      } finally {
        key.fill(0);
      }
    },
  };
}

async function othersIn(folder: string): Promise<readonly string[]> {
  const others = join(folder, 'others');
  const names = await readdir(others).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === 'ENOENT') return [];
    throw new AppError('kms_unavailable', 'The keys of other installations cannot be read.', { cause: thrown });
  });
  return names.filter((one) => one.endsWith('.key')).map((one) => join(others, one));
}

/** Makes the key unless it is there: whole, durable and private, or not at all. */
export async function makeKeyFile(folder: string, name: string): Promise<void> {
  const path = pathOf(folder, name);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomBytes(8).toString('hex')}.draft`;
  try {
    await using file = await open(draft, 'wx', 0o600);
    await file.writeFile(`${randomBytes(LOCAL_KEY_BYTES).toString('base64')}\n`);
    await file.sync();
    // Unlike a rename it takes no other's place.
    await link(draft, path).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code !== 'EEXIST') throw thrown;
    });
  } finally {
    await rm(draft, { force: true });
  }
  await using directory = await open(folder, 'r');
  await directory.sync();
}

async function readKey(path: string, name: string): Promise<Buffer> {
  const text = await readPrivateFile(path, `The key "${name}"`);
  const key = Buffer.allocUnsafeSlow(LOCAL_KEY_BYTES);
  const decoded = Buffer.from(text.toString('latin1').trim(), 'base64');
  text.fill(0);
  const fits = decoded.length === LOCAL_KEY_BYTES;
  if (fits) key.set(decoded);
  decoded.fill(0);
  if (!fits)
    throw new AppError('kms_unavailable', `The file of the key "${name}" holds no key of ${LOCAL_KEY_BYTES} bytes.`);
  return key;
}

function pathOf(folder: string, name: string): string {
  if (!NAME.test(name))
    throw new AppError('bad_request', 'The name of a local key is of lower-case letters, digits and dashes.');
  return join(folder, `${name}.key`);
}
