/** The API keys of an organisation, for who may manage them. */
import type { ApiKeyList, CreatedApiKey, Request } from '@space/contract';
import { refuseUnknown } from './options.ts';
import { itemsOf, pagesOf } from './pages.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport, withoutConnection } from './transport.ts';

export type { CreatedApiKey };
export type ApiKey = ApiKeyList['keys'][number];
export type Role = ApiKey['roles'][number];

type Options = ConnectionOptions & CallOptions;

export interface CreateKeyOptions extends ConnectionOptions, CallOptions {
  readonly roles: readonly Role[];
  /** For people; need not be unique. */
  readonly name?: string;
  /** The only project that it is to reach (id or name). Default: all of the organisation. */
  readonly onlyProject?: string;
}

/** All of them, newest first, the revoked ones too. */
export async function listKeys(options: Options = {}): Promise<ApiKey[]> {
  const pages = pagesOf<ApiKeyList>(new Transport(options), '/v1/keys', {}, signalOf(options));
  return itemsOf(pages, ({ keys }) => keys);
}

/** `secretKey` is what a caller sends; it is in this answer only. */
export async function createKey(options: CreateKeyOptions): Promise<CreatedApiKey> {
  const { roles, name, onlyProject, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const json: Request<'createKey'> = {
    roles: [...roles],
    ...(name === undefined ? {} : { name }),
    ...(onlyProject === undefined ? {} : { project: onlyProject }),
  };
  return new Transport(options).json({ method: 'POST', path: '/v1/keys', json, signal });
}

/** At once and for good. Errors: `not_found`, `last_admin`. */
export async function revokeKey(id: string, options: Options = {}): Promise<void> {
  const path = `/v1/keys/${encodeURIComponent(id)}`;
  await new Transport(options).done({ method: 'DELETE', path, signal: signalOf(options) });
}
