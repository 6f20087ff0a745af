/**
 * The archive port: a place outside of every vault, where exported points lie. Adapters: a folder, storage that speaks S3,
 * and the fake of testkit.
 *
 *     <space>/chunks/<2 digits>/<digest>        a piece of content, compressed, named by the digest of what it holds
 *     <space>/indexes/<sandboxId>/<digest>      what an archive consists of, named by the digest of its own bytes
 *     <space>/claims/<sandboxId>/<digest>       who has taken up the move that this archive is; made once, for ever
 *     <space>/marks/<name>                      who uses the space now, so that nothing is collected meanwhile
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
  | ({ readonly kind: 'index' | 'claim' } & ArchiveRef)
  | { readonly kind: 'mark'; readonly space: ProjectId; readonly name: string };

/** Where an object lies, in names that stand in no need of escaping anywhere. */
export function archivePath(key: ArchiveKey): string {
  if (key.kind === 'index') return `${indexFolder(key.space, key.sandboxId)}/${key.digest}`;
  if (key.kind === 'mark') return `${key.space}/marks/${key.name}`;
  if (key.kind === 'claim') return `${key.space}/claims/${key.sandboxId}/${key.digest}`;
  return `${key.space}/chunks/${key.digest.slice(0, 2)}/${key.digest}`;
}

/** What is listed. */
export const LISTED_FOLDERS = ['chunks', 'indexes', 'marks'] as const;
export type ListedFolder = (typeof LISTED_FOLDERS)[number];

const MARK = /^[a-z0-9-]{1,64}$/;

/** Of a path below a folder of a space; undefined: it is none of ours. */
export function parseArchiveKey(space: ProjectId, folder: ListedFolder, path: string): ArchiveKey | undefined {
  const [first = '', second = '', ...rest] = path.split('/');
  if (folder === 'marks') return MARK.test(path) ? { kind: 'mark', space, name: path } : undefined;
  const digest = parseDigest(second);
  if (digest === undefined || rest.length > 0) return undefined;
  if (folder === 'chunks') return first === digest.slice(0, 2) ? { kind: 'chunk', space, digest } : undefined;
  const sandboxId = parseId('sandbox', first);
  return sandboxId === undefined ? undefined : { kind: 'index', space, sandboxId, digest };
}

/** The folder of all indexes of a sandbox. */
function indexFolder(space: ProjectId, sandboxId: SandboxId): string {
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
  /** Idempotent. */
  remove(key: ArchiveKey, signal?: AbortSignal): Promise<void>;
  /** All that lies in a folder of a space, in no order; what was put before is among it. What else lies there is passed over. */
  list(space: ProjectId, folder: ListedFolder, signal?: AbortSignal): AsyncIterable<ArchiveKey>;
}
