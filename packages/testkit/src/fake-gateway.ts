/** A gateway for tests: it keeps the rules that it is told, lets nothing out, and has seen what a test says. */
import {
  AppError,
  type EgressPort,
  type EgressPosition,
  type EgressRecord,
  type EgressRecords,
  type GatewayHealth,
  type GatewayPort,
  type OrganisationId,
  type SandboxId,
  type SandboxRules,
} from '@space/core';

export class FakeGateway implements GatewayPort, EgressPort {
  /** Those that are loaded. */
  readonly rules = new Map<SandboxId, SandboxRules>();
  /** What is to be taken. */
  readonly seen: EgressRecord[] = [];
  isDown = false;
  #starts = 1;
  #taken = 0;

  /** Another one in its place, which knows nothing. */
  restart(): void {
    this.#starts++;
    this.rules.clear();
    this.seen.length = 0;
    this.#taken = 0;
  }

  async health(): Promise<GatewayHealth> {
    this.#checkUp();
    return { instance: `fake-${this.#starts}`, rules: this.rules.size };
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

  async carry(): Promise<void> {
    throw new AppError('egress_refused', 'This gateway lets nothing out.');
  }

  #checkUp(): void {
    if (this.isDown) throw new AppError('unavailable', 'The gateway does not answer.');
  }
}
