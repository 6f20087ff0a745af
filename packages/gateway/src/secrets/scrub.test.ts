import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { SecretValue } from '@space/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Form, formsOf, Scrubber, scrubText } from './scrub.ts';

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
    for (const { bytes } of forms) expect(Buffer.from(shown).includes(bytes)).toBe(false);
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
  expect(formsOf(new SecretValue('a')).map(({ bytes }) => `${bytes}`)).not.toContain('a');
});

describe('of a long secret', () => {
  const long = randomBytes(12 * 1024).toString('base64');
  const longForms = formsOf(new SecretValue(long));

  it.each([
    ['as it is', long],
    ['in JSON', JSON.stringify({ echo: `${long}\n` })],
    ['in a URL', encodeURIComponent(long)],
    ['in base64', Buffer.from(`x${long}`).toString('base64')],
    ['in UTF-16', Buffer.from(`${long}`, 'utf16le').toString('latin1')],
  ])('nothing is left %s, wherever it is cut', async (_form, text) => {
    const bytes = Buffer.from(`begin ${text} end`, 'latin1');
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 12 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        const shown = await scrubbed(
          at.slice(1).map((to, index) => bytes.subarray(at[index], to)),
          longForms,
        );
        // A letter or two of base64 depend on what stands around it.
        expect(shown.replaceAll('*', '').length).toBeLessThan('begin  end'.length + 20);
        expect(Buffer.byteLength(shown)).toBe(bytes.length);
      }),
      { numRuns: 8 },
    );
  });

  it('no part is left that is longer than what could be anything, and what follows it is', async () => {
    const part = long.slice(0, 5_000);
    expect(await scrubbed([`begin ${part.slice(0, 100)}`, part.slice(100), '! end'], longForms)).toBe(
      `begin ${'*'.repeat(5_000)}! end`,
    );
  });

  it('a byte costs what it costs for a short one, whatever a host makes of it', async () => {
    const cost = async (of: readonly Form[], block: Buffer) => {
      const scrubber = new Scrubber(of);
      scrubber.resume();
      const since = process.cpuUsage();
      for (let count = 0; count < 4; count++) await new Promise((done) => scrubber.write(block, done));
      const { user, system } = process.cpuUsage(since);
      return user + system;
    };
    const same = 'a'.repeat(16_000);
    const nearly = Buffer.from(`${same.slice(1)}b`.repeat(4));
    // By steps that grow with its length each of these took seconds.
    expect(await cost(formsOf(new SecretValue(same)), nearly)).toBeLessThan(500_000);
    expect(await cost(longForms, Buffer.from(long.slice(0, -1).repeat(4)))).toBeLessThan(500_000);
  });

  it('its forms are made once', () => {
    const value = new SecretValue(long);
    expect(formsOf(value)).toBe(formsOf(value));
    expect(formsOf(value, ['x'])).not.toBe(formsOf(value));
  });
});
