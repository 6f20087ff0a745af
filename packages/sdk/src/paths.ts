/** Paths and names of a sandbox: what Linux takes for one need not be UTF-8. */
import { invalidAnswer } from './errors.ts';

/** Text, or bytes for what is not UTF-8. */
export type FilePath = string | Uint8Array;

/** The one of two fields of a request that says it. */
export function bytesFields(field: string, value: FilePath): Readonly<Record<string, string>> {
  return typeof value === 'string' ? { [field]: value } : { [`${field}Base64`]: toBase64(value) };
}

/** From the two fields of an answer, of which one is null. */
export function toldPath(field: string, answer: Readonly<Record<string, unknown>>): FilePath {
  const [text, base64] = [answer[field], answer[`${field}Base64`]];
  if (typeof text === 'string') return text;
  if (typeof base64 === 'string') return fromBase64(base64);
  throw invalidAnswer(`An answer has no ${field}.`, undefined);
}

/** A path below a directory. */
export function joined(directory: FilePath, below: FilePath): FilePath {
  if (typeof directory === 'string' && typeof below === 'string') {
    return directory.endsWith('/') ? directory + below : `${directory}/${below}`;
  }
  const encode = (path: FilePath) => (typeof path === 'string' ? new TextEncoder().encode(path) : path);
  const [start, end] = [encode(directory), encode(below)];
  return Uint8Array.from([...start, ...(start.at(-1) === SLASH ? [] : [SLASH]), ...end]);
}

const SLASH = 47;

export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}
