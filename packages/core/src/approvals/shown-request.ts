/**
 * What a reviewer sees of a held request: all that would be sent, but for what looks like a secret, and with nothing hidden.
 * What is too long is cut, and says so; the digest of the body is that of all of it.
 */
import { countedHeaders, type HeldRequest } from './canonical-request.ts';
import { isSecretName, MAX_LOOKED_AT, maskBody, masked, maskUrl, maskValues, type Piece } from './masking.ts';
import { visibleLine, visibleText } from './visible-text.ts';

export const MAX_SHOWN_URL = 4 * 1024;
export const MAX_SHOWN_HEADERS = 100;
export const MAX_SHOWN_HEADER = 1024;
export const MAX_SHOWN_BODY = 64 * 1024;

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
}

/** `sha256`: of the body. */
export function shownRequest(request: HeldRequest, sha256: string): ShownRequest {
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
    body: { ...bodyOf(request.body), sha256 },
  };
}

function bodyOf(body: Uint8Array): Omit<ShownBody, 'sha256'> {
  const sizeBytes = body.length;
  const text = textOf(body);
  if (text === null) return { sizeBytes, text: null, isWhole: false };
  // What is masked may be far shorter than it was, so that what nobody looked at would come into sight.
  const shown = shownAll(maskBody(text.slice(0, MAX_LOOKED_AT)), visibleText);
  const notLookedAt = Math.max(0, text.length - MAX_LOOKED_AT);
  const isWhole = notLookedAt === 0 && shown.length <= MAX_SHOWN_BODY;
  return { sizeBytes, text: cut(shown, MAX_SHOWN_BODY, notLookedAt), isWhole };
}

/** Null: it is no UTF-8, or has zeros in it. */
function textOf(body: Uint8Array): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
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
