/**
 * What a connection speaks, told from its first bytes. A port says nothing: whoever sends HTTP is asked for its requests,
 * on whichever port. Pure; what is too long to be what it began as is `other`.
 */

export type FirstBytes =
  | { readonly kind: 'tls'; readonly hello: ClientHello }
  | { readonly kind: 'http1' }
  | { readonly kind: 'http2' }
  /** TLS that cannot be read, or only in more than one way: a server may take it for what no rule allows. */
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'other' };

export interface ClientHello {
  /** As it was sent; null: none was. */
  readonly serverName: string | null;
  readonly protocols: readonly string[];
  /** Whether there is a second name in it that only the server can read (ECH, or ESNI before). */
  readonly hidesName: boolean;
}

const ALERT_RECORD = 21;
const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const RECORD_HEADER_BYTES = 5;
const MAX_RECORD_BYTES = 16 * 1024 + 256;
/** With keys of post-quantum exchanges it is some 2 KiB. */
const MAX_HELLO_BYTES = 64 * 1024;
/** Of some bytes each when somebody cuts a hello as small as it goes. */
const MAX_HELLO_RECORDS = 1_024;
const SERVER_NAME = 0;
const ALPN = 16;
const HIDDEN_NAMES: readonly number[] = [0xfe0d, 0xffce];

const HTTP2_PREFACE = Buffer.from('PRI * HTTP/2.0\r\n');
/** The longest registered method has 17 letters. */
const METHOD = /^[A-Za-z_-]{1,20}$/;
const MAX_METHOD_LETTERS = 20;
const MAX_EMPTY_BYTES = 64;

/** Null: more bytes are needed to tell. */
export function sniff(bytes: Buffer): FirstBytes | null {
  if (bytes.length === 0) return null;
  if (bytes[0] === HANDSHAKE_RECORD || bytes[0] === ALERT_RECORD) return sniffTls(bytes);
  if (isOldHello(bytes)) return { kind: 'unreadable' };
  const length = Math.min(bytes.length, HTTP2_PREFACE.length);
  if (bytes.subarray(0, length).equals(HTTP2_PREFACE.subarray(0, length))) {
    if (length === HTTP2_PREFACE.length) return { kind: 'http2' };
    if (length <= 'PRI'.length) return null;
    return length === bytes.length ? null : { kind: 'other' };
  }
  // Servers pass over empty lines before a request.
  const begin = bytes.findIndex((byte) => byte !== 13 && byte !== 10);
  if (begin < 0) return bytes.length > MAX_EMPTY_BYTES ? { kind: 'http1' } : null;
  return sniffHttp1(bytes.subarray(begin));
}

/** A hello in the form of SSL 2, which servers take for one of TLS. It has no name. */
function isOldHello(bytes: Buffer): boolean {
  const [first = 0, , type, major, minor = 0xff] = bytes;
  return first >= 0x80 && type === CLIENT_HELLO && major === 3 && minor <= 4;
}

function sniffHttp1(bytes: Buffer): FirstBytes | null {
  const head = bytes.subarray(0, MAX_METHOD_LETTERS + 1).toString('latin1');
  const space = head.indexOf(' ');
  const method = space < 0 ? head : head.slice(0, space);
  if (!METHOD.test(method)) return { kind: 'other' };
  if (space < 0) return head.length > MAX_METHOD_LETTERS ? { kind: 'other' } : null;
  // What other protocols begin with a word (`EHLO`, `USER`) has no version at the end of its first line.
  const lineEnd = bytes.indexOf('\n');
  if (lineEnd < 0) return bytes.length > MAX_RECORD_BYTES ? { kind: 'http1' } : null;
  const line = bytes.subarray(0, lineEnd).toString('latin1').trimEnd();
  return / HTTP\/[0-9]/i.test(line) ? { kind: 'http1' } : { kind: 'other' };
}

