/**
 * The archive port: a place outside of every vault, where exported points lie. Adapters: a folder, storage that speaks S3,
 * and the fake of testkit.
 *
 *     <space>/chunks/<2 digits>/<digest>        a piece of content, compressed, named by the digest of what it holds
 *     <space>/indexes/<sandboxId>/<digest>      what an archive consists of, named by the digest of its own bytes
 *     <space>/claims/<sandboxId>/<digest>       who has taken up the move that this archive is; made once, for ever
 *
 * An object appears whole or not at all, and is durable when `put` returns. Nothing that is read is trusted: whoever reads
 * checks it against the digest that it was asked for. So the name of an index is enough to vouch for all that hangs on it. A
 * *space* is a project's: chunks of one are never looked for in another.
 */
import { type ProjectId, parseId, type SandboxId } from '../ids.ts';

/** SHA-256, hex. */
export type Digest = string & { readonly __kind: 'digest' };

const DIGEST = /^[0-9a-f]{64}$/;

export function parseDigest(text: string): Digest | undefined {
  return DIGEST.test(text) ? (text as Digest) : undefined;
}

/** An archive: what a sandbox was at the points that its index names. */
export interface ArchiveRef {
  readonly space: ProjectId;
  readonly sandboxId: SandboxId;
  readonly digest: Digest;
}

/** `prj_…/sbx_…/<digest>`. */
export function formatArchiveRef({ space, sandboxId, digest }: ArchiveRef): string {
  return `${space}/${sandboxId}/${digest}`;
}

export function parseArchiveRef(text: string): ArchiveRef | undefined {
  const [project = '', sandbox = '', hex = '', ...rest] = text.split('/');
  const [space, sandboxId, digest] = [parseId('project', project), parseId('sandbox', sandbox), parseDigest(hex)];
  return space && sandboxId && digest && rest.length === 0 ? { space, sandboxId, digest } : undefined;
}

export type ArchiveKey =
  | { readonly kind: 'chunk'; readonly space: ProjectId; readonly digest: Digest }
  | ({ readonly kind: 'index' | 'claim' } & ArchiveRef);

/** Where an object lies, in names that stand in no need of escaping anywhere. */
export function archivePath(key: ArchiveKey): string {
  if (key.kind === 'index') return `${indexFolder(key.space, key.sandboxId)}/${key.digest}`;
  if (key.kind === 'claim') return `${key.space}/claims/${key.sandboxId}/${key.digest}`;
  return `${key.space}/chunks/${key.digest.slice(0, 2)}/${key.digest}`;
}

/** The folder of all indexes of a sandbox. */
export function indexFolder(space: ProjectId, sandboxId: SandboxId): string {
  return `${space}/indexes/${sandboxId}`;
}

/** Each throws `archive_unavailable` when the storage does not do what it is asked. */
export interface Archive {
  /** Null: there is none. Throws `archive_damaged`, before it is all read, when it has more than `maxBytes`. */
  get(key: ArchiveKey, maxBytes: number, signal?: AbortSignal): Promise<Uint8Array | null>;
  /** Replaces what is there: a reader finds the one or the other, whole. */
  put(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<void>;
  /**
   * Puts it there unless something is: false then, and nothing is changed. Of any number who do so at once, on whatever machines,
   * one has made it, and all who read it then read that. Throws `archive_unavailable` where the storage cannot promise that.
   */
  create(key: ArchiveKey, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean>;
  has(key: ArchiveKey, signal?: AbortSignal): Promise<boolean>;
  /** Of the archives of a sandbox, in no order. */
  indexes(space: ProjectId, sandboxId: SandboxId, signal?: AbortSignal): Promise<readonly Digest[]>;
}
