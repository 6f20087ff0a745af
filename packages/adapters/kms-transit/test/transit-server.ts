/**
 * A double of the transit engine, over real HTTP, as its documentation describes it: named keys with versions, ciphertexts
 * `vault:v1:…`, associated data, contexts of derived keys, a lowest version that is still unwrapped, errors in a list. It is not
 * the real thing, which no package brings here. A test can make it fail in the ways in which servers and networks do.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

export type Trouble =
  | 'silent'
  | 'sealed'
  | 'standby'
  | 'slow down'
  | 'page of a proxy'
  | 'cut'
  | 'too long'
  | 'other json';

interface TransitKey {
  versions: Buffer[];
  minDecryptionVersion: number;
  readonly derived: boolean;
  /** As servers of before 1.10 do. */
  readonly ignoresAssociatedData: boolean;
}

interface Asked {
  readonly plaintext?: string;
  readonly ciphertext?: string;
  readonly context?: string;
  readonly associated_data?: string;
}

export class TransitServer {
  token = 'token-of-the-platform';
  trouble: Trouble | null = null;
  /** Keys that the token's policy does not allow. */
  readonly denied = new Set<string>();
  readonly keys = new Map<string, TransitKey>();
  readonly seen: { readonly url: string; readonly headers: IncomingMessage['headers'] }[] = [];
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch((thrown: unknown) => response.destroy(thrown as Error));
  });

  async listen(port = 0): Promise<string> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  addKey(name: string, how: { readonly derived?: boolean; readonly ignoresAssociatedData?: boolean } = {}): void {
    const { derived = false, ignoresAssociatedData = false } = how;
    this.keys.set(name, { versions: [randomBytes(32)], minDecryptionVersion: 1, derived, ignoresAssociatedData });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.seen.push({ url: request.url ?? '', headers: request.headers });
    const isLookup = request.method === 'GET' && request.url === '/v1/auth/token/lookup-self';
    const asked = (isLookup ? {} : await json(request)) as Asked;
    if (this.trouble !== null) return this.#fail(response, this.trouble);
    if (request.headers['x-vault-token'] !== this.token) {
      return errors(response, 403, '2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n');
    }
    if (isLookup) return void response.end(JSON.stringify({ data: { policies: ['default', 'space'] } }));
    const [, verb, key] = /^\/v1\/transit\/(encrypt|decrypt)\/([\w.-]+)$/.exec(request.url ?? '') ?? [];
    if (verb === undefined || key === undefined) return errors(response, 404, 'no handler for route');
    if (this.denied.has(key)) return errors(response, 403, '1 error occurred:\n\t* permission denied\n\n');
    const found = this.keys.get(key);
    if (found === undefined) return errors(response, 400, 'encryption key not found');
    const { status, told } = verb === 'encrypt' ? encrypt(found, asked) : decrypt(found, asked);
    if (status === 200) response.end(JSON.stringify({ request_id: 'x', lease_duration: 0, data: told }));
    else errors(response, status, told as string);
  }

  #fail(response: ServerResponse, trouble: Trouble): void {
    if (trouble === 'silent') return;
    if (trouble === 'sealed') {
      errors(response, 503, 'Vault is sealed');
    } else if (trouble === 'slow down') {
      errors(response, 429, 'request path rate limit quota exceeded');
    } else if (trouble === 'standby') {
      response.writeHead(307, { location: 'http://127.0.0.1:1/v1/transit' }).end();
    } else if (trouble === 'page of a proxy') {
      response.writeHead(403, { 'content-type': 'text/html' }).end('<h1>permission denied</h1>');
    } else if (trouble === 'other json') {
      response.end(JSON.stringify({ data: { plaintext: 7 } }));
    } else if (trouble === 'too long') {
      response.end(JSON.stringify({ data: { plaintext: 'A'.repeat(200_000) } }));
    } else {
      response.writeHead(200, { 'content-length': 100 }).write('{"data":');
      setTimeout(() => response.destroy(), 10);
    }
  }
}

type Told = { readonly status: number; readonly told: unknown };

function encrypt(key: TransitKey, { plaintext, context, associated_data }: Asked): Told {
  if (key.derived && context === undefined) return { status: 400, told: "missing 'context' for key derivation" };
  const version = key.versions.length;
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', materialOf(key, version, context), nonce);
  if (!key.ignoresAssociatedData) cipher.setAAD(Buffer.from(associated_data ?? '', 'base64'));
  const body = Buffer.concat([cipher.update(Buffer.from(plaintext ?? '', 'base64')), cipher.final()]);
  const blob = Buffer.concat([nonce, body, cipher.getAuthTag()]).toString('base64');
  return { status: 200, told: { ciphertext: `vault:v${version}:${blob}`, key_version: version } };
}

function decrypt(key: TransitKey, { ciphertext = '', context, associated_data }: Asked): Told {
  const [, number, base64] = /^vault:v(\d+):(.*)$/.exec(ciphertext) ?? [];
  if (number === undefined || base64 === undefined) return { status: 400, told: 'invalid ciphertext: no prefix' };
  const version = Number(number);
  if (version > key.versions.length) return { status: 400, told: 'invalid ciphertext: version is too new' };
  if (version < key.minDecryptionVersion) {
    return { status: 400, told: 'ciphertext or signature version is disallowed by policy (too old)' };
  }
  const blob = Buffer.from(base64, 'base64');
  if (blob.length < 28) return { status: 400, told: 'invalid ciphertext: too short' };
  try {
    const cipher = createDecipheriv('aes-256-gcm', materialOf(key, version, context), blob.subarray(0, 12));
    if (!key.ignoresAssociatedData) cipher.setAAD(Buffer.from(associated_data ?? '', 'base64'));
    cipher.setAuthTag(blob.subarray(-16));
    const plain = Buffer.concat([cipher.update(blob.subarray(12, -16)), cipher.final()]);
    return { status: 200, told: { plaintext: plain.toString('base64') } };
  } catch {
    return { status: 400, told: 'invalid ciphertext: unable to decrypt' };
  }
}

function materialOf({ versions, derived }: TransitKey, version: number, context = ''): Buffer {
  const material = versions[version - 1];
  if (material === undefined) throw new Error('there is no such version');
  return derived ? createHmac('sha256', material).update(context).digest() : material;
}

function errors(response: ServerResponse, status: number, ...told: readonly string[]): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ errors: told }));
}
