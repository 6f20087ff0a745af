/** How large a sandbox is. Each (template, size) pair has its own ready snapshot. */
import { AppError } from './errors.ts';

export interface Size {
  /** Virtual CPUs. */
  readonly vcpus: number;
  /** Memory in MiB. */
  readonly memoryMib: number;
  /** Virtual disk in MiB; space is taken as it is written. */
  readonly diskMib: number;
}

export const DEFAULT_SIZE: Size = { vcpus: 1, memoryMib: 512, diskMib: 8192 };

export interface SizeLimits {
  readonly vcpus: { readonly min: number; readonly max: number };
  readonly memoryMib: { readonly min: number; readonly max: number; readonly step: number };
  readonly diskMib: { readonly min: number; readonly max: number; readonly step: number };
}

export const SIZE_LIMITS: SizeLimits = {
  vcpus: { min: 1, max: 8 },
  memoryMib: { min: 256, max: 16_384, step: 128 },
  diskMib: { min: 2048, max: 65_536, step: 1024 },
};

/** The whole size, defaults filled in; throws `size_impossible` with the limit that was passed. */
export function checkSize(asked: Partial<Size>, limits: SizeLimits = SIZE_LIMITS): Size {
  const size = { ...DEFAULT_SIZE, ...asked };
  for (const [field, limit] of Object.entries(limits) as [keyof Size, { min: number; max: number; step?: number }][]) {
    const value = size[field];
    const step = limit.step ?? 1;
    if (!Number.isInteger(value) || value < limit.min || value > limit.max || value % step !== 0) {
      const stepText = step > 1 ? ` in steps of ${step}` : '';
      throw new AppError('size_impossible', {
        detail: `${field} is ${value}; it can be ${limit.min} to ${limit.max}${stepText}.`,
        facts: { field, value, min: limit.min, max: limit.max, step },
      });
    }
  }
  return size;
}

/** E.g. `1x512x8192`: names a ready snapshot's size in paths and logs. */
export function sizeKey(size: Size): string {
  return `${size.vcpus}x${size.memoryMib}x${size.diskMib}`;
}
