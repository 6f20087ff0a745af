/** A control on a fake node and records in memory, and short ways to use it; for tests. */
import type { Caller, Input, Sandbox } from '@space/contract';
import {
  type Chance,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  newId,
  type OrganisationId,
  type Principal,
  type ProcessEvent,
  type ProcessId,
  type ProjectId,
} from '@space/core';
import { FakeGateway, FakeNode, realClock, seededChance } from '@space/testkit';
import { type Control, createControl } from '../src/control.ts';
import type { GatedCaller } from '../src/gated-caller.ts';
import type { Logger } from '../src/ports.ts';
import { MemoryRecords } from './memory-records.ts';

const ignore = () => undefined;
const silent: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };

let seed = 1;
let requests = 1;

export class World {
  readonly node: FakeNode;
  readonly records: MemoryRecords;
  readonly chance = seededChance(seed++);
  readonly gateway = new FakeGateway();
  control: Control;

  /** On what another world has left, as after a restart; or on nothing. */
  constructor({ node, records }: { readonly node?: FakeNode; readonly records?: MemoryRecords } = {}) {
    this.node = node ?? new FakeNode();
    this.records = records ?? new MemoryRecords();
    this.control = this.newControl();
  }

  /** As a new process on the same records and node. The old one is let go of as a kill -9 does. */
  newControl(): Control {
    const { node, records, chance } = this;
    this.control = createControl({ node, records, chance, clock: realClock(), logger: silent }, this.gateway);
    return this.control;
  }

  caller(signal: AbortSignal = new AbortController().signal): Caller {
    return callerOf(adminOf(DEFAULT_ORGANISATION, this.chance), DEFAULT_PROJECT, signal);
  }

  /** As the gate hands a caller on. */
  gated(): GatedCaller {
    const caller = this.caller();
    const { apiKeyId } = caller.principal;
    const tenant = { organisationId: DEFAULT_ORGANISATION, projectId: DEFAULT_PROJECT };
    const call = { action: 'sandbox.use', call: 'exec', target: null } as const;
    const auditId = newId('audit', this.chance);
    return { ...caller, asker: { ...tenant, ...call, auditId, apiKeyId, requestId: 'req' } };
  }

  create(input: Input<'createSandbox'> = {}): Promise<Sandbox> {
    return this.control.createSandbox(this.caller(), input);
  }

  get(id: string) {
    return this.control.getSandbox(this.caller(), { id });
  }

  pause(id: string, more: Omit<Input<'pauseSandbox'>, 'id'> = {}) {
    return this.control.pauseSandbox(this.caller(), { id, ...more });
  }

  resume(id: string) {
    return this.control.resumeSandbox(this.caller(), { id });
  }

  remove(id: string) {
    return this.control.deleteSandbox(this.caller(), { id });
  }

  snapshot(id: string, name?: string) {
    return this.control.takeSnapshot(this.caller(), { id, ...(name === undefined ? {} : { name }) });
  }

  fork(id: string, count = 1, from?: string) {
    return this.control.forkSandbox(this.caller(), { id, count, ...(from === undefined ? {} : { from }) });
  }

  rewind(id: string, to: string) {
    return this.control.rewindSandbox(this.caller(), { id, to, keepPresent: true });
  }

  async timeline(id: string) {
    return (await this.control.getTimeline(this.caller(), { id, limit: 100 })).snapshots;
  }

  processes(id: string, ended = false) {
    return this.control.listProcesses(this.caller(), { id, ended });
  }

  attach(id: string, processId: ProcessId, stdoutOffset = 0) {
    return this.control.attachProcess(this.caller(), { id, processId, stdoutOffset, stderrOffset: 0 });
  }

  execEvents(id: string, command: string, more: Partial<Input<'exec'>> = {}, signal?: AbortSignal) {
    return this.control.exec(this.caller(signal), { id, command, ...more });
  }

  /** What a command printed. */
  async exec(id: string, command: string, more: Partial<Input<'exec'>> = {}): Promise<string> {
    let output = '';
    for await (const event of this.execEvents(id, command, more)) {
      if (event.kind === 'output') output += Buffer.from(event.data).toString();
    }
    return output.trim();
  }

  async count(id: string, times = 1): Promise<void> {
    for (let i = 0; i < times; i++) await this.exec(id, 'increment');
  }

  /** What no test may leave behind: operations in flight, points that nobody knows, sandboxes that are deleted. */
  async leftovers() {
    const live = await this.records.allSandboxes();
    const liveIds = new Set<string>(live.map(({ id }) => id));
    const points = this.node.pointIds();
    const known = await this.records.history.known(points);
    return {
      inFlight: live.filter(({ operation }) => operation !== null).map(({ id, operation }) => [id, operation]),
      unknownPoints: points.filter((id) => !known.has(id)).length,
      unknownSandboxes: this.node.sandboxIds().filter((id) => !liveIds.has(id)),
    };
  }
}

function adminOf(organisationId: OrganisationId, chance: Chance): Principal {
  const operator = organisationId === DEFAULT_ORGANISATION;
  return { apiKeyId: newId('apiKey', chance), organisationId, operator, onlyProject: null, roles: ['admin'] };
}

function callerOf(principal: Principal, projectId: ProjectId, signal: AbortSignal): Caller {
  return { principal, projectId, requestId: `req_${requests++}`, signal };
}

export const NO_LEFTOVERS = { inFlight: [], unknownPoints: 0, unknownSandboxes: [] };

export async function collect(events: AsyncIterable<ProcessEvent>): Promise<ProcessEvent[]> {
  return Array.fromAsync(events);
}

export async function eventually<T>(
  probe: () => Promise<T>,
  fits: (value: T) => boolean,
  withinMs = 5_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const value = await probe();
    if (fits(value)) return value;
    if (performance.now() > deadline) throw new Error(`it did not come to that: ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
