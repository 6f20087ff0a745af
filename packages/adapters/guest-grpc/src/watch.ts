/** Telling of changes: a stream that is silent until something happens, and that never ends well. */
import { AppError, type WatchEvent, type WatchedDirectory } from '@space/core';
import { Files, WatchEvent_Kind, type WatchEvent as WireEvent } from '@space/guest-proto';
import { Call } from './call.ts';
import type { Channel } from './channel.ts';
import { brokenContract } from './errors.ts';
import type { Limits } from './limits.ts';
import { pathBytes, relativePathOf } from './wire.ts';

export async function* watch(
  { channel, limits }: { readonly channel: Channel; readonly limits: Limits },
  directory: WatchedDirectory,
  signal?: AbortSignal,
): AsyncGenerator<WatchEvent, void, undefined> {
  const { path, user = '', recursive = false } = directory;
  const call = new Call(channel, signal);
  try {
    const request = { path: pathBytes(path), user, recursive };
    // Only the first reply is owed; the next ones come with changes.
    call.expectWithin(limits.replyMs);
    let ready = false;
    for await (const { events } of channel.serverStream(Files.method.watch, request, call.signal)) {
      call.rest();
      if (!ready) yield { kind: 'ready' };
      ready = true;
      for (const event of events) yield eventOf(event);
    }
    throw new AppError('link_lost', 'The watch ended.');
  } catch (thrown) {
    throw await call.failure('file', thrown);
  } finally {
    call.end();
  }
}

function eventOf({ kind, path, from, directory }: WireEvent): WatchEvent {
  const at = relativePathOf(path);
  switch (kind) {
    case WatchEvent_Kind.CREATED:
      return { kind: 'created', path: at, directory };
    case WatchEvent_Kind.MODIFIED:
      return { kind: 'modified', path: at, directory };
    case WatchEvent_Kind.REMOVED:
      return { kind: 'removed', path: at, directory };
    case WatchEvent_Kind.ATTRIBUTES:
      return { kind: 'attributes', path: at, directory };
    case WatchEvent_Kind.MOVED:
      return { kind: 'moved', from: relativePathOf(from), to: at, directory };
    case WatchEvent_Kind.OVERFLOW:
      return { kind: 'overflow' };
    default:
      throw brokenContract('an event of a watch is unknown');
  }
}
