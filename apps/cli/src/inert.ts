/**
 * Text from elsewhere — names, metadata, notes, what the platform says of a sandbox — is hostile: it could move the cursor,
 * retitle the window, or turn the reading direction so that a line says something else. Nothing of it is shown as it is
 * but letters, marks, digits, punctuation, symbols and plain spaces. Only the stream of a command goes out raw.
 */

/** Control, format (bidi, zero width), surrogate, private and unassigned characters, and every separator but the space. */
const ACTIVE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** One line of text that does nothing to a terminal. */
export function inert(text: string): string {
  return text.replace(ACTIVE, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** JSON that a terminal can show: the same value, with every active character escaped. */
export function inertJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(ACTIVE, (character) =>
    character === '\n'
      ? character
      : [...Array(character.length).keys()].map((at) => escapeUnit(character, at)).join(''),
  );
}

function escapeUnit(text: string, at: number): string {
  return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
}
