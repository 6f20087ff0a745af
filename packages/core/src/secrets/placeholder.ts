/**
 * Placeholders: what a program in a sandbox sees in the place of a secret. They hold nothing, and are long and odd enough that
 * whatever looks like one is one.
 */
import type { Chance } from '../ids.ts';

const PREFIX = 'space-secret-';
const LETTERS = 20;
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
export const PLACEHOLDER_LENGTH = PREFIX.length + LETTERS;

const hexOf = (letter: string): string => letter.charCodeAt(0).toString(16);
const eitherCase = (hex: string): string => hex.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
/** As it is, percent-encoded once or twice, or with an escape of JSON. */
const inAnyForm = (letter: string): string => `(?:${letter}|(?:%(?:25)?|\\\\u00)${eitherCase(hexOf(letter))})`;
const ANY_LETTER = '(?:[0-9a-z]|(?:%(?:25)?|\\\\u00)[3-7][0-9a-fA-F])';
const ESCAPED = new RegExp(`${[...PREFIX].map(inAnyForm).join('')}${ANY_LETTER}{${LETTERS}}`);

/** What base64 makes of the prefix, by what stands before it: the letters that depend on nothing else. */
const ENCODED = [0, 1, 2].map((before) => {
  const encoded = btoa('\0'.repeat(before) + PREFIX);
  const skipped = Math.ceil((before * 8) / 6);
  const whole = Math.floor(((before + PREFIX.length) * 8) / 6);
  return encoded.slice(skipped, whole);
});
// What comes after the prefix are letters and digits, of which base64 makes letters and digits.
const BASE64 = new RegExp(`(?:${ENCODED.join('|')})[A-Za-z0-9]{${LETTERS}}`);
const HEX = new RegExp(`${[...PREFIX].map((letter) => eitherCase(hexOf(letter))).join('')}[0-9a-fA-F]{${LETTERS * 2}}`);

const WIDE = new RegExp(`${[...PREFIX].join('\\0')}\\0(?:[0-9a-z]\\0){${LETTERS - 1}}[0-9a-z]`);

/** The longest form that is looked for, less one: what of a stream must be looked at again with what follows. */
export const PLACEHOLDER_OVERLAP = PLACEHOLDER_LENGTH * '\\u0000'.length - 1;

/** Whether it is one, and nothing else. */
export function isPlaceholder(text: string): boolean {
  const letters = text.startsWith(PREFIX) ? [...text.slice(PREFIX.length)] : [];
  return letters.length === LETTERS && letters.every((letter) => ALPHABET.includes(letter));
}

export function newPlaceholder(chance: Chance): string {
  return PREFIX + Array.from(chance.bytes(LETTERS), (byte) => ALPHABET[byte & 31]).join('');
}

/**
 * Whether there is one in a text: as it is, percent-encoded (also twice), with escapes of JSON, in base64 at any offset, in hex, or in
 * UTF-16. In what is compressed or encrypted nobody sees one, nor one in pieces that somebody has to put together.
 */
export function hasPlaceholder(text: string): boolean {
  if (ESCAPED.test(text) || BASE64.test(text) || HEX.test(text)) return true;
  // Of each letter in UTF-16 one byte is a zero, before or behind it.
  return text.includes('\0') && WIDE.test(text);
}
