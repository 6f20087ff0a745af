/**
 * Checks an export of the audit with nothing but the export: each digest is made again from what its line says and the digest before.
 *
 *     digest = SHA-256(digest before, as bytes + number + "\\n" + at + "\\n" + entry as JSON)
 *
 * That shows that nothing in it was changed, taken out or slipped in. Whoever owns the database can write a whole new end of a chain; that
 * only a *head* shows, a number and digest of the chain as it was at some time, kept where that owner has no hand.
 */
import { SpaceError } from './errors.ts';

export type AuditChain = 'calls' | 'egress';

/** What a chain came to at some time. */
export interface AuditHead {
  readonly organisation: string;
  readonly chain: AuditChain;
  readonly number: number;
  /** In hex. */
  readonly digest: string;
}

export interface CheckedAuditChain {
  readonly organisation: string;
  readonly chain: AuditChain;
  /** The first link of the export; one more than `last`: there is none. */
  readonly first: number;
  /** The last that is as it was linked, and its digest. */
  readonly last: number;
  readonly digest: string;
  /** The first link that is not as it was; null: all are. */
  readonly brokenAt: number | null;
  /** Of the export, where that was found. */
  readonly line: number | null;
  readonly why: string | null;
  /** Heads that the chain agrees with. */
  readonly agreed: readonly AuditHead[];
  /** Heads of what is older than the export: nothing can be said of them. */
  readonly older: readonly AuditHead[];
}

const CHAINS: readonly string[] = ['calls', 'egress'];

/** Of lines of JSON, as an export has them, several of which may follow each other. Throws when there is no export in them. */
export async function checkAuditExport(
  lines: AsyncIterable<string> | Iterable<string>,
  heads: readonly AuditHead[] = [],
): Promise<readonly CheckedAuditChain[]> {
  const chains = new Map<string, Check>();
  let at = 0;
  let current: Check | null = null;
  for await (const line of lines) {
    at++;
    if (line.trim() === '') continue;
    const said = parsed(line);
    if (said === null) {
      // Whose line it was nobody knows; that of the chain that stands before it misses what it had.
      if (current === null) throw noExport(at);
      current.fail(at, 'A line of the export cannot be read.');
      continue;
    }
    if (said.type === 'anchor') {
      const name = `${said.organisation} ${said.chain}`;
      const known = chains.get(name);
      current = known ?? (await Check.begin(said, heads, at));
      chains.set(name, current);
      known?.goOnFrom(said, at);
      continue;
    }
    if (current?.chain !== said.chain)
      current = [...chains.values()].findLast(({ chain }) => chain === said.chain) ?? null;
    if (current === null) throw noExport(at);
    await current.follow(said, at);
  }
  if (chains.size === 0) throw noExport(at);
  return [...chains.values()].map((check) => check.end(at));
}

/** Of lines of JSON, as `space audit head` prints them. Throws when one is none. */
export function parseAuditHeads(text: string): readonly AuditHead[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const value = object(line);
      const { organisation, chain, number, digest } = value ?? {};
      if (typeof organisation === 'string' && isChain(chain) && isNumber(number) && isDigest(digest)) {
        return { organisation, chain, number, digest };
      }
      throw misused('A line of the heads is none, as `space audit head` prints them.');
    });
}

type Anchor = AuditHead & { readonly type: 'anchor' };
type Link = Omit<AuditHead, 'organisation'> & { readonly type: 'link'; readonly at: string; readonly entry: string };

class Check {
  readonly chain: AuditChain;
  readonly #organisation: string;
  readonly #first: number;
  readonly #heads: readonly AuditHead[];
  readonly #agreed: AuditHead[] = [];
  #last: { readonly number: number; readonly digest: string };
  #broken: { readonly number: number; readonly line: number; readonly why: string } | null = null;

