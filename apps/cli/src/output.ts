/** What a verb says: for people as lines and tables, under `--json` as one document (or one per line for streams). */
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { styleText } from 'node:util';
import { inert, inertJson } from './inert.ts';

export class Output {
  readonly json: boolean;
  readonly #stdout: Writable & { readonly isTTY?: boolean };
  readonly #stderr: Writable & { readonly isTTY?: boolean };

  constructor(stdout: Writable, stderr: Writable, json: boolean) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.json = json;
  }

  /** The result: `value` for programs, or what `text` makes of it for people. */
  result(value: unknown, text: () => string | readonly string[]): void {
    if (this.json) this.line(inertJson(value, 2));
    else for (const line of [text()].flat()) this.line(line);
  }

  /** One value of a stream. */
  item(value: unknown, text: () => string): void {
    this.line(this.json ? inertJson(value) : text());
  }

  /** A table with inert cells; the last column is not padded. */
  table(value: unknown, head: readonly string[], rows: readonly (readonly string[])[]): void {
    this.result(value, () => tableLines(head, rows, (text) => this.dim(text)));
  }

  /** Something on the way, for a person who waits; nothing to a program. */
  note(text: string): void {
    if (!this.json && this.#stderr.isTTY) this.#stderr.write(`${this.dim(inert(text))}\n`);
  }

  /** To a person and a log alike, beside the result. */
  warn(text: string): void {
    this.#stderr.write(`space: ${inert(text)}\n`);
  }

  line(text: string): void {
    this.#stdout.write(`${text}\n`);
  }

  dim(text: string): string {
    return this.#stdout.isTTY ? styleText('dim', text, { stream: this.#stdout as NodeJS.WritableStream }) : text;
  }
}

export function tableLines(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  dim: (text: string) => string = (text) => text,
): string[] {
  const cells = [head, ...rows.map((row) => row.map(inert))];
  const widths = head.map((_, column) => Math.max(...cells.map((row) => [...(row[column] ?? '')].length)));
  const lineOf = (row: readonly string[]) =>
    row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join('  ');
  return cells.map((row, index) => (index === 0 ? dim(lineOf(row)) : lineOf(row)));
}

/** Writes and waits until it can take more. Rejects when the reader is gone. */
export async function writeAll(stream: Writable, bytes: Uint8Array): Promise<void> {
  if (stream.errored) throw stream.errored;
  if (!stream.write(bytes)) await once(stream, 'drain');
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytesText(count: number): string {
  const power = count < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}

export function ageText(timestamp: string, now: number = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(timestamp)) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}
