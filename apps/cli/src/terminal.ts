/**
 * The person's terminal while it belongs to a program in a sandbox. Whatever happens, it comes back as it was: cooked, and
 * without the modes (alternate screen, hidden cursor, mouse) that the program switched on and did not switch off.
 */
import type { TerminalSize } from '@space/sdk';
import type { Io, TerminalOut } from './context.ts';

export class RawTerminal implements Disposable {
  readonly #io: Io;
  readonly #modes = new PrivateModes();
  readonly #restore = () => this.leave();
  #isRaw = false;

  constructor(io: Io) {
    this.#io = io;
    process.on('exit', this.#restore);
    this.enter();
  }

  enter(): void {
    this.#isRaw = true;
    this.#io.stdin.setRawMode?.(true);
  }

  leave(): void {
    if (!this.#isRaw) return;
    this.#isRaw = false;
    this.#io.stdin.setRawMode?.(false);
    const undo = this.#modes.undo();
    if (undo !== '') this.#io.stdout.write(undo);
  }

  /** Gives the terminal to the shell that started us, until it continues us. */
  suspend(): void {
    this.leave();
    this.#io.suspend();
  }

  /** What the program prints. */
  watch(bytes: Uint8Array): void {
    this.#modes.read(bytes);
  }

  [Symbol.dispose](): void {
    this.leave();
    process.off('exit', this.#restore);
  }
}

/** The longest side that the platform takes. */
const LONGEST = 1000;

export function terminalSize({ columns, rows }: TerminalOut): TerminalSize {
  return { cols: withinTerminal(columns, 80), rows: withinTerminal(rows, 24) };
}

function withinTerminal(length: number | undefined, fallback: number): number {
  return length === undefined || length < 1 ? fallback : Math.min(length, LONGEST);
}

/** What is off in a terminal that nobody has touched, and of these only what hurts when it stays on. */
const OFF_BY_DEFAULT: ReadonlySet<number> = new Set([
  1, 9, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004,
]);
/** On by default: the cursor, the wrapping of lines. */
const ON_BY_DEFAULT: ReadonlySet<number> = new Set([7, 25]);

/** No sequence that we look for is longer. */
const TAIL = 32;

/** Follows `CSI ? … h` and `CSI ? … l` in a stream. */
export class PrivateModes {
  readonly #changed = new Set<number>();
  #isColoured = false;
  #tail = '';

  read(bytes: Uint8Array): void {
    const text = this.#tail + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
    let end = 0;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what terminals are told with.
    for (const match of text.matchAll(/\x1b\[(\?[0-9;]+[hl]|[0-9;]*m)/g)) {
      end = match.index + match[0].length;
      this.#sequence(match[1] ?? '');
    }
    this.#tail = text.slice(Math.max(end, text.length - TAIL));
  }

  #sequence(sequence: string): void {
    if (!sequence.startsWith('?')) {
      this.#isColoured = !/^0*m$/.test(sequence);
      return;
    }
    const isOn = sequence.endsWith('h');
    for (const mode of sequence.slice(1, -1).split(';').map(Number)) {
      const isChange = isOn ? OFF_BY_DEFAULT.has(mode) : ON_BY_DEFAULT.has(mode);
      if (isChange) this.#changed.add(mode);
      else this.#changed.delete(mode);
    }
  }

  /** What puts the terminal back; then it counts as put back. */
  undo(): string {
    const modes = [...this.#changed].map((mode) => `\x1b[?${mode}${ON_BY_DEFAULT.has(mode) ? 'h' : 'l'}`);
    const text = modes.join('') + (this.#isColoured ? '\x1b[0m' : '');
    this.#changed.clear();
    this.#isColoured = false;
    return text;
  }
}
