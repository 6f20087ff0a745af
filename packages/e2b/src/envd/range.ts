/** The part of a file that a request asks for. */
import { type Part, parseRange, partOf } from '@space/http/parts';

/** Undefined: the whole, also for several ranges or what is none, as HTTP has it. */
export function askedPart(header: string | undefined, sizeBytes: number): Part | 'unsatisfiable' | undefined {
  const asked = parseRange(header);
  if (asked === undefined) return undefined;
  const part =
    asked.kind === 'suffix'
      ? partOf(sizeBytes, Math.max(0, sizeBytes - asked.count), asked.count)
      : partOf(sizeBytes, asked.first, asked.last === undefined ? undefined : asked.last - asked.first + 1);
  return part.length === 0 ? 'unsatisfiable' : part;
}
