/**
 * What the gateway has seen, taken over into the records: each once, also over restarts of either. One that does not know what
 * the one before it held, after a loss of power or of its files, is written down too.
 */
import {
  DEFAULT_ORGANISATION,
  type EgressPosition,
  type GatewayPort,
  newId,
  type OrganisationId,
  type SandboxId,
} from '@space/core';
import type { GatewayChange } from './chain-entries.ts';
import type { ControlPorts } from './ports.ts';

/** Of one look. */
const MAX_TAKES = 20;
const KEPT_PER_SANDBOX = 10_000;
const KEPT_MS = 30 * 24 * 60 * 60 * 1000;
const MAX_OWNERS = 10_000;

export class Seen {
  readonly #ports: Omit<ControlPorts, 'node'>;
  readonly #gateway: GatewayPort;
  readonly #owners = new Map<SandboxId, OrganisationId>();
  readonly #toTrim = new Set<SandboxId>();
  /** Undefined: not looked up yet. */
  #position: EgressPosition | null | undefined;

  constructor(ports: Omit<ControlPorts, 'node'>, gateway: GatewayPort) {
    this.#ports = ports;
    this.#gateway = gateway;
  }

  async take(): Promise<void> {
    const { egress } = this.#ports.records;
    for (let take = 0; take < MAX_TAKES; take++) {
      const behind: EgressPosition | null = this.#position ?? (await egress.position());
      this.#position = undefined;
      const { records: seen, ...position } = await this.#gateway.takeRecords(behind);
      const isAnother = position.instance !== behind?.instance;
      if (seen.length > 0 || isAnother) {
        const changes = behind !== null && isAnother ? await this.#changesFrom(behind, position) : [];
        const taken = { records: await this.#toRecord(seen), position, changes, linkedAt: this.#now() };
        // Kept before they are taken: the next answer of the gateway forgets them.
        await egress.add(taken, behind);
      }
      this.#position = position;
      if (seen.length === 0) return;
    }
  }

  async dropOld(): Promise<void> {
    const { egress } = this.#ports.records;
    const seen = [...this.#toTrim];
    this.#toTrim.clear();
    for (const id of seen) await egress.trim(id, KEPT_PER_SANDBOX);
    await egress.dropBefore(new Date(this.#ports.clock.now() - KEPT_MS));
  }

  async #toRecord(seen: Awaited<ReturnType<GatewayPort['takeRecords']>>['records']) {
    const recorded = [];
    for (const one of seen) {
      this.#toTrim.add(one.sandboxId);
      const organisationId = await this.#ownerOf(one.sandboxId);
      recorded.push({ ...one, organisationId, id: newId('egress', this.#ports.chance), at: new Date(one.at) });
    }
    return recorded;
  }

  async #changesFrom(behind: EgressPosition, { instance }: EgressPosition): Promise<readonly GatewayChange[]> {
    const owners = new Set<OrganisationId>();
    for (const { id } of await this.#ports.records.allSandboxes()) owners.add(await this.#ownerOf(id));
    const change = { at: this.#now(), before: behind.instance, now: instance };
    return [...owners].map((organisationId) => ({ ...change, organisationId }));
  }

  /** What belonged to a project that is gone, is told to who runs the installation. */
  async #ownerOf(id: SandboxId): Promise<OrganisationId> {
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const { records } = this.#ports;
    const sandbox = await records.findSandbox(id);
    const owner = sandbox === null ? null : await records.tenants.organisationOf(sandbox.projectId);
    if (owner === null) return DEFAULT_ORGANISATION;
    if (this.#owners.size >= MAX_OWNERS) this.#owners.clear();
    this.#owners.set(id, owner);
    return owner;
  }

  #now(): Date {
    return new Date(this.#ports.clock.now());
  }
}
