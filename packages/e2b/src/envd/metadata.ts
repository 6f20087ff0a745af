/** What a client has noted about a file: headers of an upload, kept as extended attributes. */
import type { IncomingHttpHeaders } from 'node:http';
import { MAX_XATTR_NAME_LENGTH } from '@space/contract';
import { AppError } from '@space/core';
import type { EnvdCall } from './call.ts';
import { HttpError } from './errors.ts';

export type Metadata = Readonly<Record<string, string>>;

const PREFIX = 'user.e2b.';
const HEADER = 'x-metadata-';
/** What is left of the longest name that Linux has. */
const MAX_KEY_BYTES = MAX_XATTR_NAME_LENGTH - PREFIX.length;
const MAX_TOTAL_BYTES = 4096;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Throws 400 for what cannot be kept. */
export function metadataIn(headers: IncomingHttpHeaders): Metadata {
  const noted = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith(HEADER) ? [[name.slice(HEADER.length).toLowerCase(), String(value)] as const] : [],
  );
  for (const [key, value] of noted) {
    if (key === '' || !PRINTABLE.test(key) || !PRINTABLE.test(value)) {
      throw new HttpError(400, `metadata '${key.slice(0, 64)}' must be printable ASCII`);
    }
    if (key.length > MAX_KEY_BYTES) throw new HttpError(400, `a key of metadata has at most ${MAX_KEY_BYTES} bytes`);
  }
  const totalBytes = noted.reduce((sum, [key, value]) => sum + key.length + value.length, 0);
  if (totalBytes > MAX_TOTAL_BYTES) throw new HttpError(400, `metadata has at most ${MAX_TOTAL_BYTES} bytes`);
  return Object.fromEntries(noted);
}

/** A file that cannot have any, or is gone by now, has none. */
export async function metadataOf({ useCases, caller, sandboxId }: EnvdCall, path: string): Promise<Metadata> {
  const file = { id: sandboxId, path, user: 'root', follow: true };
  try {
    const names = (await useCases.listXattrs(caller, file)).filter(isNoted);
    const values = await Promise.all(names.map((name) => useCases.getXattr(caller, { ...file, name })));
    const entries = names.map((name, at) => [
      name.slice(PREFIX.length),
      Buffer.from(values[at] ?? []).toString('utf8'),
    ]);
    return Object.fromEntries(entries);
  } catch (thrown) {
    if (thrown instanceof AppError && /^(file_|attribute_)/.test(thrown.code)) return {};
    throw thrown;
  }
}

/** Of a file that was just written, and so has none. */
export async function keepMetadata(call: EnvdCall, path: string, metadata: Metadata): Promise<void> {
  const { useCases, caller, sandboxId: id } = call;
  for (const [key, value] of Object.entries(metadata)) {
    await useCases.setXattr(caller, { id, path, user: 'root', name: PREFIX + key, value: Buffer.from(value) });
  }
}

function isNoted(name: unknown): name is string {
  return typeof name === 'string' && name.startsWith(PREFIX);
}
