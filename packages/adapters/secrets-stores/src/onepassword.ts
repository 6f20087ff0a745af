/** 1Password Connect. The path is `vault/item`, by their ids; the field is the label or the id of one of the item's. */
import { checkedUrl, type SecretStore, SecretValue } from '@space/core';
import { askJson, credentialFrom, unavailable } from './ask.ts';
import type { Way } from './way.ts';

export interface OnePasswordOptions {
  readonly url: string;
  readonly tokenFile: string;
}

interface Field {
  readonly id?: unknown;
  readonly label?: unknown;
  readonly value?: unknown;
}

export function onePasswordStore({ url, tokenFile }: OnePasswordOptions, way: Way): SecretStore {
  const base = checkedUrl(url);
  return {
    async fetch({ path, field }, signal) {
      const [, vault, item] = /^([A-Za-z0-9]{1,64})\/([A-Za-z0-9]{1,64})$/.exec(path) ?? [];
      if (vault === undefined) throw unavailable('The path must be the ids of a vault and an item.');
      const headers = { authorization: `Bearer ${await credentialFrom(tokenFile)}` };
      const answer = await askJson({ url: new URL(`/v1/vaults/${vault}/items/${item}`, base), headers }, way, signal);
      const { fields = [] } = answer as { fields?: readonly Field[] };
      const found = fields.find(({ id, label }) => field !== null && (id === field || label === field));
      if (typeof found?.value !== 'string' || found.value === '') throw unavailable('There is no such field.');
      return { value: new SecretValue(found.value), validMs: null };
    },
  };
}
