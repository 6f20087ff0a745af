/**
 * How points leave a vault for an archive, and how they come back into any vault.
 *
 * ```
 *   index ──► point ──► manifest
 *                  └──► disk, memory, device state ──► table ──► piece
 *                                                               256 KiB of the file
 * ```
 *
 * Of what is encrypted pieces are named by keyed digests and sealed (`piece-seal.ts`), and so is the half of the index that tells of the
 * sandbox (`sealed-index.ts`). Each arrow is a SHA-256, and each object is named by the digest of what it holds. So who has the name of an index can
 * check all of it, whoever keeps it; a piece that two points share lies there once; and an export that broke off is simply done
 * again, and sends what is missing.
 *
 * Invariants: an index is written last, once all that it names is durable. What comes out of an archive is input of a
 * stranger: each object is read to a bound, unpacked to a bound, and checked before it is used. Memory is bounded, whatever the
 * size of a sandbox.
 */
export { claimMove } from './claim.ts';
export { type Collected, collectSpace } from './collect.ts';
export { type ExportPlan, exportPoints } from './export.ts';
export type { ArchivedMove, ArchivedPoint, ArchiveIndex } from './format.ts';
export { type ImportAs, type ImportEvent, type ImportPlan, importPoints } from './import.ts';
export { type ListedArchive, listArchives, removeArchive } from './list.ts';
export { beginUse } from './marks.ts';
export { THREAD_PACKER } from './packer.ts';
export { readArchiveKey, readIndex } from './read-index.ts';
export type { ArchiveSeal } from './sealed-index.ts';
