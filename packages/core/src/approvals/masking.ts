/** What looks like a secret, by its name or by itself. A reviewer sees how long it is, and nothing of it. Best effort. */

const SECRET_NAME =
  /(^|[^a-z])(auth|authorization|authentication|token|secret|passw(or)?d|passphrase|pwd|cookie|session|signature|credentials?|(api|access|private|secret|client|auth)[-_]?key|key|jwt|bearer|sig)([^a-z]|$)/i;
/** `apiKey`, `accessToken`. */
const SECRET_CAMEL = /(Token|Secret|Password|Key|Credential|Signature|Auth)s?$/;

/**
 * A guest writes the text, and the gateway has no time for it but what its length costs: so none of these looks through one run of
 * letters more than once. What scans a run to its end begins where the run begins, and nowhere else in it.
 */
const SECRET_VALUES: readonly RegExp[] = [
  /\b(sk|pk|rk)[-_](live|test|ant|proj|svcacct|[a-z0-9]+)?[-_]?[A-Za-z0-9_-]{16,}/g,
  /\b(gh[opsur]|github_pat|glpat|xox[abposr]|npm|pypi|hf|shpat|dop_v1|spaceshare|space)[_-][A-Za-z0-9_-]{16,}/g,
  /\b(AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]{11,}\.)(?:[A-Za-z0-9_-]*-)?eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  /\b(Bearer|Basic)\s+[A-Za-z0-9+/=_.~-]{8,}/g,
  // Long and without a word in it: hex, or base64 with digits and both cases.
  /\b[0-9a-f]{40,}\b/gi,
  /(?<![A-Za-z0-9+_-])(?=[A-Za-z0-9+_-]*[0-9])(?=[A-Za-z0-9+_-]*[A-Z])(?=[A-Za-z0-9+_-]*[a-z])[A-Za-z0-9+_-]{40,}={0,2}/g,
];

/** Of a text, the part that is looked at. What lies behind it must not be shown. */
export const MAX_LOOKED_AT = 128 * 1024;

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) || SECRET_CAMEL.test(name);
}

/** Stands for a value; nothing that a guest writes reads like it, see `visible-text.ts`. */
export function masked(value: string): Piece {
  return { text: `masked, ${value.length} characters`, isMasked: true };
}

export interface Piece {
  readonly text: string;
  readonly isMasked: boolean;
}

/** The text in pieces, those that look like secrets masked. */
export function maskValues(text: string): readonly Piece[] {
  return maskSpans(
    text,
    SECRET_VALUES.flatMap((pattern) => spansOf(text, pattern, 0)),
  );
}

/** Of a body that is JSON or a form: also the values of names that sound like it. */
export function maskBody(text: string): readonly Piece[] {
  const json = spansOf(text, /"((?:[^"\\\n]|\\.){1,80})"\s*:\s*"((?:[^"\\]|\\.)*)("|$)/g, 2, isSecretName);
  const form = spansOf(text, /(?:^|&|\n)([^=&\s"]{1,80})=([^&\s]*)/g, 2, isSecretName);
  return maskSpans(text, [...json, ...form, ...SECRET_VALUES.flatMap((pattern) => spansOf(text, pattern, 0))]);
}

/** Path and query: the values of the query by their names, and all that looks like a secret. */
export function maskUrl(url: string): readonly Piece[] {
  const query = spansOf(url, /[?&;]([^=&;]{1,80})=([^&;]*)/g, 2, isSecretName);
  return maskSpans(url, [...query, ...SECRET_VALUES.flatMap((pattern) => spansOf(url, pattern, 0))]);
}

type Span = readonly [from: number, to: number];

function spansOf(text: string, pattern: RegExp, group: number, hasName?: (name: string) => boolean): Span[] {
  const spans: Span[] = [];
  for (const match of text.matchAll(pattern)) {
    const value = match[group] ?? '';
    if (value === '' || (hasName !== undefined && !hasName(match[1] ?? ''))) continue;
    const from = match.index + (group === 0 ? 0 : match[0].lastIndexOf(value));
    spans.push([from, from + value.length]);
  }
  return spans;
}

function maskSpans(text: string, spans: readonly Span[]): readonly Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const [from, to] of spans.toSorted(([a], [b]) => a - b)) {
    if (to <= at) continue;
    const begin = Math.max(from, at);
    if (begin > at) pieces.push({ text: text.slice(at, begin), isMasked: false });
    pieces.push(masked(text.slice(begin, to)));
    at = to;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), isMasked: false });
  return pieces;
}
