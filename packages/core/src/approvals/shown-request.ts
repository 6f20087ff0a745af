/**
 * What a reviewer sees of a held request: all that would be sent, but for what looks like a secret, and with nothing hidden.
 * What is too long is cut, and says so; the digest of the body is that of all of it.
 */
import { countedHeaders, type HeldRequest } from './canonical-request.ts';
import { isSecretName, maskBody, masked, maskUrl, maskValues, type Piece } from './masking.ts';
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
  const shown = maskBody(text)
    .map((piece) => shownPiece(piece, visibleText))
    .join('');
  return { sizeBytes, text: cut(shown, MAX_SHOWN_BODY), isWhole: shown.length <= MAX_SHOWN_BODY };
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
  return cut(pieces.map((piece) => shownPiece(piece, visibleLine)).join(''), length);
}

function shownPiece({ text, isMasked }: Piece, visible: (text: string) => string): string {
  return isMasked ? `⟨${text}⟩` : visible(text);
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}⟨${text.length - length} more characters⟩`;
}