  static async begin(anchor: Anchor, heads: readonly AuditHead[], line: number): Promise<Check> {
    const check = new Check(anchor, heads);
    const { organisation, chain, number, digest } = anchor;
    const begin = await digestOf(`space audit\n${organisation}\n${chain}\n`);
    if (number === 0 && digest !== begin) check.fail(line, 'It does not begin where it should.');
    check.#compare(line);
    return check;
  }

  private constructor({ organisation, chain, number, digest }: Anchor, heads: readonly AuditHead[]) {
    this.chain = chain;
    this.#organisation = organisation;
    this.#first = number + 1;
    this.#last = { number, digest };
    this.#heads = heads.filter((head) => head.organisation === organisation && head.chain === chain);
  }

  fail(line: number, why: string, number = this.#last.number + 1): void {
    this.#broken ??= { number, line, why };
  }

  /** The next export begins where this one ends. */
  goOnFrom({ number, digest }: Anchor, line: number): void {
    if (this.#broken !== null) return;
    if (number !== this.#last.number || digest !== this.#last.digest) {
      this.fail(line, 'What follows does not stand behind what came before.');
    }
  }

  async follow({ number, digest, at, entry }: Link, line: number): Promise<void> {
    if (this.#broken !== null) return;
    const last = this.#last;
    const fault =
      number !== last.number + 1
        ? 'Links are missing, or have changed their places.'
        : (await digestOf(`${number}\n${at}\n${entry}`, last.digest)) !== digest
          ? 'It is not what was linked.'
          : null;
    if (fault !== null) {
      this.fail(line, fault);
      return;
    }
    this.#last = { number, digest };
    this.#compare(line);
  }

  end(line: number): CheckedAuditChain {
    const missing = this.#heads.find(({ number }) => number > this.#last.number);
    if (missing !== undefined)
      this.fail(line, `Links are missing at the end: the head that was kept is ${missing.number}.`);
    const { number: last, digest } = this.#last;
    return {
      ...{ organisation: this.#organisation, chain: this.chain, first: this.#first, last, digest },
      brokenAt: this.#broken?.number ?? null,
      line: this.#broken?.line ?? null,
      why: this.#broken?.why ?? null,
      agreed: this.#agreed,
      older: this.#heads.filter(({ number }) => number < this.#first - 1),
    };
  }

  /** With what was kept of this place. */
  #compare(line: number): void {
    for (const head of this.#heads.filter(({ number }) => number === this.#last.number)) {
      if (head.digest === this.#last.digest) this.#agreed.push(head);
      else
        this.fail(line, 'It is not what the head says that was kept: what is before it was written anew.', head.number);
    }
  }
}

/** SHA-256 of a text, behind the bytes of another digest. */
async function digestOf(said: string, before = ''): Promise<string> {
  const text = new TextEncoder().encode(said);
  const bytes = new Uint8Array(before.length / 2 + text.length);
  for (let at = 0; at < before.length; at += 2) bytes[at / 2] = Number.parseInt(before.slice(at, at + 2), 16);
  bytes.set(text, before.length / 2);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function parsed(line: string): Anchor | Link | null {
  const value = object(line);
  if (value === null) return null;
  const { type, organisation, chain, number, digest, at, entry } = value;
  if (!isChain(chain) || !isNumber(number) || !isDigest(digest)) return null;
  if (type === 'anchor' && typeof organisation === 'string') return { type, organisation, chain, number, digest };
  if (type !== 'link' || typeof at !== 'string' || typeof entry !== 'object') return null;
  return { type, chain, number, digest, at, entry: JSON.stringify(entry) };
}

function object(line: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function isChain(value: unknown): value is AuditChain {
  return typeof value === 'string' && CHAINS.includes(value);
}

function isNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isDigest(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
}

function noExport(line: number): SpaceError {
  return misused(`That is no export of the audit (line ${line}).`);
}

function misused(detail: string): SpaceError {
  const nextStep = 'Give the lines of JSON as they were exported.';
  return new SpaceError({ code: 'misused', detail, nextStep, retry: 'never' });
}
