/** The part of a file that a request asks for. */

export interface Part {
  readonly offset: number;
  readonly length: number;
}

/** Undefined: the whole, also for several ranges or what is none, as HTTP has it. */
export function parseRange(header: string | undefined, sizeBytes: number): Part | 'unsatisfiable' | undefined {
  const [, first, last] = /^bytes=([0-9]{0,15})-([0-9]{0,15})$/.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined;
  const offset = first === '' ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? sizeBytes : Math.min(Number(last) + 1, sizeBytes);
  return offset < end ? { offset, length: end - offset } : 'unsatisfiable';
}
