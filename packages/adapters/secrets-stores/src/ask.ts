/** How stores are asked over HTTP: in TLS, or on this machine; without following anybody elsewhere; for a bounded answer. */
import { readFile } from 'node:fs/promises';
import { AppError } from '@space/core';

const MAX_ANSWER_BYTES = 1024 * 1024;
const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Throws when it would be asked in clear text over a network. */
export function checkedUrl(text: string): URL {
  const url = new URL(text);
  if (url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.includes(url.hostname))) return url;
  throw new Error(`"${url.origin}" is asked in clear text, which is done on this machine only`);
}

export interface Question {
  readonly url: URL;
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Throws `secret_unavailable`, with nothing of what the store has said. */
export async function ask(question: Question, signal: AbortSignal): Promise<string> {
  const { url, method = 'GET', headers = {}, body } = question;
  const sent = { method, headers, redirect: 'error' as const, signal, ...(body === undefined ? {} : { body }) };
  const answer = await fetch(url, sent).catch(() => {
    throw unavailable(`${url.host} does not answer.`);
  });
  if (!answer.ok) {
    await answer.body?.cancel();
    throw unavailable(`${url.host} answered ${answer.status}.`);
  }
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of answer.body ?? []) {
    length += part.length;
    if (length > MAX_ANSWER_BYTES) throw unavailable(`${url.host} answered with too much.`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Throws `secret_unavailable`. */
export async function askJson(question: Question, signal: AbortSignal): Promise<unknown> {
  const text = await ask(question, signal);
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
