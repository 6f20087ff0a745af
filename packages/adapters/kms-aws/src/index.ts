/**
 * AWS KMS, by its official client. Organisation and vault are the encryption context, so they are in CloudTrail and can be conditions of
 * the key's policy (`kms:EncryptionContext:space:organisation`). The key named is also required when unwrapping: a ciphertext of
 * another key that the platform may use does not unwrap in its place. An alias may name another key one day: so what one wrapped
 * is kept with the ARN of the key that did, as AWS told, and that key is asked.
 */
import { DecryptCommand, EncryptCommand, KMSClient } from '@aws-sdk/client-kms';
import { fromIni } from '@aws-sdk/credential-provider-ini';
import { AppError, checkedUrl, KeyBytes, type KeyContext, type Kms } from '@space/core';
import { meaningOf } from './meaning.ts';

export interface AwsKmsOptions {
  readonly region: string;
  /** Another server than AWS's that speaks its protocol. */
  readonly endpoint?: string;
  /** A file as `~/.aws/credentials`; left out: environment, or role of the machine, as all of AWS's clients do. */
  readonly credentialsFile?: string;
  /** In that file; left out: `default`. */
  readonly profile?: string;
  readonly answerWithinMs?: number;
}

const CONNECT_WITHIN_MS = 3_000;
const ANSWER_WITHIN_MS = 5_000;
/** Two, since it may have been one server of many that did not answer. */
const MAX_ATTEMPTS = 2;
const ALIAS = /(^|:)alias\//;
const MADE_BY = 'space-aws:1:';
const KEPT_MS = 1_000;
const KEY =
  /^(arn:aws[a-z-]*:kms:[a-z0-9-]{1,40}:\d{12}:(key|alias)\/[\w/-]{1,256}|alias\/[\w/-]{1,250}|[A-Za-z0-9-]{8,64})$/;

/** The keys that this account of the platform's may use. Throws when it would be asked in clear text over a network. */
export function awsKms(options: AwsKmsOptions): (key: string) => Kms {
  const client = new KMSClient(clientOptions(options));
  return (key) => {
    if (!KEY.test(key)) throw new AppError('bad_request', 'A key of AWS KMS is named by its ARN, its id or an alias.');
    return keyOf(client, key);
  };
}

function keyOf(client: KMSClient, key: string): Kms {
  const unwrap: Kms['unwrap'] = async (wrapped, context, signal) => {
    signal.throwIfAborted();
    const kept = ALIAS.test(key) ? unpacked(wrapped) : { arn: null, blob: wrapped };
    const command = new DecryptCommand({
      KeyId: kept.arn ?? key,
      CiphertextBlob: kept.blob,
      EncryptionContext: contextOf(context),
    });
    const { Plaintext: plain } = await client.send(command, { abortSignal: signal }).catch(meaningOf);
    if (plain === undefined) throw new AppError('kms_unavailable', 'AWS KMS answered without a key.');
    return KeyBytes.movedFrom(plain);
  };
  return {
    unwrap,
    check: async (...how) => (await unwrap(...how)).wipe(),
    async wrap(wrapped, context, signal) {
      signal.throwIfAborted();
      const command = new EncryptCommand({
        KeyId: key,
        Plaintext: wrapped.reveal(),
        EncryptionContext: contextOf(context),
      });
      const { CiphertextBlob: blob, KeyId: arn } = await client.send(command, { abortSignal: signal }).catch(meaningOf);
      if (blob === undefined) throw new AppError('kms_unavailable', 'AWS KMS answered without a ciphertext.');
      return ALIAS.test(key) ? packed(arn, blob) : blob;
    },
  };
}

/** As text before the ciphertext. What was wrapped without is asked of the key as it is named. */
function packed(arn: string | undefined, blob: Uint8Array): Uint8Array {
  return arn === undefined || !KEY.test(arn) ? blob : Buffer.concat([Buffer.from(`${MADE_BY}${arn}\n`), blob]);
}

function unpacked(wrapped: Uint8Array): { readonly arn: string | null; readonly blob: Uint8Array } {
  const bytes = Buffer.from(wrapped.buffer, wrapped.byteOffset, wrapped.length);
  const end = bytes.indexOf('\n');
  if (end < 0 || !bytes.subarray(0, MADE_BY.length).equals(Buffer.from(MADE_BY))) return { arn: null, blob: wrapped };
  const arn = bytes.subarray(MADE_BY.length, end).toString('latin1');
  if (!KEY.test(arn)) throw new AppError('vault_key_wrong', 'What AWS KMS wrapped is damaged.');
  return { arn, blob: wrapped.subarray(end + 1) };
}

function contextOf({ organisationId, vault }: KeyContext): Record<string, string> {
  return { 'space:organisation': organisationId, 'space:vault': vault };
}

function clientOptions({ region, endpoint, credentialsFile, profile = 'default', answerWithinMs }: AwsKmsOptions) {
  return {
    region,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_WITHIN_MS,
      requestTimeout: answerWithinMs ?? ANSWER_WITHIN_MS,
      throwOnRequestTimeout: true,
    },
    ...(endpoint === undefined ? {} : { endpoint: checkedUrl(endpoint).href }),
    ...(credentialsFile === undefined ? {} : { credentials: () => readCredentials(credentialsFile, profile) }),
  };
}

/** With an end that has nearly come, so that the client has them read each time, and one that is changed counts. */
async function readCredentials(filepath: string, profile: string) {
  const read = await fromIni({ filepath, profile, ignoreCache: true })();
  return { ...read, expiration: new Date(Date.now() + KEPT_MS) };
}
