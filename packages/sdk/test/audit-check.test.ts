import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type AuditHead, checkAuditExport, parseAuditHeads } from '../src/audit-check.ts';

const ORGANISATION = 'org_0000000000000001';
const sha256 = (...parts: (string | Buffer)[]) => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
};

/** As the reference says that it is made. */
function exported(
  count: number,
  entries = (number: number): unknown => ({ call: `call ${number}`, of: 'ü\u202e' }),
): string[] {
  let digest = sha256(`space audit\n${ORGANISATION}\ncalls\n`);
  const lines = [JSON.stringify({ type: 'anchor', organisation: ORGANISATION, chain: 'calls', number: 0, digest })];
  for (let number = 1; number <= count; number++) {
    const at = new Date(1_700_000_000_000 + number).toISOString();
    const entry = entries(number);
    digest = sha256(Buffer.from(digest, 'hex'), `${number}\n${at}\n${JSON.stringify(entry)}`);
    lines.push(JSON.stringify({ type: 'link', chain: 'calls', number, at, digest, entry }));
  }
  return lines;
}

function headAt(lines: readonly string[], number: number): AuditHead {
  const { digest } = JSON.parse(lines[number] ?? '');
  return { organisation: ORGANISATION, chain: 'calls', number, digest };
}

/** That line in the place of what an export says, with the digests behind it as they were. */
const changed = (lines: readonly string[], at: number, change: (line: string) => string) =>
  lines.map((line, index) => (index === at ? change(line) : line));

const one = async (lines: readonly string[], heads: readonly AuditHead[] = []) =>
  (await checkAuditExport(lines, heads))[0];

describe('an export of the audit', () => {
  it('is whole as it was exported, and says what it comes to', async () => {
    const lines = exported(4);
    expect(await one(lines)).toEqual({
      ...{ ...headAt(lines, 4), last: 4, number: undefined },
      ...{ first: 1, brokenAt: null, line: null, why: null, agreed: [], older: [] },
    });
    const from3 = [
      JSON.stringify({ ...JSON.parse(lines[0] ?? ''), ...headAt(lines, 2), type: 'anchor' }),
      ...lines.slice(3),
    ];
    expect(await one(from3)).toMatchObject({ first: 3, last: 4, brokenAt: null });
    expect(await one([...lines.slice(0, 3), ...from3])).toMatchObject({ first: 1, last: 4, brokenAt: null });
  });

  it.each<[string, (lines: string[]) => string[], number, number]>([
    ['an entry was changed', (lines) => changed(lines, 2, (line) => line.replace('call 2', 'call 9')), 2, 3],
    ['a time was changed', (lines) => changed(lines, 2, (line) => line.replace('.002Z', '.003Z')), 2, 3],
    ['a digest was changed', (lines) => changed(lines, 2, (line) => line.replace(/"digest":"./, '"digest":"x')), 2, 3],
    ['a link was taken out', (lines) => lines.toSpliced(2, 1), 2, 3],
    ['a link is there twice', (lines) => lines.toSpliced(2, 0, lines[2] ?? ''), 3, 4],
    ['two have changed their places', (lines) => [0, 2, 1, 3, 4].map((at) => lines[at] ?? ''), 1, 2],
    ['a line is cut off', (lines) => changed(lines, 3, (line) => line.slice(0, 40)), 3, 4],
    ['it begins elsewhere', (lines) => changed(lines, 0, (line) => line.replace('0001"', '0002"')), 1, 1],
    ['what follows is another', (lines) => [...lines, exported(0)[0] ?? ''], 5, 6],
  ])('is broken where %s, by number and line', async (_what, tamper, brokenAt, line) => {
    expect(await one(tamper(exported(4)))).toMatchObject({ brokenAt, line, why: expect.any(String) });
  });

  it('is no longer what a head says when its end was written anew, or cut off', async () => {
    const lines = exported(4);
    const kept = headAt(lines, 3);
    expect(await one(lines, [kept, headAt(lines, 4)])).toMatchObject({
      brokenAt: null,
      agreed: [kept, headAt(lines, 4)],
    });
    const anew = exported(5, (number) => ({ call: number === 2 ? 'another' : `call ${number}`, of: 'ü\u202e' }));
    expect(await one(anew)).toMatchObject({ brokenAt: null });
    expect(await one(anew, [kept])).toMatchObject({ brokenAt: 3, why: expect.stringContaining('the head') });
    expect(await one(lines.slice(0, 3), [kept])).toMatchObject({
      brokenAt: 3,
      why: expect.stringContaining('missing at the end'),
    });
  });

  it('says nothing of a head that is older than it, and hears none of another chain', async () => {
    const lines = exported(4);
    const later = [JSON.stringify({ type: 'anchor', ...headAt(lines, 3) }), ...lines.slice(4)];
    const elsewhere = { ...headAt(lines, 4), organisation: 'org_0000000000000009', digest: '0'.repeat(64) };
    expect(await one(later, [headAt(lines, 1), elsewhere])).toMatchObject({
      older: [headAt(lines, 1)],
      agreed: [],
      brokenAt: null,
    });
  });

  it.each([[[]], [['']], [['no JSON']], [['{"type":"link"}']], [['null']], [exported(2).slice(1)]])(
    'is none: %j',
    async (lines) => {
      await expect(checkAuditExport(lines)).rejects.toMatchObject({ code: 'misused' });
    },
  );

  it('has its chains beside each other', async () => {
    const lines = exported(2);
    const digest = sha256(`space audit\n${ORGANISATION}\negress\n`);
    const anchor = JSON.stringify({ type: 'anchor', organisation: ORGANISATION, chain: 'egress', number: 0, digest });
    const mixed = [...lines.slice(0, 2), anchor, ...lines.slice(2)];
    expect(await checkAuditExport(mixed)).toMatchObject([
      { chain: 'calls', last: 2 },
      { chain: 'egress', first: 1, last: 0 },
    ]);
  });
});

it('heads are read as they were printed, and nothing else is one', () => {
  const head = headAt(exported(3), 3);
  expect(parseAuditHeads(`${JSON.stringify({ type: 'head', at: 'x', ...head })}\n\n`)).toEqual([head]);
  for (const text of [
    '{}',
    'x',
    JSON.stringify({ ...head, digest: 'short' }),
    JSON.stringify({ ...head, number: -1 }),
  ]) {
    expect(() => parseAuditHeads(text)).toThrow('A line of the heads is none');
  }
});
