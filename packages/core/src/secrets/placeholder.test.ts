import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasPlaceholder, newPlaceholder, PLACEHOLDER_LENGTH } from './placeholder.ts';

const bytes = fc.uint8Array({ minLength: 20, maxLength: 20 });
const placeholderOf = (from: Uint8Array) => newPlaceholder({ bytes: () => from });
const base64 = (text: string) => Buffer.from(text, 'latin1').toString('base64');

describe('a placeholder', () => {
  it('is of one length', () => {
    fc.assert(fc.property(bytes, (from) => placeholderOf(from).length === PLACEHOLDER_LENGTH));
  });

  it('is seen in whatever stands around it, and in each form', () => {
    const around = fc.string({ unit: 'binary-ascii', maxLength: 10 });
    fc.assert(
      fc.property(bytes, around, around, (from, before, after) => {
        const text = `${before}${placeholderOf(from)}${after}`;
        const percent = text.replace(/./gs, (letter) => `%${letter.charCodeAt(0).toString(16).padStart(2, '0')}`);
        expect(hasPlaceholder(text)).toBe(true);
        expect(hasPlaceholder(base64(text))).toBe(true);
        expect(hasPlaceholder(Buffer.from(text).toString('base64url'))).toBe(true);
        expect(hasPlaceholder(Buffer.from(text).toString('hex'))).toBe(true);
        const wide = Buffer.from(text, 'utf16le');
        expect(hasPlaceholder(wide.toString('latin1'))).toBe(true);
        expect(hasPlaceholder(Buffer.from(wide).swap16().toString('latin1'))).toBe(true);
        expect(hasPlaceholder(percent)).toBe(true);
        expect(hasPlaceholder(percent.replaceAll('%', '%25'))).toBe(true);
        expect(hasPlaceholder(encodeURIComponent(base64(text)))).toBe(true);
      }),
    );
  });

  it('is seen with escapes of JSON', () => {
    expect(hasPlaceholder(placeholderOf(new Uint8Array(20)).replaceAll('-', '\\u002d'))).toBe(true);
  });

  it.each(['space-secret-', 'the space-secret-keeper, and other words', base64('space-secret-'), 'c3BhY2Utc2VjcmV0'])(
    'is not seen where there is none: %s',
    (text) => expect(hasPlaceholder(text)).toBe(false),
  );
});
