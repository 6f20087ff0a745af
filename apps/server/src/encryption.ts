/**
 * What the server proves its names with: files of whoever runs it, read again when they change, or an authority that is made
 * here for one domain. Done by the supervisor, as root: the key of that authority is read by nobody else, and the process
 * that serves has only the certificates that it signs. What is wrong with a file that changes is told, and the earlier one stays.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { unwatchFile, watchFile } from 'node:fs';
import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tls } from '@space/http';
import type { Config } from './config.ts';
import { tlsFolderOf } from './places.ts';

export interface Encryption {
  /** As it is now. */
  current(): Tls;
  /** The certificate to be believed, in a file that everybody can read; null: whoever runs the server has their own. */
  readonly authorityPath: string | null;
  close(): void;
}

interface EncryptionOptions {
  readonly config: Pick<Config, 'tls' | 'dataDir'>;
  /** Told of what takes the place of the current one. */
  readonly onChange: (tls: Tls) => void;
  readonly onWarning: (message: string) => void;
  /** Meant for tests. */
  readonly lookEveryMs?: number;
}

const LOOK_EVERY_MS = 5_000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** Each day a new one is made. */
const LEAF_MS = 30 * DAY_MS;

/** Null: there is no TLS here. */
export async function openEncryption(options: EncryptionOptions): Promise<Encryption | null> {
  const { tls, dataDir } = options.config;
  if (tls === undefined) return null;
  return tls.kind === 'files' ? openFiles(tls, options) : openMade(tls.domain, tlsFolderOf({ dataDir }), options);
}

async function openFiles(
  { certPath, keyPath }: { readonly certPath: string; readonly keyPath: string },
  { onChange, onWarning, lookEveryMs: interval = LOOK_EVERY_MS }: EncryptionOptions,
): Promise<Encryption> {
  const read = async () => {
    const [cert, key] = await Promise.all([readFile(certPath, 'utf8'), readFile(keyPath, 'utf8')]);
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
      throw new Error(`${keyPath} is not the key of the certificate in ${certPath}`);
    }
    return { cert, key };
  };
  let current = await read();
  const onFile = () => {
    read()
      .then((next) => {
        if (next.cert === current.cert && next.key === current.key) return;
        current = next;
        onChange(next);
      })
      .catch((error: unknown) => {
        onWarning(`The certificate was not read again: ${error instanceof Error ? error.message : String(error)}`);
      });
  };
  // By looking, since those who renew certificates put links and folders in the place of files.
  for (const path of [certPath, keyPath]) watchFile(path, { interval, persistent: false }, onFile);
  return {
    current: () => current,
    authorityPath: null,
    close: () => {
      for (const path of [certPath, keyPath]) unwatchFile(path, onFile);
    },
  };
}

async function openMade(
  domain: string,
  folder: string,
  { onChange, onWarning }: EncryptionOptions,
): Promise<Encryption> {
  // Loaded by who needs it.
  const { authorityFrom, generateKeys, makeAuthority, makeLeaf, pemOf } = await import('@space/gateway/certificates');
  const { findOwn, keepOwn } = await import('@space/gateway/own-files');
  const names = [
    ...[domain, 'localhost'].map((value) => ({ type: 'dns', value }) as const),
    ...['127.0.0.1', '::1'].map((value) => ({ type: 'ip', value }) as const),
  ];
  const keptPath = join(folder, `${domain}.authority.pem`);
  let kept = (await findOwn(keptPath))?.toString();
  if (kept === undefined) {
    kept = await makeAuthority(`SPACE sandboxes below ${domain}`, names);
    await keepOwn(keptPath, kept);
  }
  const authority = await authorityFrom(kept);
  const authorityPath = join(folder, `${domain}.ca.pem`);
  await publish(authorityPath, authority.certificatePem);
  const make = async (): Promise<Tls> => {
    const keys = await generateKeys();
    const below = { type: 'dns', value: `*.${domain}` } as const;
    const cert = await makeLeaf(authority, {
      names: [...names, below],
      lifetimeMs: LEAF_MS,
      publicKey: keys.publicKey,
    });
    return { cert: cert + authority.certificatePem, key: await pemOf(keys.privateKey) };
  };
  let current = await make();
  const timer = setInterval(() => {
    make()
      .then((next) => {
        current = next;
        onChange(next);
      })
      .catch((error: unknown) => onWarning(`No new certificate could be made: ${error}`));
  }, DAY_MS).unref();
  return { current: () => current, authorityPath, close: () => clearInterval(timer) };
}

/** For everybody to read, whatever the umask is. */
async function publish(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await chmod(`${path}.new`, 0o644);
  await rename(`${path}.new`, path);
}
