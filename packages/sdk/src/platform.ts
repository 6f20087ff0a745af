/** Calls that concern no single sandbox: named snapshots, templates, capabilities. */
import type { Capabilities, Snapshot, SnapshotList, TemplateList } from '@space/contract';
import { itemsOf, pagesOf } from './pages.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport } from './transport.ts';

export type { Capabilities };
export type Template = TemplateList['templates'][number];

export interface SnapshotChanges {
  readonly name?: string | null;
  readonly note?: string | null;
  readonly pinned?: boolean;
}

type Options = ConnectionOptions & CallOptions;

/** All named snapshots, newest first. */
export async function listSnapshots(options: Options = {}): Promise<Snapshot[]> {
  return snapshotsOf(new Transport(options), '/v1/snapshots', signalOf(options));
}

/** Throws `not_found`. */
export async function getSnapshot(idOrName: string, options: Options = {}): Promise<Snapshot> {
  const path = `/v1/snapshots/${encodeURIComponent(idOrName)}`;
  return new Transport(options).json({ method: 'GET', path, signal: signalOf(options) });
}

/** What is left out stays; null takes a name or a note away. A named or pinned one stays whatever the retention says. */
export async function updateSnapshot(
  idOrName: string,
  { name, note, pinned, ...options }: Options & SnapshotChanges,
): Promise<Snapshot> {
  const path = `/v1/snapshots/${encodeURIComponent(idOrName)}`;
  const json = { name, note, pinned };
  return new Transport(options).json({ method: 'PATCH', path, json, signal: signalOf(options) });
}

/** What was started from it is not affected. Errors: `not_found`, `snapshot_in_use`. */
export async function deleteSnapshot(idOrName: string, options: Options = {}): Promise<void> {
  const path = `/v1/snapshots/${encodeURIComponent(idOrName)}`;
  await new Transport(options).done({ method: 'DELETE', path, signal: signalOf(options) });
}

/** The templates that sandboxes can be created from, with the state of their ready snapshots. */
export async function listTemplates(options: Options = {}): Promise<Template[]> {
  const call = { method: 'GET', path: '/v1/templates', signal: signalOf(options) } as const;
  return (await new Transport(options).json<TemplateList>(call)).templates;
}

/** What the installation can do, and its limits. */
export async function getCapabilities(options: Options = {}): Promise<Capabilities> {
  return new Transport(options).json({ method: 'GET', path: '/v1/capabilities', signal: signalOf(options) });
}

/** All snapshots of a list. */
async function snapshotsOf(transport: Transport, path: string, signal: AbortSignal | undefined): Promise<Snapshot[]> {
  const pages = pagesOf<SnapshotList>(transport, path, {}, signal);
  return itemsOf(pages, ({ snapshots }) => snapshots);
}
