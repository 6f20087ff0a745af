/**
 * The secrets that the gateway keeps itself, in one file that is encrypted with a key beside it: whoever copies the file alone has
 * nothing. It is written anew as a whole with each change, and is there whole or as it was.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { AppError, MAX_SECRETS, type OrganisationId, type SecretName, SecretValue } from '@space/core';
import { findOwn, keepOwn } from '../own-files.ts';
import { newSealingKey, openSealed, type SealingKey, sealingKeyFrom } from './sealing.ts';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CONTEXT = Buffer.from('space secrets 1');

interface Kept {
  /** PKCS #8, base64. */
  readonly sealingKey: string;
  readonly values: Readonly<Record<string, string>>;
}

export class LocalSecrets {
  readonly #folder: string;
  #opened: Promise<{ readonly sealing: SealingKey; kept: Kept; readonly key: Buffer }> | null = null;
  /** Settles when the change before has been written. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async publicKey(): Promise<string> {
    return (await this.#open()).sealing.publicKey.toString('base64');
  }

  /** Null: there is none. */
  async find(name: SecretName): Promise<SecretValue | null> {
    const { kept } = await this.#open();
    const text = kept.values[keyOf(name)];
    return text === undefined ? null : new SecretValue(text);
  }

  /** Throws `bad_request`, `limit_reached`. */
  async putSealed(name: SecretName, sealed: string): Promise<void> {
    const { sealing } = await this.#open();
    await this.put(name, await openSealed(sealing, name, sealed));
  }

  put(name: SecretName, value: SecretValue): Promise<void> {
    return this.#change((values) => {
      const own = Object.keys(values).filter((key) => key.startsWith(`${name.organisationId} `));
      if (own.length >= MAX_SECRETS && values[keyOf(name)] === undefined) {
        throw new AppError('limit_reached', `An organisation may have ${MAX_SECRETS} secrets.`);
      }
      return { ...values, [keyOf(name)]: value.reveal() };
    });
  }

  drop(name: SecretName): Promise<void> {
    return this.#change(({ [keyOf(name)]: _gone, ...values }) => values);
  }

  #change(change: (values: Kept['values']) => Kept['values']): Promise<void> {
    const done = this.#turn.then(async () => {
      const opened = await this.#open();
      const kept = { ...opened.kept, values: change(opened.kept.values) };
      await keepOwn(this.#path('secrets'), encrypt(kept, opened.key));
      opened.kept = kept;
    });
    this.#turn = done.catch(() => undefined);
    return done;
  }

  #open() {
    this.#opened ??= this.#read();
    this.#opened.catch(() => {
      this.#opened = null;
    });
    return this.#opened;
  }

  async #read() {
    const [knownKey, file] = await Promise.all([findOwn(this.#path('secrets.key')), findOwn(this.#path('secrets'))]);
    if (knownKey === null && file !== null) throw new Error('the key of the kept secrets is gone');
    const key = knownKey ?? randomBytes(32);
    if (knownKey === null) await keepOwn(this.#path('secrets.key'), key);
    const kept: Kept =
      file === null ? { sealingKey: (await newSealingKey()).toString('base64'), values: {} } : decrypt(file, key);
    if (file === null) await keepOwn(this.#path('secrets'), encrypt(kept, key));
    return { key, kept, sealing: await sealingKeyFrom(Buffer.from(kept.sealingKey, 'base64')) };
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }
}

function keyOf({ organisationId, name }: { organisationId: OrganisationId; name: string }): string {
  return `${organisationId} ${name}`;
}

function encrypt(kept: Kept, key: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(CONTEXT);
  const bytes = Buffer.concat([cipher.update(JSON.stringify(kept)), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), bytes]);
}

function decrypt(file: Buffer, key: Buffer): Kept {
  const tag = file.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv(CIPHER, key, file.subarray(0, NONCE_BYTES)).setAAD(CONTEXT).setAuthTag(tag);
  const bytes = Buffer.concat([decipher.update(file.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
  return JSON.parse(bytes.toString()) as Kept;
}
