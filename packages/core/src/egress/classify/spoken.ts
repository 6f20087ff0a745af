/**
 * What a request asks of its host, in a protocol that HTTP only carries. It says what is called, and not whether that is allowed:
 * rules do. What could be read in two ways, by us in one and by the host in the other, has no calls that are known, and is a write.
 */

/** What a host speaks at a path, as a rule says: whoever guesses could be told one thing while the host takes it for another. */
export const SPOKEN = ['git', 'mcp', 'graphql', 'json-rpc'] as const;
export type Spoken = (typeof SPOKEN)[number];

export interface Call {
  /** `upload-pack` or `receive-pack`; `query`, `mutation` or `subscription`; of JSON-RPC and MCP the method. */
  readonly method: string;
  /** Of `tools/call` of MCP. */
  readonly tool?: string;
}

export interface SpokenCalls {
  readonly speaks: Spoken;
  /** All of them, in turn. Empty: it asks for nothing but what its method says. Null: they cannot be told. */
  readonly calls: readonly Call[] | null;
}

/** Names of methods and tools; what has other letters is no name. */
export const CALL_NAME = /^[A-Za-z0-9_.$/:-]{1,128}$/;
const MAX_DESCRIPTION = 200;

/** For records and people. */
export function describeSpoken({ speaks, calls }: SpokenCalls): string | null {
  if (calls === null) return `${speaks}: not readable`;
  if (calls.length === 0) return null;
  const names = calls.map(({ method, tool }) => (tool === undefined ? method : `${method} ${tool}`));
  const text = `${speaks}: ${names.join(', ')}`;
  return text.length > MAX_DESCRIPTION ? `${text.slice(0, MAX_DESCRIPTION - 1)}…` : text;
}

/** A name of a list, or `*` at the end for all that begin so. */
export function matchesName(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}

/** Whether all names that `inner` matches are matched by one of `outer`. */
export function nameLiesWithin(inner: string, outer: readonly string[]): boolean {
  return outer.some(
    (pattern) => pattern === inner || (pattern.endsWith('*') && inner.startsWith(pattern.slice(0, -1))),
  );
}
