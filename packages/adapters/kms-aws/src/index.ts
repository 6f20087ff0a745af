/**
 * AWS KMS, by its official client. Organisation and vault are the encryption context, so they are in CloudTrail and can be conditions of
 * the key's policy (`kms:EncryptionContext:space:organisation`). The key named is also required when unwrapping: a ciphertext of
 * another key that the platform may use does not unwrap in its place.
 */
import { DecryptCommand, EncryptCommand, KMSClient } from '@aws-sdk/client-kms';
import { fromIni } from '@aws-sdk/credential-provider-ini';
import { AppError, KeyBytes, type KeyContext, type Kms } from '@space/core';
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
const KEPT_MS = 1_000;
const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];
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
    const command = new DecryptCommand({ KeyId: key, CiphertextBlob: wrapped, EncryptionContext: contextOf(context) });
    const { Plaintext: plain } = await client.send(command, { abortSignal: signal }).catch(meaningOf);
    if (plain === undefined) throw new AppError('kms_unavailable', 'AWS KMS answered without a key.');
    return ownKey(plain);
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
      const { CiphertextBlob: blob } = await client.send(command, { abortSignal: signal }).catch(meaningOf);
      if (blob === undefined) throw new AppError('kms_unavailable', 'AWS KMS answered without a ciphertext.');
      return blob;
    },
  };
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
    ...(endpoint === undefined ? {} : { endpoint: checkedEndpoint(endpoint) }),
    ...(credentialsFile === undefined ? {} : { credentials: () => readCredentials(credentialsFile, profile) }),
  };
}

function checkedEndpoint(text: string): string {
  const url = new URL(text);
  const isPrivate = url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.includes(url.hostname));
  if (!isPrivate) throw new Error(`"${url.origin}" is asked in clear text, which is done on this machine only`);
  return url.href;
}

/** With an end that has nearly come, so that the client has them read each time, and one that is changed counts. */
async function readCredentials(filepath: string, profile: string) {
  const read = await fromIni({ filepath, profile, ignoreCache: true })();
  return { ...read, expiration: new Date(Date.now() + KEPT_MS) };
}

/** In memory of its own; where the client left it is overwritten. */
function ownKey(bytes: Uint8Array): KeyBytes {
  const own = Buffer.allocUnsafeSlow(bytes.length);
  own.set(bytes);
  bytes.fill(0);
  return new KeyBytes(own);
}
