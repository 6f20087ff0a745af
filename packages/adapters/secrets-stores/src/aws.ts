/**
 * AWS Secrets Manager, by its official client. The path is the name or the ARN of a secret; with a field, its text is JSON and the
 * field one of it. Without a file of credentials the client looks for them as all of AWS's do: environment, role of the machine.
 */
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { fromIni } from '@aws-sdk/credential-provider-ini';
import { checkedUrl, type SecretStore, SecretValue } from '@space/core';
import { textAt, unavailable } from './ask.ts';
import type { Way } from './way.ts';

export interface AwsOptions {
  readonly region: string;
  /** Another server than AWS's that speaks its protocol. */
  readonly endpoint?: string;
  /** A file as `~/.aws/credentials`. */
  readonly credentialsFile?: string;
  /** In that file; left out: `default`. */
  readonly profile?: string;
}

const CONNECT_WITHIN_MS = 5_000;
const ANSWER_WITHIN_MS = 10_000;
const MAX_ATTEMPTS = 2;
const KEPT_MS = 1_000;

/** Throws when it would be asked in clear text over a network. */
export function awsStore(options: AwsOptions, way: Way): SecretStore {
  const { region, endpoint, credentialsFile, profile = 'default' } = options;
  const client = new SecretsManagerClient({
    region,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_WITHIN_MS,
      requestTimeout: ANSWER_WITHIN_MS,
      throwOnRequestTimeout: true,
      ...way,
    },
    ...(endpoint === undefined ? {} : { endpoint: checkedUrl(endpoint).href }),
    ...(credentialsFile === undefined ? {} : { credentials: () => readCredentials(credentialsFile, profile) }),
  });
  return {
    async fetch({ path, field }, signal) {
      const command = new GetSecretValueCommand({ SecretId: path });
      const { SecretString: text } = await client.send(command, { abortSignal: signal }).catch((thrown: unknown) => {
        // Its name says what it is (`ResourceNotFoundException`); its text may say more than is anybody's business.
        throw unavailable(`AWS Secrets Manager: ${thrown instanceof Error ? thrown.name : 'no answer'}.`);
      });
      if (text === undefined || text === '') throw unavailable('The secret is empty, or no text.');
      if (field === null) return { value: new SecretValue(text), validMs: null };
      const found = textAt(parsed(text), field);
      if (found === null) throw unavailable('There is no such field.');
      return { value: new SecretValue(found), validMs: null };
    },
  };
}

/** With an end that has nearly come, so that the client has them read each time, and one that is changed counts. */
async function readCredentials(filepath: string, profile: string) {
  const read = await fromIni({ filepath, profile, ignoreCache: true })();
  return { ...read, expiration: new Date(Date.now() + KEPT_MS) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw unavailable('The secret is no JSON, so it has no fields.');
  }
}
