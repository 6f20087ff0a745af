/** Vaults, and the customer's keys that open them. No key is in any answer, nor in any request. */
import { z } from 'zod';
import { apiKeyId, name, timestamp } from './fields.ts';

const vaultName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and dashes')
  .meta({ description: 'Of a vault; no name is used twice in an installation.' });

/** `default` is everybody's, from before there were keys; `org-…` is the first of each organisation. */
const newVaultName = vaultName.regex(
  /^(?!default$|org-)/,
  '`default` and names that begin with `org-` are the platform’s own',
);

const kmsName = name.meta({ description: 'A KMS that the operator has configured; `local` is always there.' });
const kmsKey = z
  .string()
  .regex(/^[\x21-\x7e]{1,512}$/, 'must be visible ASCII')
  .meta({ description: 'A key of it: a name, an ARN, or an alias, as the KMS has it.' });

const onRevoke = z.enum(['pause', 'kill']).meta({
  description:
    'What becomes of sandboxes that run when the key is revoked. `pause`: to their disks, before the vault closes; what cannot be ' +
    'paused within 30 seconds is ended. `kill`: ended at once; each goes on from its last snapshot later.',
});
const outageMs = z
  .number()
  .int()
  .min(60_000)
  .max(30 * 86_400_000)
  .nullable()
  .meta({
    description:
      'How long sandboxes run on while the KMS does not answer, in milliseconds; then they are paused. null: for ever.',
  });

export const vaultParams = z.strictObject({ id: vaultName });

export const createVaultBody = z
  .strictObject({
    name: newVaultName,
    kms: kmsName,
    key: kmsKey,
    isDefault: z.boolean().default(false).meta({ description: 'New sandboxes of the organisation go there.' }),
    onRevoke: onRevoke.default('pause'),
    outageMs: outageMs.default(86_400_000),
  })
  .meta({ id: 'CreateVault' });

export const updateVaultBody = z
  .strictObject({
    isDefault: z
      .literal(true)
      .exactOptional()
      .meta({ description: 'New sandboxes of the organisation go there from now on.' }),
    onRevoke: onRevoke.exactOptional(),
    outageMs: outageMs.exactOptional(),
  })
  .meta({ id: 'UpdateVault' });

export const rotateVaultKeyBody = z
  .strictObject({ kms: kmsName, key: kmsKey })
  .meta({ id: 'RotateVaultKey', description: 'The key that is to wrap the keys of the vault from now on.' });

export const revokeVaultBody = z
  .strictObject({ reason: z.string().max(500).exactOptional().meta({ description: 'Shown to whom it stops.' }) })
  .meta({ id: 'RevokeVault' });

export const vault = z
  .strictObject({
    name: z.string(),
    isDefault: z.boolean().meta({ description: 'Whether new sandboxes of the organisation go there.' }),
    state: z.enum(['ready', 'revoked', 'deleting', 'deleted']).meta({
      description:
        '`deleted`: its keys are gone, so that what lay in it can be read by nobody, from whatever copy. `deleting`: so too, but its ' +
        'container is on its node still, or what lay in it in lists; that goes by itself, and `DELETE` waits for it.',
    }),
    open: z.boolean().nullable().meta({ description: 'Whether it is open now; null: the node does not answer.' }),
    encrypted: z.boolean(),
    kms: z.string().nullable().meta({ description: 'null: it has no key.' }),
    key: z.string().nullable(),
    headerIsBehind: z.boolean().meta({
      description:
        'After a rotation: the header of its container, which is a second place for its wrapped keys, still has them as the key from ' +
        'before wrapped them. Keep that key until this is false; it goes by itself.',
    }),
    revocation: z
      .strictObject({
        cause: z.enum(['asked', 'refused']).meta({
          description: '`asked`: by a key holder. `refused`: by its KMS; over by itself when that allows it again.',
        }),
        by: apiKeyId.nullable(),
        reason: z.string().nullable(),
        at: timestamp,
      })
      .nullable(),
    onRevoke,
    outageMs,
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Vault' });

export const vaultList = z
  .strictObject({
    vaults: z.array(vault),
    kms: z
      .array(z.strictObject({ name: z.string(), kind: z.enum(['local', 'passphrase', 'aws', 'transit']) }))
      .meta({ description: 'Those that the organisation may name.' }),
  })
  .meta({ id: 'VaultList' });
