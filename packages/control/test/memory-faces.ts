import { isPlatformsOwn, type SandboxId, type SnapshotId, type SnapshotKind, statusOf } from '@space/core';
import { type FaceRecords, type RunPosition, type RunsAsked, type RunsPage, runBeganAt } from '../src/face-records.ts';
import type { RecordedSandbox } from '../src/records.ts';
import type { MemoryTenants } from './memory-tenants.ts';

export class MemoryFaces implements FaceRecords {
  readonly #turn: () => Promise<void>;
  readonly #sandboxes: ReadonlyMap<string, RecordedSandbox>;
  readonly #tenants: MemoryTenants;
  readonly #kindOf: (id: SnapshotId) => SnapshotKind | undefined;

  constructor(
    turn: () => Promise<void>,
    sandboxes: ReadonlyMap<string, RecordedSandbox>,
    tenants: MemoryTenants,
    kindOf: (id: SnapshotId) => SnapshotKind | undefined,
  ) {
    this.#turn = turn;
    this.#kindOf = kindOf;
    this.#sandboxes = sandboxes;
    this.#tenants = tenants;
  }

  async findReach(id: SandboxId) {
    await this.#turn();
    const sandbox = this.#sandboxes.get(id);
    if (sandbox === undefined) return null;
    const { access, projectId } = sandbox;
    const holder = access === null ? null : await this.#tenants.findKeyHolderById(access.keyId);
    const headKind = (sandbox.head === null ? null : this.#kindOf(sandbox.head)) ?? null;
    return { sandbox, holder, headKind, organisationId: await this.#tenants.organisationOf(projectId) };
  }

  async listTokens(limit: number) {
    await this.#turn();
    return this.#live()
      .toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
      .flatMap(({ id, access }) => (access === null ? [] : [{ id, token: access.token }]))
      .slice(0, limit);
  }

  async listByRun({ order, limit, after, ...asked }: RunsPage) {
    await this.#turn();
    const sign = order === 'asc' ? 1 : -1;
    const compare = (a: RunPosition, b: RunPosition) =>
      sign * (a.at.getTime() - b.at.getTime()) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
    return this.#asked(asked)
      .map((sandbox) => ({ id: sandbox.id, at: runBeganAt(sandbox), sandbox }))
      .toSorted(compare)
      .filter((one) => after === undefined || compare(one, after) > 0)
      .slice(0, limit)
      .map(({ sandbox }) => sandbox);
  }

  async countByRun(asked: RunsAsked) {
    await this.#turn();
    return this.#asked(asked).length;
  }

  #asked({ projectId, statuses, metadata, startedFrom, template }: RunsAsked): readonly RecordedSandbox[] {
    return this.#live().filter(
      (one) =>
        one.projectId === projectId &&
        !isPlatformsOwn(one.name) &&
        statuses.includes(statusOf(one)) &&
        Object.entries(metadata).every(([name, value]) => one.metadata[name] === value) &&
        (startedFrom === undefined || runBeganAt(one) >= startedFrom) &&
        (template === undefined || (one.builtFrom?.template ?? one.template) === template),
    );
  }

  #live(): readonly RecordedSandbox[] {
    return [...this.#sandboxes.values()].filter(({ settled }) => settled !== 'deleted');
  }
}
