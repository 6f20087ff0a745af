/** The routes of vaults and of the customer's keys. What changes a key is the key holder's, who has no sandboxes. */
import { json, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

const KMS = ['kms_unavailable', 'kms_refused', 'vault_key_wrong'] as const;

export const VAULT_ROUTES = {
  listVaults: {
    method: 'GET',
    path: '/v1/vaults',
    action: 'vault.read',
    summary: 'List the vaults of the organisation, and the KMSs that it may name',
    description: 'It opens no vault, and asks no KMS.',
    params: nothing,
    query: nothing,
    body: noBody,
    response: json(schemas.vaultList),
    status: 200,
    errors: [],
  },
  createVault: {
    method: 'POST',
    path: '/v1/vaults',
    action: 'vault.key',
    summary: 'Make a vault under a key of the customer’s',
    description:
      'Its own keys are random, and wrapped by that key; nothing but ciphertext of them is ever written. Sandboxes that are ' +
      'there stay in their vaults.',
    params: nothing,
    query: nothing,
    body: json(schemas.createVaultBody),
    response: json(schemas.vault),
    status: 201,
    errors: ['name_taken', ...KMS],
  },
  getVault: {
    method: 'GET',
    path: '/v1/vaults/{id}',
    action: 'vault.read',
    summary: 'Get a vault',
    params: schemas.vaultParams,
    query: nothing,
    body: noBody,
    response: json(schemas.vault),
    status: 200,
    errors: ['not_found'],
  },
  updateVault: {
    method: 'PATCH',
    path: '/v1/vaults/{id}',
    action: 'vault.key',
    summary: 'Say where new sandboxes go, and what becomes of running ones when the key is revoked or its KMS is away',
    params: schemas.vaultParams,
    query: nothing,
    body: json(schemas.updateVaultBody),
    response: json(schemas.vault),
    status: 200,
    errors: ['not_found', 'operation_in_progress', 'vault_revoked'],
  },
  rotateVaultKey: {
    method: 'POST',
    path: '/v1/vaults/{id}/rotate',
    action: 'vault.key',
    summary: 'Wrap the keys of a vault by another key of the customer’s',
    description:
      'Both keys have to be usable. Nothing that is encrypted is written again, and what runs goes on. From then on the new key ' +
      'alone opens the vault; disable the old one where it is kept.',
    params: schemas.vaultParams,
    query: nothing,
    body: json(schemas.rotateVaultKeyBody),
    response: json(schemas.vault),
    status: 200,
    errors: ['not_found', 'operation_in_progress', 'vault_revoked', ...KMS],
  },
  revokeVault: {
    method: 'POST',
    path: '/v1/vaults/{id}/revoke',
    action: 'vault.key',
    summary: 'Revoke the key of a vault: nothing in it is created, resumed, forked, read or exported from now on',
    description:
      'In force when it answers. What runs is paused or ended by the policy of the vault within seconds, and the vault is closed, ' +
      'which `open` shows. Nothing is destroyed.',
    params: schemas.vaultParams,
    query: nothing,
    body: json(schemas.revokeVaultBody),
    response: json(schemas.vault),
    status: 200,
    errors: ['not_found', 'operation_in_progress', 'wrong_state'],
  },
  reinstateVault: {
    method: 'POST',
    path: '/v1/vaults/{id}/reinstate',
    action: 'vault.key',
    summary: 'Take a revocation back: everything is there again',
    description: 'Its KMS is asked first, and has to allow it.',
    params: schemas.vaultParams,
    query: nothing,
    body: json(schemas.emptyBody),
    response: json(schemas.vault),
    status: 200,
    errors: ['not_found', 'operation_in_progress', ...KMS],
  },
  deleteVault: {
    method: 'DELETE',
    path: '/v1/vaults/{id}',
    action: 'vault.key',
    summary: 'Delete a vault by destroying its keys: what lay in it can be read by nobody any more, from whatever copy',
    description:
      'One that holds sandboxes, named snapshots or builds of templates has to be revoked before: they are lost for good.',
    params: schemas.vaultParams,
    query: nothing,
    body: noBody,
    response: noBody,
    status: 204,
    errors: ['not_found', 'vault_in_use', 'operation_in_progress', 'wrong_state'],
  },
} as const satisfies Record<string, Route>;
