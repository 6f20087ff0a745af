/** Those who watch directories of a fake guest. */
import { AppError, type GuestBytes, guestBytes, type WatchEvent } from '@space/core';

interface Watch {
  readonly directory: string;
  readonly recursive: boolean;
  readonly waiting: WatchEvent[];
  failure: unknown;
  wake(): void;
}

export class FakeWatches {
  readonly #watches = new Set<Watch>();

  async *watch(open: () => string, recursive: boolean, signal?: AbortSignal): AsyncGenerator<WatchEvent> {
    const watch: Watch = {
      directory: open(),
      recursive,
      waiting: [{ kind: 'ready' }],
      failure: undefined,
      wake: () => undefined,
    };
    const onAbort = () => fail(watch, signal?.reason);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    this.#watches.add(watch);
    try {
      for (;;) {
        const event = watch.waiting.shift();
        if (event !== undefined) yield event;
        else if (watch.failure !== undefined) throw watch.failure;
        else
          await new Promise<void>((resolve) => {
            watch.wake = resolve;
          });
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#watches.delete(watch);
    }
  }

  /** Paths are as inside of the fake: one character per byte. */
  tell(kind: 'created' | 'modified' | 'removed' | 'attributes', path: string, directory: boolean): void {
    for (const watch of this.#watches) {
      const at = relative(watch, path);
      if (at !== undefined && at !== '') add(watch, { kind, path: outer(at), directory });
      if (at === '' && kind === 'removed') fail(watch, new AppError('file_not_found', 'The directory is gone.'));
    }
  }

  moved(from: string, to: string, directory: boolean): void {
    for (const watch of this.#watches) {
      const [source, target] = [relative(watch, from), relative(watch, to)];
      if (source === '') fail(watch, new AppError('file_not_found', 'The directory is gone.'));
      else if (source !== undefined && target !== undefined) {
        add(watch, { kind: 'moved', from: outer(source), to: outer(target), directory });
      } else if (source !== undefined) add(watch, { kind: 'removed', path: outer(source), directory });
      else if (target !== undefined) add(watch, { kind: 'created', path: outer(target), directory });
    }
  }

  lose(reason: AppError): void {
    for (const watch of this.#watches) fail(watch, reason);
  }
}

function relative({ directory, recursive }: Watch, path: string): string | undefined {
  if (path === directory) return '';
  const prefix = directory === '/' ? '/' : `${directory}/`;
  if (!path.startsWith(prefix)) return undefined;
  const rest = path.slice(prefix.length);
  return recursive || !rest.includes('/') ? rest : undefined;
}

function add(watch: Watch, event: WatchEvent): void {
  watch.waiting.push(event);
  watch.wake();
}

function fail(watch: Watch, reason: unknown): void {
  watch.failure ??= reason;
  watch.wake();
}

function outer(text: string): GuestBytes {
  return guestBytes(Uint8Array.from(Buffer.from(text, 'latin1')));
}
