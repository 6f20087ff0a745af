/** Changes below a directory of a sandbox. */
import type { WatchWireEvent } from '@space/contract';
import { readEvents } from './lines.ts';
import { type FilePath, toldPath } from './paths.ts';
import type { Transport } from './transport.ts';

export type WatchEvent =
  | { readonly type: 'ready' }
  /** `path` is relative to the watched directory, which is itself the empty path. */
  | {
      readonly type: 'created' | 'modified' | 'removed' | 'attributes';
      readonly path: FilePath;
      readonly directory: boolean;
    }
  | { readonly type: 'moved'; readonly from: FilePath; readonly to: FilePath; readonly directory: boolean }
  /** Changes were lost, or directories are not watched, since there are too many: look for yourself. */
  | { readonly type: 'overflow' };

export async function* watchEvents(
  transport: Transport,
  call: Parameters<Transport['send']>[0],
): AsyncGenerator<WatchEvent> {
  const response = await transport.send(call);
  for await (const event of readEvents<WatchWireEvent>(response, 'error', call.signal)) yield eventOf(event);
}

function eventOf(event: Exclude<WatchWireEvent, { readonly type: 'error' }>): WatchEvent {
  if (event.type === 'ready' || event.type === 'overflow') return { type: event.type };
  const { type, directory } = event;
  if (type === 'moved') return { type, to: toldPath('to', event), from: toldPath('from', event), directory };
  return { type, path: toldPath('path', event), directory };
}
