/** E2B's service of files, by the use-cases of files. */
import { posix } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { MAX_LIST_DEPTH } from '@space/contract';
import { type EntryInfo, type Filesystem, WatchDirResponseSchema } from '../../gen/filesystem_pb.ts';
import { callOf, type EnvdCall, withDeadline } from './call.ts';
import { entryAt, entryOf, isAbsence, statusAt, textOf } from './entry.ts';
import { KEEPALIVE, keepaliveMsOf, withKeepalive } from './keepalive.ts';
import { ensureDirectory } from './ownership.ts';
import { absolutePath, notThere } from './paths.ts';
import type { Users } from './users.ts';
import { toldChanges } from './watch-events.ts';
import type { Watchers } from './watchers.ts';

/** An answer is one message, so it is bounded; a command lists more. */
const MAX_ENTRIES = 20_000;
const ENTRIES_AT_ONCE = 16;

export function filesystemService({
  users,
  watchers,
}: {
  readonly users: Users;
  readonly watchers: Watchers;
}): ServiceImpl<typeof Filesystem> {
  return {
    async stat({ path }, context) {
      const call = withDeadline(callOf(context), context);
      return { entry: await entryAt(call, await absolutePath(call, path, users), users) };
    },

    async makeDir({ path }, context) {
      const call = withDeadline(callOf(context), context);
      const owner = await users.find(call);
      const at = await absolutePath(call, path, users);
      const there = await statusAt(call, at, true).catch((thrown) => undefinedIfAbsent(thrown));
      if (there?.type === 'directory') throw new ConnectError(`directory '${at}' already exists`, Code.AlreadyExists);
      if (there !== undefined) throw new ConnectError(`path '${at}' is not a directory`, Code.InvalidArgument);
      await ensureDirectory(call, at, owner);
      return { entry: await entryAt(call, at, users) };
    },

    async move({ source, destination }, context) {
      const call = withDeadline(callOf(context), context);
      const owner = await users.find(call);
      const [from, to] = [await absolutePath(call, source, users), await absolutePath(call, destination, users)];
      await statusAt(call, from);
      await ensureDirectory(call, posix.dirname(to), owner);
      await call.useCases.moveFile(call.caller, { id: call.sandboxId, from, to, user: 'root' });
      return { entry: await entryAt(call, to, users) };
    },

    async listDir({ path, depth }, context) {
      const call = withDeadline(callOf(context), context);
      const directory = await absolutePath(call, path, users);
      return { entries: await entriesIn(call, { directory, depth: depth || 1 }, users) };
    },

    async remove({ path }, context) {
      const call = withDeadline(callOf(context), context);
      const at = await absolutePath(call, path, users);
      const removed = { id: call.sandboxId, path: at, user: 'root', recursive: true };
      await call.useCases.removeFile(call.caller, removed).catch((thrown) => undefinedIfAbsent(thrown));
      return {};
    },

    async *watchDir(request, context) {
      const call = withDeadline(callOf(context), context);
      const { path, recursive, includeEntry } = request;
      const directory = await absolutePath(call, path, users);
      const changes = toldChanges(call, { directory, recursive, includeEntry, users });
      const everyMs = keepaliveMsOf(context.requestHeader.get('keepalive-ping-interval'));
      for await (const change of withKeepalive(changes, everyMs)) {
        yield create(WatchDirResponseSchema, {
          event:
            change === KEEPALIVE
              ? { case: 'keepalive', value: {} }
              : change === 'ready'
                ? { case: 'start', value: {} }
                : { case: 'filesystem', value: change },
        });
      }
      call.caller.signal.throwIfAborted();
    },

    async createWatcher(request, context) {
      const call = withDeadline(callOf(context), context);
      const directory = await absolutePath(call, request.path, users);
      const { recursive, includeEntry } = request;
      return { watcherId: await watchers.create(call, { directory, recursive, includeEntry, users }) };
    },
    getWatcherEvents: ({ watcherId }, context) => ({ events: watchers.drain(callOf(context), watcherId) }),
    removeWatcher({ watcherId }, context) {
      watchers.remove(callOf(context), watcherId);
      return {};
    },
  };
}

interface Listing {
  readonly directory: string;
  readonly depth: number;
}

async function entriesIn(call: EnvdCall, { directory, depth }: Listing, users: Users): Promise<EntryInfo[]> {
  if (depth > MAX_LIST_DEPTH) throw new ConnectError(`depth is at most ${MAX_LIST_DEPTH}`, Code.InvalidArgument);
  const status = await statusAt(call, directory, true);
  if (status.type !== 'directory')
    throw new ConnectError(`path is not a directory: ${directory}`, Code.InvalidArgument);
  const names = await users.names(call);
  const input = { id: call.sandboxId, path: directory, user: 'root', depth };
  const entries: Promise<EntryInfo>[] = [];
  try {
    for await (const listed of call.useCases.listFiles(call.caller, input)) {
      if (entries.length >= MAX_ENTRIES) {
        throw new ConnectError(`there are more than ${MAX_ENTRIES} entries`, Code.ResourceExhausted);
      }
      // Each is asked about by itself, so no more than so many are under way.
      await entries.at(-ENTRIES_AT_ONCE);
      const entry = entryOf(call, { path: posix.join(directory, textOf(listed.path)), status: listed, names });
      entry.catch(() => undefined);
      entries.push(entry);
    }
  } catch (thrown) {
    throw isAbsence(thrown) ? notThere(directory) : thrown;
  }
  return Promise.all(entries);
}

function undefinedIfAbsent(thrown: unknown): undefined {
  if (isAbsence(thrown) || (thrown instanceof ConnectError && thrown.code === Code.NotFound)) return undefined;
  throw thrown;
}
