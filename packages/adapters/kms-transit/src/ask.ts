/** One question to a transit engine: over TLS, or on this machine; nobody is followed elsewhere; the answer is bounded in size and time. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';
import { getCACertificates } from 'node:tls';
import { AppError, checkedUrl } from '@space/core';
import { meaningOf, unavailable } from './meaning.ts';

export interface Asking {
  readonly url: string;
  readonly tokenFile: string;
  readonly mount: string;
  readonly namespace?: string;
  readonly answerWithinMs: number;
}

export interface TransitQuestion {
  readonly verb: 'encrypt' | 'decrypt';
  readonly key: string;
  readonly body: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

const MAX_ANSWER_BYTES = 64 * 1024;

/** The plaintext or ciphertext, in the form that the engine gives it. */
export async function askTransit(asking: Asking, question: TransitQuestion): Promise<string> {
  question.signal.throwIfAborted();
  const token = await readToken(asking.tokenFile);
  const signal = AbortSignal.any([question.signal, AbortSignal.timeout(asking.answerWithinMs)]);
  const how = { token, signal };
  const { verb, key, body } = question;
  const wish = { method: 'POST', path: `${asking.mount}/${verb}/${key}`, content: JSON.stringify(body) };
  const { status, text } = await asked(asking, wish, how);
  const answer = parsed(text);
  if (status === 403) await requireToken(asking, how);
  if (status !== 200) throw meaningOf(status, answer);
  const wanted = (answer as { data?: Readonly<Record<string, unknown>> } | null)?.data;
  const found = wanted?.[question.verb === 'encrypt' ? 'ciphertext' : 'plaintext'];
  if (typeof found !== 'string') throw unavailable('did not answer as a transit engine does');
  return found;
}

/** A token that is not known, or known no more, gets the answer of one that may not use the key. Throws unless it is known. */
async function requireToken(asking: Asking, how: How): Promise<void> {
  const { status } = await asked(asking, { method: 'GET', path: 'auth/token/lookup-self', content: '' }, how);
  if (status !== 200) throw unavailable('does not know the platform by its token, which may have expired');
}

interface Wish {
  readonly method: string;
  readonly path: string;
  readonly content: string;
}

interface How {
  readonly token: string;
  readonly signal: AbortSignal;
}

function asked(asking: Asking, wish: Wish, how: How) {
  return send(asking, wish, how).catch((thrown: unknown) => {
    if (thrown instanceof AppError) throw thrown;
    throw unavailable(how.signal.aborted ? 'did not answer in time' : 'cannot be reached');
  });
}

async function send(
  { url, namespace }: Asking,
  { method, path, content }: Wish,
  { token, signal }: How,
): Promise<{ readonly status: number; readonly text: string }> {
  const at = new URL(`/v1/${path}`, checkedUrl(url));
  const headers = {
    'x-vault-token': token,
    'x-vault-request': 'true',
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(content),
    'accept-encoding': 'identity',
    ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
  };
  const sent = { method, headers, signal, agent: false } as const;
  const request = at.protocol === 'https:' ? requestTls(at, { ...sent, ...verified() }) : requestPlain(at, sent);
  request.on('error', () => undefined);
  request.end(content);
  const [answer] = (await once(request, 'response', { signal })) as [IncomingMessage];
  try {
    return { status: answer.statusCode ?? 0, text: await wholeOf(answer) };
  } finally {
    request.destroy();
  }
}

/** By the authorities of the machine too, since such a server usually has one of its own; whatever the environment says. */
function verified() {
  const ca = [...getCACertificates('bundled'), ...getCACertificates('system'), ...getCACertificates('extra')];
  return { ca, minVersion: 'TLSv1.2', rejectUnauthorized: true } as const;
}

async function wholeOf(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_ANSWER_BYTES) throw unavailable('answered with too much');
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function readToken(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch(() => {
    throw new AppError('kms_unavailable', 'The token for the transit engine cannot be read.');
  });
  return text.trim();
}
