/** The part of a file that a request asks for, and how the answer names it. */
import { ProtocolError } from '@space/contract';

/** One range of bytes, as a Range header can say it. */
export type AskedRange =
  | { readonly kind: 'from'; readonly first: number; readonly last: number | undefined }
  | { readonly kind: 'suffix'; readonly count: number };

/** Undefined when there is none, or one that we do not support: the whole file is then a correct answer. */
export function parseRange(header: string | undefined): AskedRange | undefined {
  const match = /^bytes=([0-9]{0,15})-([0-9]{0,15})$/.exec(header ?? '');
  if (match === null) return undefined;
  const [, first = '', last = ''] = match;
  if (first === '') return last === '' ? undefined : { kind: 'suffix', count: Number(last) };
  if (last !== '' && Number(last) < Number(first)) return undefined;
  return { kind: 'from', first: Number(first), last: last === '' ? undefined : Number(last) };
}

/** Where a part lies in a file of that size. */
export interface Part {
  readonly offset: number;
  readonly length: number;
}

/** The part that exists of what was asked. */
export function partOf(sizeBytes: number, offset = 0, length = Number.POSITIVE_INFINITY): Part {
  return { offset, length: Math.max(0, Math.min(length, sizeBytes - offset)) };
}

export function contentRange(part: Part, sizeBytes: number): string {
  if (part.length === 0) {
    throw new ProtocolError('range_unsatisfiable', `The file has ${sizeBytes} bytes.`, {
      'content-range': `bytes */${sizeBytes}`,
    });
  }
  return `bytes ${part.offset}-${part.offset + part.length - 1}/${sizeBytes}`;
}
