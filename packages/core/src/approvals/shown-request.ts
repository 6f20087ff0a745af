/**
 * What a reviewer sees of a held request: all that would be sent, but for what looks like a secret, and with nothing hidden.
 * What is too long is cut, and says so; the digest of the body is that of all of it.
 */
import { type AddedSecret, countedHeaders, type HeldRequest } from './canonical-request.ts';
import { isSecretName, MAX_LOOKED_AT, maskBody, masked, maskUrl, maskValues, type Piece } from './masking.ts';
import { visibleLine, visibleText } from './visible-text.ts';

export const MAX_SHOWN_URL = 4 * 1024;
export const MAX_SHOWN_HEADERS = 100;
export const MAX_SHOWN_HEADER = 1024;
export const MAX_SHOWN_BODY = 64 * 1024;
/** Of an unpacked one, in UTF-8 or UTF-16: what is behind would not be shown. */
export const MAX_UNPACKED_BYTES = 4 * MAX_LOOKED_AT;

export interface ShownHeader {
  readonly name: string;
  readonly value: string;
}

export interface ShownBody {
  readonly sizeBytes: number;
  /** Of all of it, in hex. */
  readonly sha256: string;
  /** Null: it is no text. */
  readonly text: string | null;
  /** What `text` was read through, as `gzip`, `utf-16le`; empty: it is the body as it is. Left out by earlier versions. */
  readonly readAs?: readonly string[];
  /** Whether `text` is all of it, but for what is masked. */
  readonly isWhole: boolean;
}

export interface ShownRequest {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  /** Path and query. */
  readonly url: string;
  readonly headers: readonly ShownHeader[];
  /** How many headers are not shown. */
  readonly moreHeaders: number;
  readonly body: ShownBody;
  /** What is added on its way out. Left out by earlier versions, and null: nothing. */
  readonly added?: AddedSecret | null;
}

/** The body as whoever gets it may read it. */
export interface UnpackedBody {
  readonly bytes: Uint8Array;
  /** False: there is more of it than this. */
  readonly isWhole: boolean;
  /** The coding that it was unpacked from. */
  readonly coding: string;
}

/** `sha256`: of the body as it leaves. `unpacked`: what is shown in its place; null: it is shown as it is. */
export function shownRequest(request: HeldRequest, sha256: string, unpacked: UnpackedBody | null = null): ShownRequest {
  const headers = countedHeaders(request);
  return {
    method: visibleLine(request.method),
    scheme: request.secure ? 'https' : 'http',
    host: request.host,
    port: request.port,
    url: lineOf(maskUrl(request.url), MAX_SHOWN_URL),
    headers: headers.slice(0, MAX_SHOWN_HEADERS).map(([name, value]) => ({
      name: cut(visibleLine(name), MAX_SHOWN_HEADER),
      value: lineOf(isSecretName(name) ? [masked(value)] : maskValues(value), MAX_SHOWN_HEADER),
    })),
    moreHeaders: Math.max(0, headers.length - MAX_SHOWN_HEADERS),
    body: { ...bodyOf(request, unpacked), sha256 },
    added: request.added,
  };
}

function bodyOf(request: HeldRequest, unpacked: UnpackedBody | null): Omit<ShownBody, 'sha256'> {
  const sizeBytes = request.body.length;
  const { bytes, isWhole: isAll, coding } = unpacked ?? { bytes: request.body, isWhole: true, coding: null };
  const read = textOf(bytes, charsetOf(request), isAll);
  if (read === null) return { sizeBytes, text: null, isWhole: false, readAs: [] };
  const { text, charset } = read;
  // What is masked may be far shorter than it was, so that what nobody looked at would come into sight.
  const shown = shownAll(maskBody(text.slice(0, MAX_LOOKED_AT)), visibleText);
  const notLookedAt = Math.max(0, text.length - MAX_LOOKED_AT);
  const isWhole = isAll && notLookedAt === 0 && shown.length <= MAX_SHOWN_BODY;
  const readAs = [coding, charset].filter((one) => one !== null);
  return { sizeBytes, text: cut(shown, MAX_SHOWN_BODY, notLookedAt), isWhole, readAs };
}

/** Null: it is no text. `charset` null: UTF-8. What is cut off may end within a letter. */
function textOf(bytes: Uint8Array, said: string | null, isWhole: boolean) {
  const charset = wideCharset(bytes, said);
  if (charset === undefined) return null;
  try {
    const decoder = new TextDecoder(charset ?? 'utf-8', { fatal: true, ignoreBOM: true });
    const text = decoder.decode(bytes, { stream: !isWhole });
    return text.includes('\0') ? null : { text, charset };
  } catch {
    return null;
  }
}

/** UTF-16 of either order, when it begins as that or is said to be; null: neither; undefined: it cannot be told. */
function wideCharset([first, second]: Uint8Array, said: string | null): 'utf-16le' | 'utf-16be' | null | undefined {
  const begins = first === 0xff && second === 0xfe ? 'utf-16le' : first === 0xfe && second === 0xff ? 'utf-16be' : null;
  if (said === null || said === 'utf-8') return begins;
  if (said === 'utf-16') return begins ?? undefined;
  if (said !== 'utf-16le' && said !== 'utf-16be') return begins;
  return begins === null || begins === said ? said : undefined;
}

/** What the request says of it, of UTF-16 alone; what says two things says none. */
function charsetOf({ headers }: HeldRequest): string | null {
  const types = headers.filter(([name]) => name.toLowerCase() === 'content-type').map(([, value]) => value);
  const said = types.flatMap((type) => [...type.matchAll(/;\s*charset\s*=\s*"?([^";\s]+)"?/gi)]).map((one) => one[1]);
  return said.length === 1 ? (said[0] ?? '').toLowerCase() : null;
}

function lineOf(pieces: readonly Piece[], length: number): string {
  return cut(shownAll(pieces, visibleLine), length);
}

function shownAll(pieces: readonly Piece[], visible: (text: string) => string): string {
  return pieces.map((piece) => shownPiece(piece, visible)).join('');
}

function shownPiece({ text, isMasked }: Piece, visible: (text: string) => string): string {
  return isMasked ? `⟨${text}⟩` : visible(text);
}

function cut(text: string, length: number, behind = 0): string {
  const shown = text.slice(0, length);
  const more = text.length - shown.length + behind;
  return more === 0 ? shown : `${shown}⟨${more} more characters⟩`;
}
