/** A gateway for tests: it keeps the rules that it is told, lets nothing out, and has seen what a test says. */
import {
  AppError,
  type AskAnswer,
  type AskFate,
  type EgressPort,
  type EgressPosition,
  type EgressRecord,
  type EgressRecords,
  type GatewayHealth,
  type GatewayPort,
  type HeldAsk,
  type HeldAsks,
  type Notice,
  type OrganisationId,
  type SandboxId,
  type SandboxRules,
  type SecretName,
} from '@space/core';

export class FakeGateway implements GatewayPort, EgressPort {
  /** Those that are loaded. */
  readonly rules = new Map<SandboxId, SandboxRules>();
  /** What is to be taken. */
  readonly seen: EgressRecord[] = [];
  /** Requests that it holds; those that were answered for good are held no more. */
  readonly held: HeldAsk[] = [];
  /** What it was told, in order. */
  readonly answers: AskAnswer[] = [];
  /** Of held requests that nobody waits for any more. */
  readonly given = new Map<string, AskFate>();
  readonly #ended = new Map<string, (answer: AskAnswer) => void>();
  /** Notices that were taken. */
  readonly notices: Notice[] = [];
  /** What the next ones fail with. */
  readonly noticeFailures: AppError[] = [];
  isDown = false;
  #news = Promise.withResolvers<void>();
  #asked = 0;
  readonly #numbers = new Map<string, number>();
  #starts = 1;
  #taken = 0;

  /** Another one in its place, which knows nothing. */
  restart(): void {
    this.#starts++;
    this.rules.clear();
    this.seen.length = 0;
    this.#taken = 0;
    this.held.length = 0;
    this.#wake();
  }

  /** A program asks for something that a rule holds. */
  hold(ask: HeldAsk): void {
    this.#numbers.set(ask.id, ++this.#asked);
    this.held.push(ask);
    this.#wake();
  }

  async health(): Promise<GatewayHealth> {
    this.#checkUp();
    return { instance: `fake-${this.#starts}`, rules: this.rules.size, pinsAddresses: true };
  }

  async setRules(rules: SandboxRules): Promise<void> {
    this.#checkUp();
    this.rules.set(rules.sandboxId, rules);
  }

  async dropRules(sandboxId: SandboxId): Promise<void> {
    this.#checkUp();
    this.rules.delete(sandboxId);
  }

  async trust(organisationId: OrganisationId): Promise<{ readonly certificatePem: string }> {
    this.#checkUp();
    return { certificatePem: `certificate of ${organisationId}\n` };
  }

  /** The sealed values that it keeps, by organisation and name. */
  readonly secrets = new Map<string, string>();

  async sealingKey(): Promise<{ readonly publicKey: string }> {
    this.#checkUp();
    return { publicKey: Buffer.alloc(32, 9).toString('base64') };
  }

  async putSecret({ organisationId, name }: SecretName, sealed: string): Promise<void> {
    this.#checkUp();
    this.secrets.set(`${organisationId} ${name}`, sealed);
  }

  async dropSecret({ organisationId, name }: SecretName): Promise<void> {
    this.#checkUp();
    this.secrets.delete(`${organisationId} ${name}`);
  }

  async takeRecords(behind: EgressPosition | null): Promise<EgressRecords> {
    this.#checkUp();
    const instance = `fake-${this.#starts}`;
    const after = behind?.instance === instance ? behind.next : 0;
    const gone = Math.max(0, Math.min(after - this.#taken, this.seen.length));
    this.seen.splice(0, gone);
    this.#taken += gone;
    const records = [...this.seen];
    return { instance, records, next: this.#taken + records.length };
  }

  async takeAsks(behind: EgressPosition | null, signal: AbortSignal): Promise<HeldAsks> {
    for (;;) {
      this.#checkUp();
      signal.throwIfAborted();
      const instance = `fake-${this.#starts}`;
      const after = behind?.instance === instance ? behind.next : 0;
      const asks = this.held.filter(({ id }) => (this.#numbers.get(id) ?? 0) > after);
      if (asks.length > 0 || (behind !== null && behind.instance !== instance))
        return { instance, asks, next: this.#asked };
      const aborted = Promise.withResolvers<void>();
      const stop = (): void => aborted.resolve();
      signal.addEventListener('abort', stop, { once: true });
      await Promise.race([this.#news.promise, aborted.promise]);
      signal.removeEventListener('abort', stop);
    }
  }

  async answerAsk(answer: AskAnswer): Promise<AskFate> {
    this.#checkUp();
    if (answer.instance !== `fake-${this.#starts}`) return 'unknown';
    this.answers.push(answer);
    const told = this.given.get(answer.id);
    if (told !== undefined) return told;
    if (answer.kind === 'wait') return 'taken';
    const at = this.held.findIndex(({ id }) => id === answer.id);
    if (at < 0) return 'unknown';
    this.held.splice(at, 1);
    this.given.set(answer.id, 'taken');
    this.#ended.get(answer.id)?.(answer);
    return 'taken';
  }

  /** A program asks for it and waits for the end. */
  holdToEnd(ask: HeldAsk): Promise<AskAnswer> {
    const ended = Promise.withResolvers<AskAnswer>();
    this.#ended.set(ask.id, ended.resolve);
    this.hold(ask);
    return ended.promise;
  }

  async noticeSecret(organisationId: OrganisationId, url: string): Promise<string> {
    this.#checkUp();
    return `whsec_of ${organisationId} ${url}`;
  }

  async sendNotice(notice: Notice): Promise<void> {
    this.#checkUp();
    const failure = this.noticeFailures.shift();
    if (failure !== undefined) throw failure;
    this.notices.push(notice);
  }

  /** Nobody waits for it any more. */
  giveUp(id: string): void {
    this.held.splice(0, this.held.length, ...this.held.filter((one) => one.id !== id));
    this.given.set(id, 'gone');
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }

  async carry(): Promise<void> {
    throw new AppError('egress_refused', 'This gateway lets nothing out.');
  }

  #checkUp(): void {
    if (this.isDown) throw new AppError('unavailable', 'The gateway does not answer.');
  }
}
