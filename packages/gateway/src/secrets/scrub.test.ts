import { Readable } from 'node:stream';
import { SecretValue } from '@space/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formsOf, Scrubber, scrubText } from './scrub.ts';

const VALUE = 'pä/ss"word+with spaces&more';
const forms = formsOf(new SecretValue(VALUE));

async function scrubbed(parts: readonly (Buffer | string)[], of = forms): Promise<string> {
  const out: Buffer[] = [];
  for await (const part of Readable.from(parts.map((one) => Buffer.from(one))).pipe(new Scrubber(of))) out.push(part);
  return Buffer.concat(out).toString();
}

describe('what comes back', () => {
  it.each<[string, string | Buffer]>([
    ['as it is', VALUE],
    ['in JSON', JSON.stringify({ echo: VALUE })],
    ['in a URL', `https://x.test/?q=${encodeURIComponent(VALUE)}&r`],
    ['in a form', new URLSearchParams({ q: VALUE }).toString().replaceAll('%22', '%22')],
    ['in hex', Buffer.from(`x${VALUE}y`).toString('hex')],
    ...[0, 1, 2, 3].map((at): [string, string] => [
      `in base64 at ${at}`,
      Buffer.from(`${'x'.repeat(at)}${VALUE}:y`).toString('base64'),
    ]),
    ['in base64 of URLs', Buffer.from(`ab${VALUE}`).toString('base64url')],
    ['in JSON without other letters', '"p\\u00e4/ss\\"word+with spaces&more"'],
    ['in JSON with slashes escaped', '"p\\u00e4\\/ss\\"word+with spaces&more"'],
    ['in JSON for HTML', '"pä/ss\\"word+with spaces\\u0026more"'],
    ['in JSON with all codes', '"p\\u00E4/ss\\u0022word\\u002Bwith spaces\\u0026more"'],
    ['in a URL that keeps slashes', 'p%C3%A4/ss%22word%2Bwith%20spaces%26more'],
    ['in HTML', 'pä/ss&quot;word+with spaces&amp;more'],
    ['in HTML with slashes as codes', 'pä&#x2F;ss&quot;word+with spaces&amp;more'],
    ['in UTF-16', Buffer.from(VALUE, 'utf16le')],
    ['in base64 in JSON', Buffer.from(VALUE).toString('base64').replaceAll('/', '\\/')],
  ])('holds nothing of the secret %s, and is as long as before', async (_form, text) => {
    const shown = await scrubbed([text]);
    expect(Buffer.byteLength(shown)).toBe(Buffer.byteLength(text));
    expect(shown).toContain('********');
    expect(scrubText(Buffer.from(text).toString('latin1'), forms)).toBe(Buffer.from(shown).toString('latin1'));
    for (const form of forms) expect(Buffer.from(shown).includes(form)).toBe(false);
  });

  it('is the same wherever it is cut', async () => {
    const text = Buffer.from(`begin ${VALUE}${VALUE} middle ${Buffer.from(VALUE).toString('base64')} end p`);
    const whole = await scrubbed([text]);
    expect(whole).toMatch(/^begin \*+ middle \*+.* end p$/);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(text.length), { maxLength: 12 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), text.length];
        const parts = at.slice(1).map((to, index) => text.subarray(at[index], to));
        expect(await scrubbed(parts)).toBe(whole);
      }),
      { numRuns: 60 },
    );
  });

  it('of which nothing is a secret stays as it was, byte by byte', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        const out: Buffer[] = [];
        for await (const part of Readable.from([Buffer.from(bytes)]).pipe(new Scrubber(forms))) out.push(part);
        expect(Buffer.concat(out).equals(Buffer.from(bytes))).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('is not held up when it ends like a secret begins', async () => {
    const scrubber = new Scrubber(forms);
    scrubber.write('data: p');
    expect(scrubber.read()?.toString()).toBe('data: ');
    await expect.poll(() => scrubber.read()?.toString()).toBe('p');
    // What follows makes it whole: the rest is masked.
    scrubber.end(VALUE.slice(1));
    const rest: Buffer[] = [];
    for await (const part of scrubber) rest.push(part as Buffer);
    expect(Buffer.concat(rest).toString()).toMatch(/^\*+$/);
  });
});

describe('of a secret of equal parts', () => {
  const equal = formsOf(new SecretValue('ababab'));
  it('no second one passes that begins where the first ends', async () => {
    const text = 'abababababab ababab';
    await fc.assert(
      fc.asyncProperty(fc.nat(text.length), fc.nat(text.length), async (one, other) => {
        const [a, b] = [Math.min(one, other), Math.max(one, other)];
        expect(await scrubbed([text.slice(0, a), text.slice(a, b), text.slice(b)], equal)).not.toContain('ab');
      }),
    );
  });
});

it('of a secret at the end of which an answer is cut off nothing is left', async () => {
  expect(await scrubbed([`begin ${VALUE.slice(0, -1)}`])).toMatch(/^begin \*+$/);
});

it('what is too short to be told from other words is left alone', () => {
  expect(formsOf(new SecretValue('a')).map(String)).not.toContain('a');
});
