/** Vaults and the customer's keys that open them, for key holders; who has sandboxes sees them, and changes none. */
import type { Request, Vault, VaultList } from '@space/contract';
import { refuseUnknown } from './options.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport, withoutConnection } from './transport.ts';

export type { Vault, VaultList };

type Options = ConnectionOptions & CallOptions;
/** A key of a KMS that the operator has configured; `{ kms: 'local', key: 'installation' }` is always there. */
export type KmsKey = Request<'rotateVaultKey'>;
type KeyOf = Pick<KmsKey, 'kms' | 'key'>;
export type CreateVaultOptions = Omit<Request<'createVault'>, 'name'> & Options;
export type UpdateVaultOptions = Omit<Request<'updateVault'>, 'id'> & Options;

/** Those of the organisation, by name, and the KMSs that it may name. Opens no vault. */
export async function listVaults(options: Options = {}): Promise<VaultList> {
  return callOf(options, { method: 'GET', path: '/v1/vaults' });
}

/** Errors: `not_found`. */
export async function getVault(name: string, options: Options = {}): Promise<Vault> {
  return callOf(options, { method: 'GET', path: vaultPath(name) });
}

/** Under a key of the customer's. Errors: `name_taken`, `kms_refused`, `kms_unavailable`. */
export async function createVault(name: string, options: CreateVaultOptions): Promise<Vault> {
  const { kms, key, isDefault, onRevoke, outageMs, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const json = { name, kms, key, isDefault, onRevoke, outageMs };
  return new Transport(options).json({ method: 'POST', path: '/v1/vaults', json, signal });
}

/** Where new sandboxes go, and what a revocation or an outage of the KMS does to those that run. */
export async function updateVault(name: string, options: UpdateVaultOptions): Promise<Vault> {
  const { isDefault, onRevoke, outageMs, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  return new Transport(options).json({
    method: 'PATCH',
    path: vaultPath(name),
    json: { isDefault, onRevoke, outageMs },
    signal,
  });
}

/** Has the vault's keys wrapped by another key; nothing that is encrypted is written again. Both keys have to be usable. */
export async function rotateVaultKey(name: string, { kms, key }: KeyOf, options: Options = {}): Promise<Vault> {
  return callOf(options, { method: 'POST', path: `${vaultPath(name)}/rotate`, json: { kms, key } });
}

/** In force when it answers: nothing in the vault is created, resumed, forked, read or exported any more. Nothing is destroyed. */
export async function revokeVault(name: string, options: Options & { readonly reason?: string } = {}): Promise<Vault> {
  const { reason, ...rest } = options;
  return callOf(rest, { method: 'POST', path: `${vaultPath(name)}/revoke`, json: { reason } });
}

/** Everything is back. Errors: `kms_refused`, `kms_unavailable`. */
export async function reinstateVault(name: string, options: Options = {}): Promise<Vault> {
  return callOf(options, { method: 'POST', path: `${vaultPath(name)}/reinstate`, json: {} });
}

/** For good: its keys are destroyed, and what lay in it is lost. One that holds sandboxes has to be revoked before. */
export async function deleteVault(name: string, options: Options = {}): Promise<void> {
  await new Transport(options).done({ method: 'DELETE', path: vaultPath(name), signal: signalOf(options) });
}

function callOf<T>(options: Options, call: Parameters<Transport['json']>[0]): Promise<T> {
  return new Transport(options).json({ ...call, signal: signalOf(options) });
}

function vaultPath(name: string): string {
  return `/v1/vaults/${encodeURIComponent(name)}`;
}
