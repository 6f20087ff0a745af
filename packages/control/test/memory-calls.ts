/** Calls and their answers in memory, for tests. */
import type { CallKey, CallRecords, RecordedCall } from '../src/call-records.ts';

export class MemoryCalls implements CallRecords {
  readonly #turn: () => Promise<void>;
  readonly #calls = new Map<string, RecordedCall>();

  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  async claim(call: RecordedCall) {
    await this.#turn();
    const present = this.#calls.get(nameOf(call));
    if (present === undefined) this.#calls.set(nameOf(call), call);
    return present ?? null;
  }

  async takeOver(call: RecordedCall, by: Pick<RecordedCall, 'requestId' | 'owner'>) {
    await this.#turn();
    const held = this.#held(call);
    if (held === undefined || held.answer !== null) return false;
    this.#calls.set(nameOf(call), { ...held, requestId: by.requestId, owner: by.owner });
    return true;
  }

  async keepAnswer(call: RecordedCall, answer: string) {
    await this.#turn();
    const held = this.#held(call);
    if (held?.answer === null) this.#calls.set(nameOf(call), { ...held, answer });
  }

  async release(call: RecordedCall) {
    await this.#turn();
    if (this.#held(call) !== undefined) this.#calls.delete(nameOf(call));
  }

  async dropBefore(time: Date) {
    await this.#turn();
    for (const call of [...this.#calls.values()]) if (call.at < time) this.#calls.delete(nameOf(call));
  }

  async dropSurplus(keepPerCaller: number) {
    await this.#turn();
    const newestFirst = [...this.#calls.values()].sort((a, b) => b.at.getTime() - a.at.getTime());
    const counts = new Map<string, number>();
    for (const call of newestFirst) {
      const count = (counts.get(call.apiKeyId) ?? 0) + 1;
      counts.set(call.apiKeyId, count);
      if (count > keepPerCaller) this.#calls.delete(nameOf(call));
    }
  }

  #held(call: RecordedCall): RecordedCall | undefined {
    const present = this.#calls.get(nameOf(call));
    return present?.requestId === call.requestId ? present : undefined;
  }
}

function nameOf({ apiKeyId, idempotencyKey }: CallKey): string {
  return `${apiKeyId} ${idempotencyKey}`;
}
