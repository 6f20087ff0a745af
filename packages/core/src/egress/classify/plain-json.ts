/**
 * JSON that every reader takes for the same: in UTF-8 without a mark, no name twice in one object, not too deep. Parsers differ in
 * which of two equal names they believe.
 */

const MAX_DEPTH = 64;
/** Names with what follows them, other strings, and what opens and closes. */
const TOKENS = /("[^"\\]*(?:\\.[^"\\]*)*")(?=\s*:)|"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]/g;

/** Undefined: it is none. */
export function parsePlainJson(bytes: Uint8Array): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    // What is no JSON throws here, so the walk below only sees what is some.
    const value: unknown = JSON.parse(text);
    return hasOnlySingleNames(text) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whether no name comes twice in any object, however it is escaped. Of text that is valid JSON. */
function hasOnlySingleNames(text: string): boolean {
  /** Of each open object its names, of each open list null. */
  const open: (Set<string> | null)[] = [];
  for (const [token, string] of text.matchAll(TOKENS)) {
    if (token === '{' || token === '[') {
      open.push(token === '{' ? new Set() : null);
      if (open.length > MAX_DEPTH) return false;
    } else if (token === '}' || token === ']') open.pop();
    else if (string !== undefined) {
      const names = open.at(-1);
      const name = String(JSON.parse(string));
      if (!names || names.has(name)) return false;
      names.add(name);
    }
  }
  return true;
}

/** Null: it is no object. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : null;
}

/** Readers that fold case take `Method` for `method`, so there may be no other names than these. */
export function hasOnly(value: Readonly<Record<string, unknown>>, names: readonly string[]): boolean {
  return Object.keys(value).every((name) => names.includes(name));
}
