/**
 * One HTTP call. It turns every failure into a `SpaceError`, except an abort by the caller's own signal, which is thrown as
 * it is. Nothing here has a time limit of its own: a first create can take minutes and a command weeks. Node's fetch gives
 * up when it hears nothing for 300 s, so calls ask the server for interim answers (102), and streams carry empty lines.
 */
import type { Problem } from '@space/contract';
import { readConfigFile } from './config-file.ts';
import { fromProblem, invalidAnswer, misused, type SpaceError, unreachable } from './errors.ts';
import { refuseUnknown } from './options.ts';
import { MAX_RETRIES, pause, pauseAfterAnswer, pauseAfterFailure } from './retry.ts';
import { checkVersion } from './version.ts';

export interface ConnectionOptions {
  /** Default: the environment variable SPACE_API_KEY, else that of the config file (see `config-file.ts`). */
  readonly apiKey?: string;
  /** Default: SPACE_URL, else that of the config file, else http://127.0.0.1:7070. */
  readonly baseUrl?: string;
  /** The project to work in (id or name), for a key of several. Default: SPACE_PROJECT, else the first one. */
  readonly project?: string;
  /** How often a call is repeated where that is safe (see `retry.ts`). Default: 2. */
  readonly maxRetries?: number;
  /** In place of the global fetch. */
  readonly fetch?: typeof fetch;
}

/** The other options of a call. */
export function withoutConnection<T extends ConnectionOptions>(options: T): Omit<T, keyof ConnectionOptions> {
  const { apiKey: _, baseUrl: __, project: ___, maxRetries: ____, fetch: _____, ...rest } = options;
  return rest;
}

/** Of a call that has no other options. */
export function signalOf(options: ConnectionOptions & CallOptions): AbortSignal | undefined {
  const { signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  return signal;
}

export interface CallOptions {
  /** Ends the waiting; what was begun on the server may go on. */
  readonly signal?: AbortSignal | undefined;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Call extends CallOptions {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Query;
  readonly json?: unknown;
  readonly bytes?: Uint8Array | ReadableStream<Uint8Array>;
  readonly headers?: Readonly<Record<string, string>>;
}

const DEFAULT_URL = 'http://127.0.0.1:7070';

export class Transport {
  readonly baseUrl: string;
  readonly #apiKey: string;
  readonly #project: string | undefined;
  readonly #maxRetries: number;
  readonly #fetch: typeof fetch;

  constructor(options: ConnectionOptions = {}) {
    const { url, apiKey } = addressOf(options);
    this.#apiKey = apiKey;
    this.baseUrl = url;
    this.#project = options.project ?? environment('SPACE_PROJECT');
    this.#maxRetries = options.maxRetries ?? MAX_RETRIES;
    this.#fetch = options.fetch ?? fetch;
  }

  /** The JSON of the answer. */
  async json<T>(call: Call): Promise<T> {
    const response = await this.send(call);
    try {
      return (await response.json()) as T;
    } catch (error) {
      call.signal?.throwIfAborted();
      throw invalidAnswer(`${call.method} ${call.path} was answered with what is not JSON.`, response.status, error);
    }
  }

  /** For calls without an answer. */
  async done(call: Call): Promise<void> {
    await (await this.send(call)).body?.cancel();
  }

  /** The answer, its body unread. Throws unless it is a success. */
  async send(call: Call): Promise<Response> {
    const url = this.#urlOf(call);
    const init = this.#initOf(call);
    const retries = isReadOnce(call) ? 0 : this.#maxRetries;
    for (let attempt = 0; ; attempt++) {
      let response: Response;
      try {
        response = await this.#fetch(url, init);
      } catch (error) {
        call.signal?.throwIfAborted();
        const pauseMs = attempt < retries ? pauseAfterFailure(error, attempt, isRepeatable(call)) : undefined;
        if (pauseMs === undefined) throw unreachable(this.baseUrl, error);
        await pause(pauseMs, call.signal);
        continue;
      }
      await checkVersion(response);
      if (response.ok) return response;
      const pauseMs = attempt < retries ? pauseAfterAnswer(response) : undefined;
      if (pauseMs === undefined) throw await errorOf(call, response);
      await response.body?.cancel();
      await pause(pauseMs, call.signal);
    }
  }

  /**
   * One request as it is, with the key; whatever is answered is the result. A sandbox answers it, so it must not say where the
   * key goes: a path that leads out of `base` is `misused`, and a redirect is not followed.
   */
  async raw(base: string, path: string, init: RequestInit): Promise<Response> {
    const url = new URL(`${this.baseUrl}${base}${path.startsWith('/') ? '' : '/'}${path}`);
    if (!url.pathname.startsWith(`${new URL(`${this.baseUrl}${base}`).pathname}/`)) {
      throw misused(`The path ${JSON.stringify(path)} leads out of the port.`, 'Leave out the "..".');
    }
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.#credentials())) headers.set(name, value);
    const redirect = init.redirect === 'error' ? 'error' : 'manual';
    try {
      return await this.#fetch(url.href, { ...init, headers, redirect });
    } catch (error) {
      init.signal?.throwIfAborted();
      throw unreachable(this.baseUrl, error);
    }
  }

  /** What to ask for a connection of another protocol with. */
  upgradeTo(path: string): { readonly url: URL; readonly headers: Readonly<Record<string, string>> } {
    return { url: new URL(`${this.baseUrl}${path}`), headers: this.#credentials() };
  }

  #credentials(): Record<string, string> {
    const project = this.#project === undefined ? {} : { 'x-space-project': this.#project };
    return { authorization: `Bearer ${this.#apiKey}`, ...project };
  }

  #urlOf({ path, query = {} }: Call): string {
    const parameters = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
    );
    return `${this.baseUrl}${path}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`;
  }

  #initOf(call: Call): RequestInit & { duplex?: 'half' } {
    const headers: Record<string, string> = {
      ...this.#credentials(),
      'x-space-interim': '102',
      ...(call.method === 'GET' || call.bytes !== undefined ? {} : { 'idempotency-key': newKey() }),
      ...call.headers,
    };
    const init: RequestInit & { duplex?: 'half' } = { method: call.method, headers, redirect: 'error' };
    if (call.signal !== undefined) init.signal = call.signal;
    if (call.json !== undefined) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(call.json);
    }
    if (call.bytes !== undefined) {
      headers['content-type'] = 'application/octet-stream';
      init.body = call.bytes as NonNullable<RequestInit['body']>;
      init.duplex = 'half';
    }
    return init;
  }
}

