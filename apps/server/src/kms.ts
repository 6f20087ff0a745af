/**
 * The KMSs that organisations may keep the keys of their vaults in: `local`, a key file that is made at the first start; and those of
 * the operator's file. That holds no credential: those are in files of their own, which control's user must be able to read.
 */
import { AppError, type Kms, type KmsDirectory, type KmsKind, type OrganisationId, unreachable } from '@space/core';
import { awsKms } from '@space/kms-aws';
import { fileKms, makeKeyFile, passphraseKms } from '@space/kms-local';
import { transitKms } from '@space/kms-transit';
import { z } from 'zod';

const path = z.string().startsWith('/');
const url = z.url();
/** Keys by organisation: as they are named, or ending in `*`. Who is not named may use none. */
const grants = z.record(z.string().regex(/^org_[0-9a-z]{16}$/), z.array(z.string().min(1)).min(1));

const kms = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('aws'),
    region: z.string().regex(/^[a-z0-9-]+$/),
    endpoint: url.exactOptional(),
    credentialsFile: path.exactOptional(),
    profile: z.string().exactOptional(),
    grants,
  }),
  z.strictObject({
    kind: z.literal('transit'),
    url,
    tokenFile: path,
    mount: z.string().exactOptional(),
    namespace: z.string().exactOptional(),
    grants,
  }),
  z.strictObject({ kind: z.literal('passphrase'), file: path, grants }),
]);

const LOCAL = 'local';
const INSTALLATION = 'installation';
const file = z.record(
  z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,62}$/)
    .refine((name) => name !== LOCAL, 'must not be "local", which is always there'),
  kms,
);

export type KmsConfig = z.output<typeof file>;

/** Throws with what is wrong in it. */
export function parseKms(text: string): KmsConfig {
  const parsed = file.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error));
  // What cannot be opened stops the start, not the first vault.
  for (const config of Object.values(parsed.data)) keysOf(config);
  return parsed.data;
}

/** Makes the installation's key where there is none: the first start does. */
export async function openKms(folder: string, config: KmsConfig = {}): Promise<KmsDirectory> {
  await makeKeyFile(folder, INSTALLATION);
  const opened = new Map(Object.entries(config).map(([name, one]) => [name, { config: one, keys: keysOf(one) }]));
  return {
    keyOf({ kms: name, key }, organisationId) {
      // Everybody's vaults may be under it: it is what they have that name no other.
      if (name === LOCAL) return fileKms(folder, key);
      const found = opened.get(name);
      if (found === undefined || !isGranted(found.config.grants[organisationId] ?? [], key)) {
        throw new AppError('bad_request', `The organisation may use no key "${key}" of a KMS "${name}".`);
      }
      return found.keys(key);
    },
    list(organisationId: OrganisationId) {
      const own = [...opened].filter(([, one]) => one.config.grants[organisationId] !== undefined);
      const local: readonly { readonly name: string; readonly kind: KmsKind }[] = [{ name: LOCAL, kind: 'local' }];
      return [...local, ...own.map(([name, one]) => ({ name, kind: one.config.kind }))];
    },
  };
}

function isGranted(granted: readonly string[], key: string): boolean {
  return granted.some((one) => (one.endsWith('*') ? key.startsWith(one.slice(0, -1)) : key === one));
}

/** Throws when it would be asked in clear text over a network. */
function keysOf(config: KmsConfig[string]): (key: string) => Kms {
  switch (config.kind) {
    case 'aws':
      return awsKms(config);
    case 'transit':
      return transitKms(config);
    case 'passphrase': {
      const only = passphraseKms(config.file);
      return () => only;
    }
    default:
      return unreachable(config);
  }
}
