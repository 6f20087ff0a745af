/**
 * Agents of earlier versions live on in snapshots: what they send is understood, and what they are sent means to them what is
 * meant. `golden/contract.txt` only ever grows; see `CONTRIBUTING.md`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRegistry, fromBinary, fromJson, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf';
import { expect, it } from 'vitest';
import { FILES, linesOf } from './golden.ts';

const GOLDEN = join(import.meta.dirname, '../golden');
const recorded = readFileSync(join(GOLDEN, 'contract.txt'), 'utf8').trim().split('\n');
const messages = JSON.parse(readFileSync(join(GOLDEN, 'messages.json'), 'utf8')) as {
  readonly type: string;
  readonly says: JsonValue;
  readonly bytes: string;
}[];
/** Lines of calls and fields that no agent in a snapshot of a release has. */
const MAX_UNRELEASED = 60;
const registry = createRegistry(...FILES);

it('nothing that agents of any version rely on is gone or means something else', () => {
  const present = new Set(linesOf(FILES));
  expect(recorded.filter((line) => !present.has(line))).toEqual([]);
});

it('nearly all that is there is held fast: what is new is added to golden/contract.txt by its first release', () => {
  const held = new Set(recorded);
  expect(linesOf(FILES).filter((line) => !held.has(line)).length).toBeLessThan(MAX_UNRELEASED);
});

it('there is a message on the wire of each type that has a field', () => {
  const types = new Set(recorded.filter((line) => / \d+: /.test(line)).map((line) => line.split(' ')[0]));
  const shown = new Set(messages.map(({ type }) => type));
  expect([...types].filter((type) => registry.getMessage(type ?? '') !== undefined && !shown.has(type ?? ''))).toEqual(
    [],
  );
});

it.each(messages.map((message) => [message.type, message] as const))(
  '%s is the same bytes as ever, both ways',
  (type, { says, bytes }) => {
    const schema = registry.getMessage(type);
    if (schema === undefined) return expect.unreachable(`there is no ${type} any more`);
    expect(Buffer.from(toBinary(schema, fromJson(schema, says))).toString('hex')).toBe(bytes);
    expect(toJson(schema, fromBinary(schema, Buffer.from(bytes, 'hex')))).toEqual(says);
  },
);
