/**
 * The stage that looks into a request, where a rule says what its host speaks: its body is read ahead, up to a length, so that it
 * can be judged by what it asks for. What is not read to its end is what cannot be told.
 */
import {
  AppError,
  classify,
  type EgressRequest,
  MAX_CLASSIFIED_BYTES,
  type SandboxId,
  spokenAt,
  wantsBody,
} from '@space/core';
import type { AskedRequest } from './admission.ts';
import { kindsOfDocument } from './graphql-document.ts';
import type { Passage } from './passage.ts';

/** Of one sandbox, until they are answered: what was read ahead is held as long as the host does not take it. */
const MAX_LOOKED_INTO = 128;
/** Of all sandboxes: 256 MiB. None may have more than is left for all others. */
const MAX_LOOKED_INTO_AT_ONCE = 1_024;

/** Throws `egress_refused` when no rules are loaded, `egress_failed` when the body breaks off, `unavailable` when it is too much. */
export async function lookInto(passage: Passage, asked: AskedRequest): Promise<EgressRequest> {
  const { request, url, headers } = asked;
  const speaks = spokenAt(passage.rules, request);
  const search = url.includes('?') ? url.slice(url.indexOf('?') + 1) : '';
  const readable = { ...request, search, headers };
  const body = request.hasBody && wantsBody(speaks, readable) ? await readAhead(passage, asked) : null;
  const spoken = classify(speaks, readable, body, kindsOfDocument);
  return spoken.length === 0 ? request : { ...request, spoken };
}

async function readAhead(passage: Passage, { body, signal }: AskedRequest): Promise<Buffer | null> {
  passage.lookedInto.add(passage.sandboxId, signal());
  const { bytes, isWhole } = await body.peek(MAX_CLASSIFIED_BYTES);
  return isWhole && bytes.length <= MAX_CLASSIFIED_BYTES ? bytes : null;
}

export class LookedInto {
  readonly #bySandbox = new Map<SandboxId, number>();
  #count = 0;

  /** Until the signal aborts. Throws `unavailable` when there are too many. */
  add(sandboxId: SandboxId, signal: AbortSignal): void {
    const count = this.#bySandbox.get(sandboxId) ?? 0;
    if (signal.aborted) return;
    const max = Math.min(MAX_LOOKED_INTO, MAX_LOOKED_INTO_AT_ONCE - this.#count);
    if (count >= max) {
      throw new AppError('unavailable', `More than ${max} requests of the sandbox that are looked into are under way.`);
    }
    this.#count++;
    this.#bySandbox.set(sandboxId, count + 1);
    signal.addEventListener('abort', () => this.#leave(sandboxId), { once: true });
  }

  #leave(sandboxId: SandboxId): void {
    this.#count--;
    const left = (this.#bySandbox.get(sandboxId) ?? 0) - 1;
    if (left > 0) this.#bySandbox.set(sandboxId, left);
    else this.#bySandbox.delete(sandboxId);
  }
}
