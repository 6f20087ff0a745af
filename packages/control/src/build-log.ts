/** What a build says: lines, bounded, written to the records a few at a time. */
import type { BuildId, Clock, ProcessEvent } from '@space/core';
import type { LogEntry, TemplateRecords } from './template-records.ts';

const MAX_ENTRIES = 5_000;
const MAX_LINE_LENGTH = 2_000;
const WRITE_AFTER = 50;
const WRITE_AFTER_MS = 250;

export class BuildLog {
  readonly #records: TemplateRecords;
  readonly #clock: Clock;
  readonly #id: BuildId;
  #waiting: LogEntry[] = [];
  #count = 0;
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(id: BuildId, { records, clock }: { readonly records: TemplateRecords; readonly clock: Clock }) {
    this.#id = id;
    this.#records = records;
    this.#clock = clock;
  }

  say(level: LogEntry['level'], message: string, step: string | null = null): void {
    this.#count++;
    if (this.#count > MAX_ENTRIES) return;
    const isLast = this.#count === MAX_ENTRIES;
    const text = isLast ? 'The log is full: what follows is not kept.' : shown(message);
    this.#waiting.push({ at: new Date(this.#clock.now()), level: isLast ? 'warn' : level, message: text, step });
    if (this.#waiting.length >= WRITE_AFTER) this.#write();
    else this.#timer ??= setTimeout(() => this.#write(), WRITE_AFTER_MS);
  }

  /** When all that was said is written. What the database does not take is not said again. */
  async flush(): Promise<void> {
    this.#write();
    await this.#writing;
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const entries = this.#waiting.splice(0);
    if (entries.length === 0) return;
    this.#writing = this.#writing.then(() => this.#records.appendLog(this.#id, entries)).catch(() => undefined);
  }
}

/** Without what a database does not take, or nobody could read. */
function shown(message: string): string {
  const text = message.replaceAll('\0', '\u{fffd}').toWellFormed();
  return text.length <= MAX_LINE_LENGTH ? text : `${text.slice(0, MAX_LINE_LENGTH).toWellFormed()}…`;
}

/** Output as lines; one that does not end is cut where it gets too long. */
export class Lines {
  readonly #tell: (stream: 'stdout' | 'stderr', line: string) => void;
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  readonly #rest = { stdout: '', stderr: '' };
  /** The last that was printed to each, for whoever has to say what went wrong. */
  last = '';

  constructor(tell: (stream: 'stdout' | 'stderr', line: string) => void) {
    this.#tell = tell;
  }

  add({ stream, data }: Extract<ProcessEvent, { readonly kind: 'output' }>): void {
    const lines = (this.#rest[stream] + this.#decoders[stream].decode(data, { stream: true })).split(/\r?\n/);
    this.#rest[stream] = lines.pop() ?? '';
    for (const line of lines) this.#line(stream, line);
    if (this.#rest[stream].length > MAX_LINE_LENGTH) this.#end(stream);
  }

  end(): void {
    this.#end('stdout');
    this.#end('stderr');
  }

  #end(stream: 'stdout' | 'stderr'): void {
    if (this.#rest[stream] !== '') this.#line(stream, this.#rest[stream]);
    this.#rest[stream] = '';
  }

  #line(stream: 'stdout' | 'stderr', line: string): void {
    if (line.trim() !== '') this.last = line.slice(0, MAX_LINE_LENGTH);
    this.#tell(stream, line);
  }
}
