/**
 * Input for a command, from a pipe or a keyboard: sent in pieces, each with its position, so that one whose answer was lost
 * can be sent again without being taken twice.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type InputOptions, SpaceError, type SpaceErrorCode } from '@space/sdk';

export type SendInput = (bytes: Uint8Array, options: InputOptions) => Promise<number>;

/** What says nothing about the input. */
const INTERRUPTIONS: ReadonlySet<SpaceErrorCode> = new Set([
  'link_lost',
  'unavailable',
  'unreachable',
  'operation_in_progress',
]);
/** The command has ended, or has closed its input: as in a shell, it need not read all. */
const UNREAD: ReadonlySet<SpaceErrorCode> = new Set(['input_closed', 'not_found']);

const PATIENCE_MS = 60_000;
const PAUSE_MS = 250;

/** Types the end of a file on a terminal; to close its input would hang it up. */
const END_OF_FILE = Uint8Array.of(4);

/** Ends when the source has ended, the command takes no more, or the signal aborts. */
export async function pumpInput(
  source: AsyncIterable<Uint8Array>,
  send: SendInput,
  { isPty, signal }: { readonly isPty: boolean; readonly signal: AbortSignal },
): Promise<void> {
  let offset = 0;
  try {
    for await (const bytes of source) {
      offset = await sendPiece(bytes, { offset, signal }, send);
    }
    await sendPiece(isPty ? END_OF_FILE : new Uint8Array(), { offset, eof: !isPty, signal }, send);
  } catch (error) {
    const isUnread = error instanceof SpaceError && UNREAD.has(error.code);
    if (!isUnread && !signal.aborted) throw error;
  }
}

async function sendPiece(
  bytes: Uint8Array,
  options: InputOptions & { readonly signal: AbortSignal },
  send: SendInput,
): Promise<number> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await send(bytes, options);
    } catch (error) {
      const isPassing = error instanceof SpaceError && INTERRUPTIONS.has(error.code);
      if (!isPassing || Date.now() > deadline) throw error;
      await sleep(PAUSE_MS, undefined, { signal: options.signal });
    }
  }
}

const [ENTER, NEWLINE, TILDE, DOT] = [0x0d, 0x0a, 0x7e, 0x2e];

/**
 * The way out of a terminal session whatever the other side does: Enter, `~`, `.` as in ssh. The tilde waits for what
 * comes after it; twice, it is one.
 */
export class Escape {
  #state: 'line start' | 'tilde' | 'in line' = 'line start';

  /** What goes on to the command, and whether to leave. */
  read(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly leave: boolean } {
    const passed: number[] = [];
    for (const byte of bytes) {
      if (this.#state === 'tilde') {
        if (byte === DOT) return { bytes: Uint8Array.from(passed), leave: true };
        passed.push(TILDE);
        this.#state = 'in line';
        if (byte === TILDE) continue;
      } else if (this.#state === 'line start' && byte === TILDE) {
        this.#state = 'tilde';
        continue;
      }
      passed.push(byte);
      this.#state = byte === ENTER || byte === NEWLINE ? 'line start' : 'in line';
    }
    return { bytes: Uint8Array.from(passed), leave: false };
  }
}
