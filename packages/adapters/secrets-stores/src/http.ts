/** Any server that gives a value for a path: all of its answer, or, with a field, what JSON has there (names with dots between). */
import { checkedUrl, type SecretStore, SecretValue } from '@space/core';
import { ask, askJson, credentialFrom, textAt, unavailable } from './ask.ts';
import type { Way } from './way.ts';

export interface HttpOptions {
  /** What the path is put behind. */
  readonly url: string;
  /** Of a file that holds a bearer token. */
  readonly tokenFile?: string;
}

export function httpStore({ url, tokenFile }: HttpOptions, way: Way): SecretStore {
  const base = checkedUrl(url.endsWith('/') ? url : `${url}/`);
  return {
    async fetch({ path, field }, signal) {
      if (!/^[A-Za-z0-9._~-]+(\/[A-Za-z0-9._~-]+)*$/.test(path)) throw unavailable('That is no plain path.');
      const at = new URL(path, base);
      if (!at.href.startsWith(base.href)) throw unavailable('That is no plain path.');
      const headers = tokenFile === undefined ? {} : { authorization: `Bearer ${await credentialFrom(tokenFile)}` };
      const text =
        field === null
          ? (await ask({ url: at, headers }, way, signal)).replace(/\r?\n$/, '')
          : textAt(await askJson({ url: at, headers }, way, signal), field);
      if (text === null || text === '') throw unavailable('There is no such field.');
      return { value: new SecretValue(text), validMs: null };
    },
  };
}
