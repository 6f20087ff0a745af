/**
 * A keyring as it is kept: wrapped by a key of the customer's, beside the name of that key. It is in the database, and as a token
 * in the header of the vault's container, so that a container and its KMS are enough to open it.
 */
import { z } from 'zod';
import { AppError } from '../errors.ts';
import type { KeyContext, Kms, KmsReference } from '../ports/kms.ts';
import { type Keyring, packKeyring, unpackKeyring } from './keyring.ts';

export interface WrappedKeyring {
  readonly reference: KmsReference;
  readonly wrapped: Uint8Array;
}

const FORMAT = 1;
/** As `cryptsetup token import` takes it; LUKS2 keeps what it does not know. */
const TOKEN_TYPE = 'space-keyring';

export async function wrapKeyring(
  keyring: Keyring,
  reference: KmsReference,
  how: { readonly kms: Kms; readonly context: KeyContext; readonly signal: AbortSignal },
): Promise<WrappedKeyring> {
  using packed = packKeyring(keyring, how.context);
  return { reference, wrapped: await how.kms.wrap(packed, how.context, how.signal) };
}

/** Whoever asks for it wipes it. */
export async function unwrapKeyring(
  { wrapped }: WrappedKeyring,
  how: { readonly kms: Kms; readonly context: KeyContext; readonly signal: AbortSignal },
): Promise<Keyring> {
  return unpackKeyring(await how.kms.unwrap(wrapped, how.context, how.signal), how.context);
}

/** JSON, for the header of the container. */
export function keyringToken({ reference, wrapped }: WrappedKeyring, context: KeyContext): string {
  return JSON.stringify({
    type: TOKEN_TYPE,
    keyslots: [],
    format: FORMAT,
    organisation: context.organisationId,
    vault: context.vault,
    kms: reference.kms,
    key: reference.key,
    wrapped: Buffer.from(wrapped).toString('base64'),
  });
}

const TokenSchema = z.object({
  type: z.literal(TOKEN_TYPE),
  format: z.literal(FORMAT),
  kms: z.string(),
  key: z.string(),
  wrapped: z.base64(),
});

/** What `keyringToken` wrote. Throws `vault_damaged`. */
export function parseKeyringToken(text: string): WrappedKeyring {
  let parsed: ReturnType<typeof TokenSchema.safeParse> | null;
  try {
    parsed = TokenSchema.safeParse(JSON.parse(text));
  } catch {
    parsed = null;
  }
  if (!parsed?.success)
    throw new AppError('vault_damaged', 'The header of the container holds no keyring that can be read.');
  const { kms, key, wrapped } = parsed.data;
  return { reference: { kms, key }, wrapped: Buffer.from(wrapped, 'base64') };
}
