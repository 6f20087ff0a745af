/**
 * Text of a guest as a reviewer reads it: what could not be seen, would turn the line round, or looks like another letter stands
 * as its code, `⟨U+202E⟩`. The brackets themselves stand as codes too, so that nothing a guest writes reads like ours.
 */

/** Control and format characters (also bidi and zero-width ones), separators, private, unassigned and lone surrogates. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\p{Default_Ignorable_Code_Point}]/u;
/** Spaces that are none of the keyboard's. */
const ODD_SPACE = /\p{Zs}/u;
/** Letters of other scripts that look like Latin ones. */
const LOOKALIKES = new Set('аАвВеЕёкКмМнНоОрРсСтТуУхХѕЅіІјЈһҺԁԛԜԝӏғҽѵαΑβΒεΕζΖηΗιΙκΚμΜνΝοΟρΡτΤυΥχΧγɡıոօսՏՕցհǃ');
const BRACKETS = '⟨⟩';

export function visibleText(text: string): string {
  let shown = '';
  for (const letter of text) shown += isHidden(letter) ? codeOf(letter) : letter;
  return shown;
}

/** Of a text of one line: also its line breaks and tabs. */
export function visibleLine(text: string): string {
  return visibleText(text).replace(/[\n\t]/g, (letter) => codeOf(letter));
}

function isHidden(letter: string): boolean {
  if (letter === '\n' || letter === '\t') return false;
  if (letter >= ' ' && letter <= '~') return false;
  if (UNSEEN.test(letter) || ODD_SPACE.test(letter) || BRACKETS.includes(letter) || LOOKALIKES.has(letter)) return true;
  // Full-width, mathematical and circled letters, ligatures: they become plain letters where somebody normalises.
  return /^[\x20-\x7e]+$/.test(letter.normalize('NFKC'));
}

function codeOf(letter: string): string {
  return `⟨U+${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`;
}
