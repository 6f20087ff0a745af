import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import {
  CreateKeyCommand,
  DisableKeyCommand,
  EnableKeyCommand,
  KMSClient,
  ScheduleKeyDeletionCommand,
} from '@aws-sdk/client-kms';
import { KeyBytes, newId, type VaultName } from '@space/core';
import { type KmsUnderTest, kmsSuite } from '@space/testkit/kms-suite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { awsKms } from '../src/index.ts';
import { type Emulator, findEmulator, REGION, startEmulator } from './emulator.ts';
import { Way } from './way.ts';

const chance = { bytes: (count: number) => randomBytes(count) };
const context = { organisationId: newId('organisation', chance), vault: 'v1' as VaultName };
const signal = AbortSignal.timeout(60_000);
const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };

let folder: string;
let credentialsFile: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-kms-aws-'));
  credentialsFile = join(folder, 'credentials');
  const lines = ['[default]', 'aws_access_key_id = test', 'aws_secret_access_key = test', ''];
  await writeFile(credentialsFile, lines.join('\n'), { mode: 0o600 });
});
afterAll(() => rm(folder, { recursive: true }));

const found = await findEmulator();

if ('missing' in found) {
  it.skip(`AWS KMS passes the suite of KMSs (${found.missing})`, () => undefined);
} else {
  describe('by an emulator', () => {
    let emulator: Emulator;
    beforeAll(async () => {
      emulator = await startEmulator(found.program);
    });
    afterAll(() => emulator?.close());

    kmsSuite('AWS KMS', () => worldOf(emulator.port), ['silent', 'not there']);
  });
}

async function worldOf(emulatorPort: number): Promise<KmsUnderTest> {
  const endpoint = `http://127.0.0.1:${emulatorPort}`;
  const owner = new KMSClient({ region: REGION, endpoint, credentials });
  const make = async () => (await owner.send(new CreateKeyCommand({}))).KeyMetadata?.Arn ?? '';
  const [one, two] = [await make(), await make()];
  const way = new Way(emulatorPort);
  const port = await way.listen();
  const keys = awsKms({
    region: REGION,
    endpoint: `http://127.0.0.1:${port}`,
    credentialsFile,
    answerWithinMs: 200,
  });
  return {
    kms: keys(one),
    other: keys(two),
    disable: async () => void (await owner.send(new DisableKeyCommand({ KeyId: one }))),
    enable: async () => void (await owner.send(new EnableKeyCommand({ KeyId: one }))),
    remove: async () => void (await owner.send(new ScheduleKeyDeletionCommand({ KeyId: one, PendingWindowInDays: 7 }))),
    outages: {
      silent: { begin: async () => way.setSilent(true), end: async () => way.setSilent(false) },
      'not there': { begin: () => way.close(), end: async () => void (await way.listen(port)) },
    },
    dispose: async () => {
      owner.destroy();
      await way.close();
    },
  };
}

describe('by answers that AWS documents', () => {
  let answer: { readonly status: number; readonly type: string; readonly more?: object };
  let asked: { readonly target: unknown; readonly body: string }[];
  let endpoint: string;
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      asked.push({ target: request.headers['x-amz-target'], body });
      response.writeHead(answer.status, { 'content-type': 'application/x-amz-json-1.1' });
      response.end(
        JSON.stringify({ __type: answer.type, message: 'a text that is nobody’s business', ...answer.more }),
      );
    });
  });
  beforeEach(async () => {
    asked = [];
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it.each([
    ['DisabledException', 400, 'kms_refused'],
    ['KMSInvalidStateException', 400, 'kms_refused'],
    ['NotFoundException', 400, 'kms_refused'],
    ['AccessDeniedException', 400, 'kms_refused'],
    ['InvalidCiphertextException', 400, 'vault_key_wrong'],
    ['IncorrectKeyException', 400, 'vault_key_wrong'],
    ['KeyUnavailableException', 500, 'kms_unavailable'],
    ['DependencyTimeoutException', 500, 'kms_unavailable'],
    ['KMSInternalException', 500, 'kms_unavailable'],
    ['ThrottlingException', 400, 'kms_unavailable'],
    ['UnrecognizedClientException', 400, 'kms_unavailable'],
    ['ExpiredTokenException', 400, 'kms_unavailable'],
    ['SomethingNewException', 400, 'kms_unavailable'],
    ['toString', 400, 'kms_unavailable'],
  ])('%s is %s: %s', async (type, status, code) => {
    answer = { status, type };
    const kms = awsKms({ region: REGION, endpoint, credentialsFile })('alias/vaults');
    const thrown = await kms.unwrap(randomBytes(64), context, signal).catch((error: unknown) => error);
    expect(thrown).toMatchObject({ code });
    expect(String(thrown)).not.toContain('business');
    expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({
      KeyId: 'alias/vaults',
      EncryptionContext: { 'space:organisation': context.organisationId, 'space:vault': 'v1' },
    });
  });

  it('an alias that names another key by now unwraps by the key that wrapped', async () => {
    const arn = 'arn:aws:kms:eu-central-1:111122223333:key/12345678-1234-1234-1234-123456789012';
    const blob = randomBytes(64);
    answer = { status: 200, type: 'none', more: { KeyId: arn, CiphertextBlob: blob.toString('base64') } };
    const kms = awsKms({ region: REGION, endpoint, credentialsFile })('alias/vaults');
    const wrapped = await kms.wrap(new KeyBytes(randomBytes(8)), context, signal);
    answer = { status: 200, type: 'none', more: { KeyId: arn, Plaintext: 'a2V5' } };
    (await kms.unwrap(wrapped, context, signal)).wipe();
    expect(asked.map(({ body }) => JSON.parse(body))).toMatchObject([
      { KeyId: 'alias/vaults' },
      { KeyId: arn, CiphertextBlob: blob.toString('base64') },
    ]);
  });

  it('no credentials are no refusal', async () => {
    const without = awsKms({ region: REGION, endpoint, credentialsFile: join(folder, 'none') })('alias/vaults');
    const wrapping = without.wrap(new KeyBytes(randomBytes(8)), context, signal);
    await expect(wrapping).rejects.toMatchObject({ code: 'kms_unavailable' });
    expect(asked).toEqual([]);
  });
});

it.each(['', 'a b', '../x', 'alias/a b', 'arn:aws:s3:::bucket', 'x'.repeat(300)])('"%s" names no key', (key) => {
  expect(() => awsKms({ region: REGION })(key)).toThrow(expect.objectContaining({ code: 'bad_request' }));
});

it('asks nobody in clear text over a network', () => {
  expect(() => awsKms({ region: REGION, endpoint: 'http://kms.example' })).toThrow('clear text');
});
