/** Records what callers do, and what they were not allowed to do. */
import type { Caller, Route, RouteName } from '@space/contract';
import { ACTIONS, asAppError, newId } from '@space/core';
import type { Asker } from './audit-records.ts';
import type { ControlPorts } from './ports.ts';
import { retryUnavailable } from './retry.ts';

const KEPT_MS = 400 * 24 * 60 * 60 * 1000;
const MAX_TARGET_LENGTH = 64;

export class Audit {
  readonly #ports: ControlPorts;

  constructor(ports: ControlPorts) {
    this.#ports = ports;
  }

  /** What an operation that the call begins is recorded with. */
  askerOf({ principal, projectId, requestId }: Caller, name: RouteName, action: Asker['action']): Asker {
    const { apiKeyId, organisationId } = principal;
    const inProject = ACTIONS[action] === 'project' ? projectId : null;
    const auditId = newId('audit', this.#ports.chance);
    return { auditId, requestId, apiKeyId, organisationId, projectId: inProject, action, call: name };
  }

  /** Of a call that began no operation. That it could not be recorded is logged; the call is over. */
  async ended(
    asker: Asker,
    route: Route,
    input: unknown,
    end: { readonly result?: unknown; readonly thrown?: unknown },
  ) {
    const failure = 'thrown' in end ? asAppError(end.thrown) : null;
    // What only reads is recorded when it was not allowed.
    if (route.method === 'GET' && failure?.code !== 'forbidden') return;
    const at = new Date(this.#ports.clock.now());
    const target = idIn(input) ?? idIn(end.result);
    const record = { ...asker, target, outcome: failure?.code ?? ('ok' as const), at };
    try {
      await retryUnavailable(() => this.#ports.records.audit.append(record));
    } catch (err) {
      this.#ports.logger.error({ ...record, err }, 'a call could not be recorded in the audit');
    }
  }

  async dropOld(): Promise<void> {
    await this.#ports.records.audit.dropBefore(new Date(this.#ports.clock.now() - KEPT_MS));
  }
}

/** The id of an object, or of the organisation in one. */
function idIn(value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return null;
  if ('organisation' in value) return idIn(value.organisation);
  return 'id' in value && typeof value.id === 'string' ? value.id.slice(0, MAX_TARGET_LENGTH) : null;
}