/** Where to call, and with which key: what is passed, else the environment, else the file of the first start. */
function addressOf(options: ConnectionOptions): { readonly url: string; readonly apiKey: string } {
  const givenUrl = options.baseUrl ?? environment('SPACE_URL');
  const givenKey = options.apiKey ?? environment('SPACE_API_KEY');
  const file = givenKey === undefined || givenUrl === undefined ? readConfigFile() : undefined;
  const url = trimmed(givenUrl ?? file?.url ?? DEFAULT_URL);
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw misused(
      `${JSON.stringify(url)} is not the URL of a server.`,
      'Give one like http://127.0.0.1:7070 (SPACE_URL, or baseUrl).',
    );
  }
  const apiKey = givenKey ?? (file !== undefined && trimmed(file.url) === url ? file.apiKey : undefined);
  if (apiKey !== undefined) return { url, apiKey };
  throw misused(
    `There is no API key for ${url}.`,
    'Pass apiKey, or set SPACE_API_KEY; the server printed one at its first start, and `space up --new-key` makes another.',
  );
}

function trimmed(url: string): string {
  return url.replace(/\/+$/, '');
}

/** A read, or a call that its key names: carried out once, however often it is sent. */
function isRepeatable({ bytes }: Call): boolean {
  return bytes === undefined;
}

/** A stream as a body cannot be sent a second time. */
function isReadOnce({ bytes }: Call): boolean {
  return bytes !== undefined && !(bytes instanceof Uint8Array);
}

/** Names a call; 128 random bits. */
function newKey(): string {
  return globalThis.crypto.randomUUID();
}

async function errorOf(call: Call, response: Response): Promise<SpaceError> {
  const what = `${call.method} ${call.path} was answered with status ${response.status}`;
  try {
    const problem = (await response.json()) as Partial<Problem>;
    if (typeof problem.code === 'string' && typeof problem.detail === 'string') return fromProblem(problem as Problem);
  } catch (error) {
    call.signal?.throwIfAborted();
    return invalidAnswer(`${what}, without saying why.`, response.status, error);
  }
  return invalidAnswer(`${what}, without saying why.`, response.status);
}

/** Works where there is no `process`, too. */
function environment(name: string): string | undefined {
  const value = globalThis.process?.env[name];
  return value === '' ? undefined : value;
}
