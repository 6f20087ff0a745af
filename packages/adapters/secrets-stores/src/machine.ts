/** Values on the machine of the gateway: files of one folder, and variables of its environment. */
import { open, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { MAX_SECRET_BYTES, type SecretStore, SecretValue } from '@space/core';
import { unavailable } from './ask.ts';

/** The path is the name of a file in the folder; one line break at its end is not of the value. */
export function filesStore({ folder }: { readonly folder: string }): SecretStore {
  return {
    async fetch({ path }) {
      if (!/^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/.test(path)) throw unavailable('That is no name of a file.');
      const text = await readWithin(folder, path).catch(() => {
        throw unavailable('The file cannot be read.');
      });
      return { value: new SecretValue(text.replace(/\r?\n$/, '')), validMs: null };
    },
  };
}

/** Links may lead about in the folder, and not out of it. */
async function readWithin(folder: string, path: string): Promise<string> {
  const [root, real] = await Promise.all([realpath(folder), realpath(join(folder, path))]);
  if (!real.startsWith(root + sep)) throw new Error('it lies elsewhere');
  const file = await open(real);
  try {
    const { size } = await file.stat();
    if (size === 0 || size > MAX_SECRET_BYTES) throw new Error('its length is not possible');
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

/** Variables that the platform hands to no other of its processes. The path is the name of one. */
const VARIABLE = /^SPACE_SECRET_[A-Z0-9_]+$/;

export function envStore(env: Readonly<Record<string, string | undefined>> = process.env): SecretStore {
  return {
    async fetch({ path }) {
      const text = VARIABLE.test(path) && Object.hasOwn(env, path) ? env[path] : undefined;
      if (text === undefined || text === '') throw unavailable('There is no such variable.');
      return { value: new SecretValue(text), validMs: null };
    },
  };
}
