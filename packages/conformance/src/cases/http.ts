/** Requests that may be read in two ways, by TLS to the host that a rule lets be read below one path. */
import { type Case, trick } from '../case.ts';
import type { Try } from '../guest/tries.ts';
import type { Places } from '../places.ts';
import { all, endsRefused, neverHears, refused, type Verdict } from '../verdicts.ts';
import {
  bytesOf,
  DISGUISED_WRITES,
  HIDDEN_REQUESTS,
  REWRITING_HEADERS,
  type RequestTrick,
  STRAY_PATHS,
  TWO_WAY_HEADS,
} from './requests.ts';

function casesOf(topic: string, tricks: readonly RequestTrick[], verdict: Verdict): readonly Case[] {
  return tricks.map((one) =>
    trick(topic, {
      name: one.name,
      scene: 'reading',
      needs: ['open host'],
      tries: (places) => [say(one, places)],
      verdict,
    }),
  );
}

function say(one: RequestTrick, { open: host, shut: other, https: port }: Places): Try {
  return { do: 'tcp', host, port, tls: { sni: host }, say: [bytesOf(one, { host, other, port })] };
}

const pathsOf = (paths: readonly string[]): readonly RequestTrick[] =>
  paths.map((path) => ({ name: printable(path), bytes: `GET ${path} HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n` }));

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16)}`);
}

export const HTTP_CASES: readonly Case[] = [
  ...casesOf('a head that can be read in two ways', TWO_WAY_HEADS, refused),
  ...casesOf('a request hidden in another', HIDDEN_REQUESTS, all(endsRefused, neverHears(/POST|shut|override/i))),
  ...casesOf('a write that looks like a read', DISGUISED_WRITES, refused),
  ...casesOf('a path that leads elsewhere', pathsOf(STRAY_PATHS), refused),
  ...casesOf(
    'a path in a header',
    REWRITING_HEADERS.map((name) => ({
      name,
      bytes: `GET /open HTTP/1.1\r\nHost: HOST:PORT\r\n${name}: /shut\r\n\r\n`,
    })),
    refused,
  ),
];
