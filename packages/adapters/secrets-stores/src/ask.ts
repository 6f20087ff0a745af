/** How stores are asked over HTTP: in TLS, or on this machine; without following anybody elsewhere; for a bounded answer. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request } from 'node:https';
import { AppError } from '@space/core';
import type { Way } from './way.ts';

const MAX_ANSWER_BYTES = 1024 * 1024;

export interface Question {
  readonly url: URL;
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Throws `secret_unavailable`, with nothing of what the store has said. */
export async function ask(question: Question, way: Way, signal: AbortSignal): Promise<string> {
  const { host } = question.url;
  const silent = (cause: unknown) => {
    if (cause instanceof AppError && cause.code === 'secret_unavailable') throw cause;
    throw unavailable(`${host} does not answer.`);
  };
  const answer = await answerTo(question, way, signal).catch(silent);
  try {
    return await wholeOf(answer, host).catch(silent);
  } finally {
    answer.destroy();
  }
}

async function answerTo(question: Question, way: Way, signal: AbortSignal): Promise<IncomingMessage> {
  const { url, method = 'GET', headers = {}, body = '' } = question;
  const sent = { method, headers: { ...headers, 'accept-encoding': 'identity' }, signal };
  const asked =
    url.protocol === 'https:'
      ? request(url, { ...sent, agent: way.httpsAgent })
      : requestPlain(url, { ...sent, agent: way.httpAgent });
  asked.end(body);
  // What goes wrong later is told by the answer, which ends too early.
  asked.on('error', () => undefined).on('timeout', () => asked.destroy());
  const [answer] = (await once(asked, 'response', { signal })) as [IncomingMessage];
  return answer;
}

async function wholeOf(answer: IncomingMessage, host: string): Promise<string> {
  const { statusCode = 0 } = answer;
  if (statusCode < 200 || statusCode > 299) throw unavailable(`${host} answered ${statusCode}.`);
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_ANSWER_BYTES) throw unavailable(`${host} answered with too much.`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Throws `secret_unavailable`. */
export async function askJson(question: Question, way: Way, signal: AbortSignal): Promise<unknown> {
  const text = await ask(question, way, signal);
  try {
    return JSON.parse(text);
  } catch {
    throw unavailable(`${question.url.host} did not answer in JSON.`);
  }
}

/** By names with dots between; null: it is not there, or no text. */
export function textAt(value: unknown, path: string): string | null {
  let at: unknown = value;
  for (const name of path.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return null;
    at = (at as Record<string, unknown>)[name];
  }
  return typeof at === 'string' && at !== '' ? at : null;
}

/** Read each time, so that one that is changed counts. Throws `secret_unavailable`. */
export async function credentialFrom(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch(() => {
    throw unavailable('The credential of the store cannot be read.');
  });
  return text.trim();
}

export function unavailable(detail: string): AppError {
  return new AppError('secret_unavailable', detail);
}
