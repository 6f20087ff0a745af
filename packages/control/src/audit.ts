/**
 * Records what callers do, before they do it, and what they were not allowed to do. A call that cannot be recorded is not
 * carried out. That its end could not be recorded is logged: a later round completes it as `unknown`.
 */
import type { Caller, Route, RouteName } from '@space/contract';
import { ACTIONS, type AuditId, asAppError, newId } from '@space/core';
import type { Asker } from './audit-records.ts';
import type { ControlPorts } from './ports.ts';
import { retryUnavailable } from './retry.ts';

const MAX_TARGET_LENGTH = 64;

/** How a call ended. */
export type CallEnd = { readonly result?: unknown } | { readonly thrown: unknown };

export class Audit {
  readonly #ports: ControlPorts;
  readonly #underWay = new Set<AuditId>();

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

  /** Before a call that is allowed does anything. What only reads is recorded when it was not allowed. */
  async begin(asker: Asker, route: Route, input: unknown): Promise<void> {
    if (route.method === 'GET') return;
    this.#underWay.add(asker.auditId);
    try {
      const record = { ...asker, target: idIn(input), outcome: null, at: this.#now() };
      // An operation begins with a record of its own, which waits for the disk, and this one goes there before it.
      const settles = route.async ? 'next' : 'now';
      await retryUnavailable(() => this.#ports.records.audit.append(record, settles));
    } catch (error) {
      this.#underWay.delete(asker.auditId);
      throw error;
    }
  }

  /** Of a call that had begun, or never did. */
  async end(asker: Asker, route: Route, input: unknown, end: CallEnd): Promise<void> {
    const { audit } = this.#ports.records;
    const outcome = 'thrown' in end ? asAppError(end.thrown).code : 'ok';
    const target = idIn(input) ?? ('result' in end ? idIn(end.result) : null);
    try {
      if (this.#underWay.has(asker.auditId)) {
        await retryUnavailable(() => audit.complete(asker.auditId, { target, outcome }));
      } else if (route.method !== 'GET' || outcome === 'forbidden') {
        await retryUnavailable(() => audit.append({ ...asker, target, outcome, at: this.#now() }, 'now'));
      }
    } catch (err) {
      this.#ports.logger.error(
        { ...asker, target, outcome, err },
        'the end of a call could not be recorded in the audit',
      );
    } finally {
      this.#underWay.delete(asker.auditId);
    }
  }

  /** Completes what an earlier process, or a database that was away, left open. */
  async closeLeft(): Promise<void> {
    const before = this.#now();
    await this.#ports.records.audit.closeLeft(before, [...this.#underWay]);
  }

  #now(): Date {
    return new Date(this.#ports.clock.now());
  }
}

/** The id of an object, or of the organisation in one. */
function idIn(value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return null;
  if ('organisation' in value) return idIn(value.organisation);
  return 'id' in value && typeof value.id === 'string' ? value.id.slice(0, MAX_TARGET_LENGTH) : null;
}
