import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HeldRequest } from './canonical-request.ts';
import { MAX_SHOWN_BODY, MAX_SHOWN_URL, shownRequest } from './shown-request.ts';
import { visibleLine, visibleText } from './visible-text.ts';

const BASE: HeldRequest = {
  secure: true,
  host: 'api.example',
  port: 443,
  method: 'POST',
  url: '/v1/pay',
  headers: [],
  body: new Uint8Array(),
  added: null,
};
const show = (changes: Partial<HeldRequest>) => shownRequest({ ...BASE, ...changes }, 'digest');
const bodyOf = (text: string) => show({ body: Buffer.from(text) }).body.text;
const headerOf = (name: string, value: string) => show({ headers: [[name, value]] }).headers[0]?.value;

describe('what a reviewer sees', () => {
  it('has nothing hidden in it', () => {
    expect(visibleText('pay \u202e1 ot\u202c')).toBe('pay ⟨U+202E⟩1 ot⟨U+202C⟩');
    expect(visibleText('a\u200bb\u2060c\ufeffd\u00ade')).toBe('a⟨U+200B⟩b⟨U+2060⟩c⟨U+FEFF⟩d⟨U+00AD⟩e');
    expect(visibleText('\u001b[2K\r\u0007')).toBe('⟨U+001B⟩[2K⟨U+000D⟩⟨U+0007⟩');
    expect(visibleText('pаypal.com')).toBe('p⟨U+0430⟩ypal.com');
    expect(visibleText('ｐａｙ 𝗽ay ﬁne')).toBe('⟨U+FF50⟩⟨U+FF41⟩⟨U+FF59⟩ ⟨U+1D5FD⟩ay ⟨U+FB01⟩ne');
    expect(visibleText('\u{e0041}\u{e0042}')).toBe('⟨U+E0041⟩⟨U+E0042⟩');
    expect(visibleText('a\u00a0b\u3164')).toBe('a⟨U+00A0⟩b⟨U+3164⟩');
    expect(visibleLine('a\nb\tc')).toBe('a⟨U+000A⟩b⟨U+0009⟩c');
  });

  it('is plain where nothing is odd, in any language', () => {
    for (const text of ['{"to": "Jürgen Größe"}', '東京へ', 'naïve café', 'a\n\tb'])
      expect(visibleText(text)).toBe(text);
  });

  it('cannot be made to look like a word of ours', () => {
    expect(bodyOf('⟨masked, 3 characters⟩')).toBe('⟨U+27E8⟩masked, 3 characters⟨U+27E9⟩');
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        const shown = visibleText(text);
        expect(shown.replace(/[\n\t]/g, '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        // What stands in brackets is a code, and each can be read back.
        const back = shown.replace(/⟨U\+([0-9A-F]+)⟩/g, (_all, hex: string) =>
          String.fromCodePoint(Number.parseInt(hex, 16)),
        );
        expect(back).toBe(text);
      }),
    );
  });

  it('holds no header of credentials, and no value that looks like a key', () => {
    for (const name of [
      'Authorization',
      'Cookie',
      'X-Api-Key',
      'x-goog-api-key',
      'X-Auth-Token',
      'X-Amz-Security-Token',
      'X-Hub-Signature-256',
    ]) {
      expect(headerOf(name, 'hunter2hunter2')).toBe('⟨masked, 14 characters⟩');
    }
    expect(headerOf('X-Forwarded', `Bearer ${'a'.repeat(20)}`)).toBe('⟨masked, 27 characters⟩');
    for (const key of [
      'sk-ant-api03-abcdefghijklmnop',
      `ghp_${'a1B2'.repeat(9)}`,
      'AKIAIOSFODNN7EXAMPLE',
      'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln',
      'id-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln',
      `-${'a1B-'.repeat(11)}`,
      'f'.repeat(64),
    ]) {
      expect(bodyOf(`the key is ${key}, use it`)).toBe(`the key is ⟨masked, ${key.length} characters⟩, use it`);
      expect(show({ url: `/x/${key}` }).url).toBe(`/x/⟨masked, ${key.length} characters⟩`);
    }
    expect(bodyOf('{"password": "a\\"b", "apiKey":"k", "name": "monkey"}')).toBe(
      '{"password": "⟨masked, 4 characters⟩", "apiKey":"⟨masked, 1 characters⟩", "name": "monkey"}',
    );
    expect(bodyOf('user=me&client_secret=abc&x=1')).toBe('user=me&client_secret=⟨masked, 3 characters⟩&x=1');
    expect(show({ url: '/x?access_token=abc&q=token' }).url).toBe('/x?access_token=⟨masked, 3 characters⟩&q=token');
  });

  it('shows what is no secret as it is', () => {
    expect(headerOf('Content-Type', 'application/json; charset=utf-8')).toBe('application/json; charset=utf-8');
    expect(bodyOf('DELETE FROM monkeys WHERE id = 1')).toBe('DELETE FROM monkeys WHERE id = 1');
    expect(show({ url: '/repos/space/keyboard/issues?page=2' }).url).toBe('/repos/space/keyboard/issues?page=2');
  });

  it('is bounded, and says what is left out', () => {
    const long = show({
      url: `/${'a b'.repeat(MAX_SHOWN_URL)}`,
      body: Buffer.from('x y '.repeat(MAX_SHOWN_BODY)),
      headers: Array.from({ length: 130 }, (_, index) => [`x-${index}`, '1'] as const),
    });
    expect(long.url.length).toBeLessThan(MAX_SHOWN_URL + 100);
    expect(long.url).toMatch(/⟨\d+ more characters⟩$/);
    expect(long.body).toMatchObject({ sizeBytes: 4 * MAX_SHOWN_BODY, isWhole: false });
    expect(long.body.text?.length).toBeLessThan(MAX_SHOWN_BODY + 100);
    expect(long).toMatchObject({ moreHeaders: 30 });
    expect(show({ body: Buffer.from([0xff, 0xfd]) }).body).toMatchObject({ text: null, sizeBytes: 2, isWhole: false });
    expect(show({ body: Buffer.from('ok') }).body).toMatchObject({ text: 'ok', isWhole: true, sha256: 'digest' });
  });

  it('shows nothing that was not looked at, however much of what was is masked', () => {
    const long = bodyOf(`{"token":"${'x'.repeat(200_000)}","password":"hunter2hunter2"}`);
    expect(long).not.toContain('hunter2');
    expect(long).toMatch(/⟨\d+ more characters⟩$/);
    expect(show({ body: Buffer.from(`{"token":"${'x'.repeat(200_000)}"}`) }).body.isWhole).toBe(false);
  });

  it('costs no more than its length, whatever a guest sends', () => {
    const hostile = [
      '"'.repeat(200_000),
      '"a":"'.repeat(50_000),
      '\\'.repeat(200_000),
      'aA0'.repeat(70_000),
      '-----BEGIN PRIVATE KEY-----'.repeat(8_000),
      '='.repeat(200_000),
      `"${'\\a'.repeat(100_000)}`,
      // Begins of keys in one run of letters, none of which is one.
      ...['eyJ-', 'eyJ+', 'a-', 'A-', '0+', 'sk-', 'ghp_', 'ghp-', 'a.-', '-----END '].map((unit) =>
        unit.repeat(50_000),
      ),
    ];
    const before = process.cpuUsage();
    for (const text of hostile) bodyOf(text);
    // Of this process, and not of the clock, since others may want the machine. Looking twice takes minutes.
    expect(process.cpuUsage(before).user).toBeLessThan(4_000_000);
  });
});

