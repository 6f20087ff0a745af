/**
 * HashiCorp Vault and OpenBao. The path is what stands behind `/v1/`: `kv/data/team/token` of KV version 2, or a path that makes
 * credentials, as `database/creds/reader`; the field is one of the data. What is leased is kept for as long as its lease at most.
 */
import { checkedUrl, type SecretStore, SecretValue } from '@space/core';
import { ask, askJson, credentialFrom, textAt, unavailable } from './ask.ts';
import type { Way } from './way.ts';

export interface VaultOptions {
  readonly url: string;
  /** Of a file that holds a token. */
  readonly tokenFile?: string;
  readonly appRole?: { readonly roleId: string; readonly secretIdFile: string; readonly mount?: string };
  readonly namespace?: string;
}

const BEFORE_END_MS = 10_000;

export function vaultStore(options: VaultOptions, way: Way): SecretStore {
  const base = checkedUrl(options.url);
  const common = options.namespace === undefined ? {} : { 'x-vault-namespace': options.namespace };
  let login: { readonly token: string; readonly untilMs: number } | null = null;

  async function token(signal: AbortSignal): Promise<string> {
    if (options.tokenFile !== undefined) return credentialFrom(options.tokenFile);
    if (options.appRole === undefined) throw unavailable('The store has no credential.');
    if (login !== null && performance.now() < login.untilMs) return login.token;
    const { roleId, secretIdFile, mount = 'approle' } = options.appRole;
    const body = JSON.stringify({ role_id: roleId, secret_id: await credentialFrom(secretIdFile) });
    const url = new URL(`/v1/auth/${mount}/login`, base);
    const answer = await askJson({ url, method: 'POST', headers: common, body }, way, signal);
    const made = textAt(answer, 'auth.client_token');
    if (made === null) throw unavailable(`${base.host} gave no token.`);
    const seconds = (answer as { auth: { lease_duration?: unknown } }).auth.lease_duration;
    const forMs = typeof seconds === 'number' ? seconds * 1000 - BEFORE_END_MS : 0;
    login = { token: made, untilMs: performance.now() + forMs };
    return made;
  }

  return {
    async fetch({ path, field }, signal) {
      if (field === null) throw unavailable('A secret of Vault needs a field.');
      if (!/^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)+$/.test(path) || path.split('/').some((part) => /^\.+$/.test(part))) {
        throw unavailable('That is no path of Vault.');
      }
      const headers = { ...common, 'x-vault-token': await token(signal) };
      const answer = JSON.parse(await ask({ url: new URL(`/v1/${path}`, base), headers }, way, signal)) as unknown;
      // Version 2 of KV has the data one level below.
      const text = textAt(answer, `data.data.${field}`) ?? textAt(answer, `data.${field}`);
      if (text === null) throw unavailable('There is no such field.');
      const { lease_duration: seconds } = answer as { lease_duration?: unknown };
      const isLeased = typeof seconds === 'number' && seconds > 0;
      return { value: new SecretValue(text), validMs: isLeased ? seconds * 1000 : null };
    },
  };
}
