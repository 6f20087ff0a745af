/** What an error of AWS KMS means to a vault. Its name says which it is; its text may say more than is anybody's business. */
import { AppError } from '@space/core';

/** The key is there no more, or may not be used: by its state, its policy, or that of its store. */
const REFUSALS: Readonly<Record<string, string>> = {
  DisabledException: 'disabled',
  KMSInvalidStateException: 'disabled, or about to be deleted',
  NotFoundException: 'not there',
  AccessDeniedException: 'not ours to use',
  InvalidGrantTokenException: 'not ours to use',
  InvalidKeyUsageException: 'not made for encrypting',
};
const WRONG: readonly string[] = ['InvalidCiphertextException', 'IncorrectKeyException'];

/** All else is no refusal: throttling, time-outs, trouble of theirs or with our credentials. */
export function meaningOf(thrown: unknown): never {
  const name = thrown instanceof Error ? thrown.name : 'no answer';
  const refusal = Object.hasOwn(REFUSALS, name) ? REFUSALS[name] : undefined;
  if (refusal !== undefined) throw new AppError('kms_refused', `For AWS KMS the key is ${refusal} (${name}).`);
  if (WRONG.includes(name)) {
    throw new AppError('vault_key_wrong', `AWS KMS does not unwrap it by that key for that vault (${name}).`);
  }
  throw new AppError('kms_unavailable', `AWS KMS did not answer (${name}).`);
}