describe('a body that is not as it is read', () => {
  const wide = (text: string, order: 'le' | 'be') => {
    const bytes = Buffer.from(text, 'utf16le');
    return order === 'le' ? bytes : bytes.swap16();
  };
  const typed = (type: string): HeldRequest['headers'] => [['Content-Type', type]];

  it.each<[string, Buffer, string | null, unknown]>([
    ['with a mark at its begin', wide('\ufeff{"a":1}', 'le'), null, ['⟨U+FEFF⟩{"a":1}', ['utf-16le']]],
    ['of the other order', wide('\ufeff{"a":1}', 'be'), null, ['⟨U+FEFF⟩{"a":1}', ['utf-16be']]],
    ['that is said to be', wide('näh', 'be'), 'text/plain; charset="UTF-16BE"', ['näh', ['utf-16be']]],
    ['of which nothing is said', wide('pay', 'le'), null, [null, []]],
    ['of no order', wide('pay', 'le'), 'text/plain; charset=utf-16', [null, []]],
    ['said to be of another order', wide('\ufeffpay', 'le'), 'text/plain; charset=utf-16be', [null, []]],
    ['said to be two things', wide('pay', 'le'), 'a/b; charset=utf-16le; charset=utf-8', [null, []]],
    ['that ends within a letter', wide('pay', 'le').subarray(0, 5), 'a/b; charset=utf-16le', [null, []]],
    ['with half a letter', Buffer.from([0x00, 0xd8, 0x41, 0x00]), 'a/b; charset=utf-16le', [null, []]],
    ['of zeros', Buffer.alloc(8), 'a/b; charset=utf-16le', [null, []]],
  ])('is shown as text in UTF-16 %s, or not at all', (_what, body, type, expected) => {
    const shown = show({ body, headers: type === null ? [] : typed(type) });
    expect([shown.body.text, shown.body.readAs]).toEqual(expected);
    expect(shown.body).toMatchObject({ sizeBytes: body.length, sha256: 'digest' });
  });

  it('is shown as what it unpacks to, masked and with nothing hidden, and says so', () => {
    const request = { ...BASE, body: Buffer.from('packed') };
    const bytes = Buffer.from('{"token":"hunter2hunter2","to":"p\u0430y"}');
    const { body } = shownRequest(request, 'digest', { bytes, isWhole: true, coding: 'gzip' });
    expect(body).toEqual({
      text: '{"token":"⟨masked, 14 characters⟩","to":"p⟨U+0430⟩y"}',
      ...{ sizeBytes: 6, sha256: 'digest', isWhole: true, readAs: ['gzip'] },
    });
    const wideBody = { bytes: wide('\ufeffpay', 'le'), isWhole: true, coding: 'br' };
    expect(shownRequest(request, 'digest', wideBody).body.readAs).toEqual(['br', 'utf-16le']);
  });

  it('is shown as far as it was unpacked, which may be within a letter, and says that it is not all', () => {
    const bytes = Buffer.from('pay ö').subarray(0, 5);
    const { body } = shownRequest(BASE, 'digest', { bytes, isWhole: false, coding: 'gzip' });
    expect(body).toMatchObject({ text: 'pay ', isWhole: false });
  });
});
