/** Archives of the project, which outlive their sandboxes. */
import type { ArchiveList, Exported, ExportWireEvent } from '@space/contract';
import { linkLost } from './errors.ts';
import { readEvents } from './lines.ts';
import { type Call, type CallOptions, type ConnectionOptions, signalOf, Transport } from './transport.ts';

export type ListedArchive = ArchiveList['archives'][number];

export interface ArchivePlaceOptions extends ConnectionOptions, CallOptions {
  /** A place for archives that the platform has; default `default`. */
  readonly location?: string;
}

/** Newest first, at most 1000; with `sandbox` those of one sandbox, which may be deleted by now. */
export async function listArchives({
  location,
  sandbox,
  ...options
}: ArchivePlaceOptions & { readonly sandbox?: string } = {}): Promise<ListedArchive[]> {
  const query = { location, sandbox };
  const call = { method: 'GET', path: '/v1/archives', query, signal: signalOf(options) } as const;
  return (await new Transport(options).json<ArchiveList>(call)).archives;
}

/**
 * It cannot be imported any more; what no other archive holds is removed from its storage after that. One that is gone is no error.
 * Errors: `not_found`; `wrong_state` when it holds a sandbox that was moved into it.
 */
export async function deleteArchive(
  archive: string,
  { location, ...options }: ArchivePlaceOptions = {},
): Promise<void> {
  const query = { archive, location };
  await new Transport(options).done({ method: 'DELETE', path: '/v1/archives', query, signal: signalOf(options) });
}

export interface ExportProgress {
  /** How many snapshots it is to hold, and how many it holds. */
  readonly points: number;
  readonly donePoints: number;
  /** Of all that there is to go through: 0 to 1. */
  readonly progress: number;
  readonly readBytes: number;
  readonly sentBytes: number;
}

/** An export as `call` asks for it, by its events. */
export async function followExport(
  transport: Transport,
  call: Call,
  onProgress: (progress: ExportProgress) => void,
): Promise<Exported> {
  const response = await transport.send({ ...call, path: `${call.path}/events` });
  for await (const event of readEvents<ExportWireEvent>(response, 'exported', call.signal)) {
    const { type, ...facts } = event;
    if (type === 'exported') return facts as Exported;
    onProgress(facts as ExportProgress);
  }
  throw linkLost('The stream ended before its last event.');
}
