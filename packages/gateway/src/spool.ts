/**
 * Records that nobody has taken yet, in a file, so that they outlive the gateway's process: written with the turn of the event
 * loop in which they were made, and not synced, since no request waits for a disk to be recorded. After a loss of power some may
 * be missing, so another boot of the machine begins a new stream, which whoever takes them writes down.
 *
 * The first line says which stream this is, and up to which number it was taken; then a line for each record.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { EgressRecord, OrganisationId } from '@space/core';

const FORMAT = 1;
/** Beyond it, the file is written anew with what is not taken; right away when all is. */
const MAX_BYTES = 32 * 1024 * 1024;
const MIN_BYTES = 256 * 1024;
/** More than any process records: numbers that one gave and lost are not given again. */
const GAP = 10 ** 9;

export interface Spooled {
  readonly number: number;
  readonly organisationId: OrganisationId | null;
  readonly record: EgressRecord;
}

interface Head {
  readonly format: number;
  readonly stream: string;
  readonly boot: string;
  readonly taken: number;
}

export interface Spool {
  readonly stream: string;
  /** The one that this one goes on from, with the same numbers. */
  readonly earlier: string | null;
  readonly taken: number;
  /** Of the next record, at least. */
  readonly next: number;
  /** What an earlier process left, in its order. */
  readonly left: readonly Spooled[];
  add(one: Spooled): void;
  /** What lies up to `taken` is needed no more; `kept` gives the rest. */
  shrink(taken: number, kept: () => readonly Spooled[]): void;
  /** Before the process ends by itself. Nothing is written after it, and the file is not held open. */
  close(): void;
}

export class FileSpool implements Spool {
  readonly stream: string;
  readonly earlier: string | null;
  readonly taken: number;
  readonly next: number;
  readonly left: readonly Spooled[];
  readonly #path: string;
  readonly #boot: string;
  /** Null: it cannot be written now; records are kept in memory alone. */
  #file: number | null = null;
  #bytes = 0;
  #lines: string[] = [];
  #isFailing = false;
  #isClosed = false;

  /** `boot`: of the machine, for tests. */
  constructor(path: string, boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()) {
    this.#path = path;
    this.#boot = boot;
    const found = read(path);
    this.earlier = found?.head.stream ?? null;
    this.stream = found?.head.boot === boot ? found.head.stream : randomBytes(16).toString('hex');
    this.taken = found?.head.taken ?? 0;
    this.left = found?.spooled ?? [];
    this.next = (this.left.at(-1)?.number ?? this.taken) + (found === null ? 1 : GAP);
    this.#renew(this.taken, this.left);
  }

  add(one: Spooled): void {
    if (this.#lines.push(lineOf(one)) === 1) setImmediate(() => this.#flush());
  }

  shrink(taken: number, kept: () => readonly Spooled[]): void {
    if (this.#isClosed || (this.#file !== null && this.#bytes < MIN_BYTES)) return;
    const rest = kept();
    if (this.#file === null || rest.length === 0 || this.#bytes > MAX_BYTES) this.#renew(taken, rest);
  }

  close(): void {
    this.#flush();
    this.#isClosed = true;
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #flush(): void {
    const text = this.#lines.join('');
    this.#lines = [];
    if (this.#file === null || text === '') return;
    try {
      this.#bytes += writeWhole(this.#file, Buffer.from(text));
    } catch (thrown) {
      this.#giveUp(thrown);
    }
  }

  /** With what is kept now, in place of what was. */
  #renew(taken: number, kept: readonly Spooled[]): void {
    this.#lines = [];
    const head: Head = { format: FORMAT, stream: this.stream, boot: this.#boot, taken };
    const text = `${JSON.stringify(head)}\n${kept.map(lineOf).join('')}`;
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      writeFileSync(`${this.#path}.new`, text, { mode: 0o600 });
      renameSync(`${this.#path}.new`, this.#path);
      if (this.#file !== null) closeSync(this.#file);
      this.#file = openSync(this.#path, 'a');
      this.#bytes = Buffer.byteLength(text);
      this.#isFailing = false;
    } catch (thrown) {
      this.#giveUp(thrown);
    }
  }

  #giveUp(thrown: unknown): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
    if (this.#isFailing) return;
    this.#isFailing = true;
    process.emitWarning(`Records that are not taken yet are kept in memory alone: ${String(thrown)}`);
  }
}

/** Null: there is none, or none that can be understood. It ends where a line is not whole: the process died in it. */
function read(path: string): { readonly head: Head; readonly spooled: readonly Spooled[] } | null {
  try {
    const lines = readFileSync(path, 'utf8').split('\n');
    lines.pop();
    const head = JSON.parse(lines.shift() ?? '') as Head;
    if (head.format !== FORMAT) return null;
    const spooled: Spooled[] = [];
    for (const line of lines) {
      const one = spooledFrom(line);
      if (one === null) break;
      spooled.push(one);
    }
    return { head, spooled };
  } catch {
    return null;
  }
}

function spooledFrom(line: string): Spooled | null {
  try {
    return JSON.parse(line) as Spooled;
  } catch {
    return null;
  }
}

function lineOf(one: Spooled): string {
  return `${JSON.stringify(one)}\n`;
}

function writeWhole(file: number, bytes: Buffer): number {
  for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written);
  return bytes.length;
}
