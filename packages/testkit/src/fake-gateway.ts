/** A gateway for tests: it keeps the rules that it is told, lets nothing out, and has seen what a test says. */
import {
  AppError,
  type EgressPort,
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
  lost = 0;
  isDown = false;
  #starts = 1;
  #taken = 0;

  /** Another one in its place, which knows nothing. */
  restart(): void {
    this.#starts++;
    this.rules.clear();
    this.seen.length = 0;
    this.#taken = 0;
    this.lost = 0;
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

  async takeRecords(after: number): Promise<EgressRecords> {
    this.#checkUp();
    const gone = Math.max(0, Math.min(after - this.#taken, this.seen.length));
    this.seen.splice(0, gone);
    this.#taken += gone;
    const records = [...this.seen];
    return { instance: `fake-${this.#starts}`, records, next: this.#taken + records.length, lost: this.lost };
  }

  async carry(): Promise<void> {
    throw new AppError('egress_refused', 'This gateway lets nothing out.');
  }

  #checkUp(): void {
    if (this.isDown) throw new AppError('unavailable', 'The gateway does not answer.');
  }
}
