/**
 * What a held request is, in one form: the bytes of which the digest is taken that an approval is bound to, and the headers
 * that leave when it was approved. What is not in it does not leave, so what is sent is what was approved.
 *
 * - Each part stands behind its length, so that no two requests have one form.
 * - The form of HTTP, the case of names, and the order of headers of different names do not count; that of equal ones does.
 * - What a program sends anew with each try (see `OF_ONE_TRY`) is left out, and does not leave.
 * - What a binding adds is in it by name: with another secret, or none, it is another request. Its value may change.
 * - Sandbox and generation are not in it: whoever looks an approval up looks it up by them as well.
 */

/** The first part: another form of it has another digest. */
const VERSION = 'space approval 1';

/** The header by which a program may name the approval that it waits for. */
export const TICKET_HEADER = 'x-space-approval';

/** How the body is framed, which is made anew; and the host, which is that of the connection. */
const FRAMING: readonly string[] = ['host', 'content-length', 'transfer-encoding', 'expect', 'trailer'];
/** Times, and names of attempts and traces. */
const OF_ONE_TRY: readonly string[] = [
  'date',
  'traceparent',
  'tracestate',
  'sentry-trace',
  'b3',
  'x-b3-traceid',
  'x-b3-spanid',
  'x-b3-parentspanid',
  'x-b3-sampled',
  'x-cloud-trace-context',
  'x-request-id',
  'x-stainless-retry-count',
  'amz-sdk-invocation-id',
  'amz-sdk-request',
  TICKET_HEADER,
];

/** What a binding adds on its way out, by names alone. */
export interface AddedSecret {
  readonly binding: string;
  /** Of the secret. */
  readonly secret: string;
  /** As `the header Authorization`. */
  readonly place: string;
}

export interface HeldRequest {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  readonly method: string;
  /** Path and query, as it was sent. */
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** Null: nothing is added. */
  readonly added: AddedSecret | null;
}

/** The headers that count, and no others: in lower case, sorted by name. */
export function countedHeaders({ headers }: Pick<HeldRequest, 'headers'>): readonly (readonly [string, string])[] {
  const counted = headers
    .map(([name, value]) => [name.toLowerCase(), value.trim()] as const)
    .filter(([name]) => !FRAMING.includes(name) && !OF_ONE_TRY.includes(name));
  // HTTP/2 may send a cookie in pieces.
  const cookies = counted.filter(([name]) => name === 'cookie').map(([, value]) => value);
  const rest = counted.filter(([name]) => name !== 'cookie');
  const joined = cookies.length === 0 ? rest : [...rest, ['cookie', cookies.join('; ')] as const];
  return joined.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** The bytes of which the digest is taken. */
export function canonicalRequest(request: HeldRequest): Uint8Array {
  const { secure, host, port, method, url, body, added } = request;
  const headers = countedHeaders(request);
  const texts = [
    VERSION,
    secure ? 'https' : 'http',
    host,
    `${port}`,
    method,
    url,
    `${headers.length}`,
    ...headers.flat(),
    ...(added === null ? [] : [added.binding, added.secret, added.place]),
  ];
  return joined([...texts.map((text) => new TextEncoder().encode(text)), body]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + 4 + part.length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const part of parts) {
    view.setUint32(at, part.length);
    bytes.set(part, at + 4);
    at += 4 + part.length;
  }
  return bytes;
}
