/** What happens below a directory, as E2B's SDKs are told of it. */
import { posix } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { GuestBytes, WatchEvent } from '@space/core';
import { EventType, type FilesystemEvent, FilesystemEventSchema } from '../../gen/filesystem_pb.ts';
import type { EnvdCall } from './call.ts';
import { entryAt, isAbsence, statusAt, textOf } from './entry.ts';
import { notThere } from './paths.ts';
import type { Users } from './users.ts';

export interface Watched {
  /** Absolute. */
  readonly directory: string;
  readonly recursive: boolean;
  /** Whether what is there now comes with each change. */
  readonly includeEntry: boolean;
  readonly users: Users;
}

/** `ready` first. Whether the file system lies elsewhere need not be asked: a sandbox has no network to mount one by. */
export async function* toldChanges(call: EnvdCall, watched: Watched): AsyncGenerator<'ready' | FilesystemEvent> {
  const { directory, recursive } = watched;
  const status = await statusAt(call, directory, true);
  if (status.type !== 'directory')
    throw new ConnectError(`path is not a directory: ${directory}`, Code.InvalidArgument);
  const input = { id: call.sandboxId, path: directory, user: 'root', recursive };
  try {
    for await (const event of call.useCases.watchFiles(call.caller, input)) {
      if (event.kind === 'ready') yield 'ready';
      else for (const { type, path } of changesOf(event)) yield await told(call, watched, { type, path });
    }
  } catch (thrown) {
    throw isAbsence(thrown) ? notThere(directory) : thrown;
  }
}

interface Change {
  readonly type: EventType;
  readonly path: GuestBytes;
}

function changesOf(event: Exclude<WatchEvent, { kind: 'ready' }>): readonly Change[] {
  switch (event.kind) {
    case 'created':
      return [{ type: EventType.CREATE, path: event.path }];
    case 'modified':
      return [{ type: EventType.WRITE, path: event.path }];
    case 'removed':
      return [{ type: EventType.REMOVE, path: event.path }];
    case 'attributes':
      return [{ type: EventType.CHMOD, path: event.path }];
    case 'moved':
      // The old name is renamed, and the new one comes up.
      return [
        { type: EventType.RENAME, path: event.from },
        { type: EventType.CREATE, path: event.to },
      ];
    case 'overflow':
      throw new ConnectError('too much happened at once; changes were lost', Code.DataLoss);
  }
}

const THERE: ReadonlySet<EventType> = new Set([EventType.CREATE, EventType.WRITE, EventType.CHMOD]);

async function told(call: EnvdCall, watched: Watched, { type, path }: Change): Promise<FilesystemEvent> {
  const name = textOf(path);
  const at = posix.join(watched.directory, name);
  const isAsked = watched.includeEntry && THERE.has(type);
  // It may be gone by now.
  const entry = isAsked ? await entryAt(call, at, watched.users).catch(undefinedIfGone) : undefined;
  return create(FilesystemEventSchema, { name, type, ...(entry && { entry }) });
}

function undefinedIfGone(thrown: unknown): undefined {
  if (thrown instanceof ConnectError && thrown.code === Code.NotFound) return undefined;
  throw thrown;
}