function sniffTls(bytes: Buffer): FirstBytes | null {
  if (bytes.length > 1 && bytes[1] !== 3) return { kind: 'other' };
  const message = handshakeOf(bytes);
  if (message === 'more') return null;
  const hello = message === null ? null : parseClientHello(message);
  return hello === null ? { kind: 'unreadable' } : { kind: 'tls', hello };
}

/** The first handshake message, which may be cut over several records. Joined once, however small they are. */
function handshakeOf(bytes: Buffer): Buffer | 'more' | null {
  const fragments: Buffer[] = [];
  let total = 0;
  let whole: number | null = null;
  for (let at = 0; fragments.length <= MAX_HELLO_RECORDS; ) {
    if (whole === null && total >= 4) {
      const head = Buffer.concat(fragments);
      whole = 4 + head.readUIntBE(1, 3);
      if (head[0] !== CLIENT_HELLO || whole > MAX_HELLO_BYTES) return null;
    }
    if (whole !== null && total >= whole) return Buffer.concat(fragments).subarray(4, whole);
    if (at < bytes.length && bytes[at] !== HANDSHAKE_RECORD) return null;
    if (bytes.length - at < RECORD_HEADER_BYTES) return 'more';
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > MAX_RECORD_BYTES) return null;
    const fragment = bytes.subarray(at + RECORD_HEADER_BYTES, at + RECORD_HEADER_BYTES + length);
    fragments.push(fragment);
    total += fragment.length;
    at += RECORD_HEADER_BYTES + length;
  }
  return null;
}

/** Null: it is malformed. */
function parseClientHello(message: Buffer): ClientHello | null {
  try {
    const reader = new Reader(message);
    reader.skip(2 + 32);
    reader.vector(1);
    reader.vector(2);
    reader.vector(1);
    if (reader.left === 0) return { serverName: null, protocols: [], hidesName: false };
    return parseExtensions(reader.vector(2));
  } catch (thrown) {
    if (thrown instanceof RangeError) return null;
    throw thrown;
  }
}

function parseExtensions(extensions: Reader): ClientHello {
  let serverName: string | null = null;
  let protocols: readonly string[] = [];
  const seen = new Set<number>();
  while (extensions.left > 0) {
    const type = extensions.number(2);
    const body = extensions.vector(2);
    // One that comes twice could be read either way.
    if (seen.has(type)) throw new RangeError('an extension came twice');
    seen.add(type);
    if (type === SERVER_NAME) serverName = parseServerName(body);
    if (type === ALPN) protocols = parseProtocols(body.vector(2));
  }
  return { serverName, protocols, hidesName: HIDDEN_NAMES.some((type) => seen.has(type)) };
}

function parseServerName(body: Reader): string {
  const list = body.vector(2);
  if (list.number(1) !== 0) throw new RangeError('the name is of an unknown type');
  const name = list.vector(2).rest().toString('latin1');
  if (list.left > 0 || body.left > 0) throw new RangeError('there is more than one name');
  if (!/^[\x21-\x7e]+$/.test(name)) throw new RangeError('the name has letters that are none');
  return name;
}

function parseProtocols(list: Reader): readonly string[] {
  const protocols: string[] = [];
  while (list.left > 0) protocols.push(list.vector(1).rest().toString('latin1'));
  return protocols;
}

/** Throws `RangeError` beyond the end. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  skip(count: number): void {
    if (count > this.left) throw new RangeError('the message ends early');
    this.#at += count;
  }

  number(size: 1 | 2): number {
    this.skip(size);
    return this.#bytes.readUIntBE(this.#at - size, size);
  }

  /** What follows its length. */
  vector(lengthSize: 1 | 2): Reader {
    const length = this.number(lengthSize);
    this.skip(length);
    return new Reader(this.#bytes.subarray(this.#at - length, this.#at));
  }

  rest(): Buffer {
    const rest = this.#bytes.subarray(this.#at);
    this.#at = this.#bytes.length;
    return rest;
  }
}
