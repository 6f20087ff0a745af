/**
 * The requests that wait for control's word. Control comes and takes them; nothing here calls anybody. What is held is bounded
 * by number and by time, and ends when the program does not wait for it any more.
 *
 * What became of the last ones is remembered, so that control, when it did not hear an answer, can say the same again and learn
 * whether anything was sent. An end is decided once: `gone` means that it was not sent and never will be.
 */
import {
  AppError,
  type ApprovalId,
  type AskAnswer,
  type AskFate,
  type EgressPosition,
  type HeldAsk,
  type HeldAsks,
  type OrganisationId,
  type SandboxId,
} from '@space/core';

/** At once. */
const MAX_HELD_OF_SANDBOX = 16;
const MAX_HELD_OF_ORGANISATION = 128;
/** Each with a body of up to 1 MiB. */
const MAX_HELD = 256;
const MAX_TAKEN = 16;
const MAX_REMEMBERED = 10_000;
/** How long control waits for news with one call. */
const LOOK_MS = 10_000;

export type NewAsk = Omit<HeldAsk, 'id' | 'heldUntil'>;

/** Whose a place is. */
export interface PlaceOf {
  readonly sandboxId: SandboxId;
  readonly organisationId: OrganisationId;
}

/** How a hold ended. `waited`: nobody has decided in time. */
export type HoldEnd =
  | { readonly kind: 'let_go'; readonly approvalId: ApprovalId }
  | { readonly kind: 'refuse'; readonly approvalId: ApprovalId | null; readonly reason: string }
  /** What control has said meanwhile; null: it has not said anything. */
  | { readonly kind: 'waited'; readonly told: { readonly approvalId: ApprovalId; readonly expiresAt: string } | null };

interface Held {
  readonly number: number;
  readonly ask: HeldAsk;
  readonly end: (end: HoldEnd) => void;
  told: { readonly approvalId: ApprovalId; readonly expiresAt: string } | null;
}

export class HeldAskRoom {
  readonly #instance: string;
  readonly #holdMs: number;
  readonly #held = new Map<string, Held>();
  readonly #places = new Set<PlaceOf>();
  readonly #fates = new Map<string, AskFate>();
  #count = 0;
  #news = Promise.withResolvers<void>();

  constructor(instance: string, holdMs: number) {
    this.#instance = instance;
    this.#holdMs = holdMs;
  }

  /** A place for one, before its body is read. Returns what gives it back; throws when there is none. */
  take(place: PlaceOf): () => void {
    const all = [...this.#places];
    const own = all.filter(({ sandboxId }) => sandboxId === place.sandboxId).length;
    const ofOrganisation = all.filter(({ organisationId }) => organisationId === place.organisationId).length;
    // Nobody may have more than is left for all others, so that whoever comes last finds a place.
    const maxOwn = Math.min(MAX_HELD_OF_SANDBOX, MAX_HELD_OF_ORGANISATION - ofOrganisation);
    const maxOfOrganisation = Math.min(MAX_HELD_OF_ORGANISATION, MAX_HELD - all.length);
    if (own >= maxOwn || ofOrganisation >= maxOfOrganisation) {
      throw new AppError(
        'approval_pending',
        'Too many requests are held already, so that nobody was asked for this one.',
      );
    }
    this.#places.add(place);
    return () => void this.#places.delete(place);
  }

  /** Settles with control's word, or when the time is over; rejects when the signal aborts. */
  async hold(asked: NewAsk, signal: AbortSignal): Promise<HoldEnd> {
    signal.throwIfAborted();
    const number = ++this.#count;
    const id = `${number}`;
    const ended = Promise.withResolvers<HoldEnd>();
    const ask: HeldAsk = { ...asked, id, heldUntil: new Date(Date.now() + this.#holdMs).toISOString() };
    const held: Held = { number, ask, end: ended.resolve, told: null };
    const leave = (): void => {
      if (this.#leave(id, 'gone') !== null) ended.reject(signal.reason ?? new Error('nobody waits for it'));
    };
    const timer = setTimeout(() => {
      if (this.#leave(id, 'gone') !== null) ended.resolve({ kind: 'waited', told: held.told });
    }, this.#holdMs);
    signal.addEventListener('abort', leave, { once: true });
    this.#held.set(id, held);
    this.#news.resolve();
    this.#news = Promise.withResolvers();
    try {
      return await ended.promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
    }
  }

  async asks(behind: EgressPosition | null, signal: AbortSignal): Promise<HeldAsks> {
    const late = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
    for (;;) {
      const after = behind?.instance === this.#instance ? behind.next : 0;
      const asks = [...this.#held.values()].filter(({ number }) => number > after).slice(0, MAX_TAKEN);
      const next = asks.at(-1)?.number ?? Math.max(after, 0);
      if (asks.length > 0 || late.aborted) return { instance: this.#instance, asks: asks.map(({ ask }) => ask), next };
      await orAborted(this.#news.promise, late);
    }
  }

  answer({ instance, id, ...answer }: AskAnswer): AskFate {
    if (instance !== this.#instance) return 'unknown';
    const held = this.#held.get(id);
    if (held === undefined) return this.#fates.get(id) ?? 'unknown';
    if (answer.kind === 'wait') {
      held.told = { approvalId: answer.approvalId, expiresAt: answer.expiresAt };
      return 'taken';
    }
    this.#leave(id, 'taken');
    held.end(answer);
    return 'taken';
  }

  #leave(id: string, fate: AskFate): Held | null {
    const held = this.#held.get(id);
    if (held === undefined) return null;
    this.#held.delete(id);
    this.#fates.set(id, fate);
    const [oldest] = this.#fates.keys();
    if (this.#fates.size > MAX_REMEMBERED && oldest !== undefined) this.#fates.delete(oldest);
    return held;
  }
}

async function orAborted(news: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  const stop = (): void => aborted.resolve();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  await Promise.race([news, aborted.promise]);
  signal.removeEventListener('abort', stop);
}
