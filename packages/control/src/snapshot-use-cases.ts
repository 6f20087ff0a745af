/** The use-cases on snapshots, and what the installation says of itself. */
import {
  type Caller,
  type Capabilities,
  type Input,
  MAX_FORK_COUNT,
  type Readiness,
  type Snapshot,
  type SnapshotList,
  type TemplateList,
  type Timeline,
} from '@space/contract';
import { AppError, asAppError, type GatewayPort, type TemplateStatus } from '@space/core';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import { decodeCursor } from './page.ts';
import type { RecordedSnapshot } from './records.ts';
import { removePoint } from './remove-point.ts';
import { findSnapshot } from './scope.ts';
import type { TemplateUseCases } from './template-use-cases.ts';
import { policyFor } from './timeline.ts';
import { viewSnapshot } from './views.ts';

/** Of one page of a timeline. */
const MAX_SKIPS = 100;

export class SnapshotUseCases {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #gateway: GatewayPort;
  readonly #templates: TemplateUseCases;

  constructor(
    machinery: Machinery,
    sandboxes: LifecycleUseCases,
    { gateway, templates }: { readonly gateway: GatewayPort; readonly templates: TemplateUseCases },
  ) {
    this.#templates = templates;
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#gateway = gateway;
  }

  async getTimeline(caller: Caller, { id, limit, cursor }: Input<'getTimeline'>): Promise<Timeline> {
    const { records } = this.#machinery.ports;
    const sandbox = await this.#sandboxes.find(caller, id);
    const page = { limit, ...(cursor === undefined ? {} : { cursor }), sandboxId: sandbox.id };
    const { items, next } = await records.listSnapshots(page);
    const forks = await records.history.forksFrom(
      sandbox.projectId,
      items.map((point) => point.id),
    );
    const until = cursor === undefined ? null : decodeCursor(cursor).at;
    const after = next === null ? null : (items.at(-1)?.takenAt ?? null);
    const skipped = await records.history.skips(sandbox, { after, until }, MAX_SKIPS);
    const { retention, ...policy } = await policyFor(records, sandbox);
    return {
      snapshots: items.map(viewSnapshot),
      forks: [...forks],
      skipped: skipped.map(({ at, code }) => ({ at: at.toISOString(), code })),
      policy: { ...policy, retention: [...retention] },
      nextCursor: next,
    };
  }

  async updateSnapshot({ projectId }: Caller, { id, ...changes }: Input<'updateSnapshot'>): Promise<Snapshot> {
    const { records } = this.#machinery.ports;
    const snapshot = await findSnapshot(records, projectId, id);
    const owner = await records.findSandbox(snapshot.sandboxId);
    if (changes.name === null && owner?.settled === 'deleted') {
      throw new AppError('wrong_state', 'Its sandbox is deleted: only its name keeps it. Delete it to be rid of it.');
    }
    const changed = await records.updateSnapshot(snapshot.id, changes);
    if (changed === null) throw new AppError('not_found', `There is no snapshot "${id}".`);
    return viewSnapshot(changed);
  }

  async listSnapshots({ projectId }: Caller, input: Input<'listSnapshots'>): Promise<SnapshotList> {
    const { items, next } = await this.#machinery.ports.records.listSnapshots({ ...input, projectId });
    return { snapshots: items.map(viewSnapshot), nextCursor: next };
  }

  async getSnapshot({ projectId }: Caller, input: Input<'getSnapshot'>): Promise<Snapshot> {
    return viewSnapshot(await findSnapshot(this.#machinery.ports.records, projectId, input.id));
  }

  async deleteSnapshot({ projectId }: Caller, input: Input<'deleteSnapshot'>): Promise<void> {
    const { records } = this.#machinery.ports;
    const { sandboxId, id } = await findSnapshot(records, projectId, input.id);
    // In the sandbox's turn, so that no operation that needs the point begins meanwhile.
    await this.#machinery.driver.exclusively(sandboxId, async () => {
      const snapshot = await findSnapshot(records, projectId, id);
      await this.#checkUnused(snapshot);
      await removePoint(this.#machinery.ports, snapshot);
    });
  }

  async listTemplates(caller: Caller, _input: Input<'listTemplates'>): Promise<TemplateList> {
    const { ports, vaults } = this.#machinery;
    const visible = await vaults.visibleTo(caller.principal.organisationId);
    const templates = await ports.node.templates();
    const own = (ready: TemplateStatus['ready']) => ready.filter(({ vault }) => visible.has(vault));
    return {
      templates: templates.map(({ name, ready }) => ({ name, ready: own(ready).map(({ vault: _, ...rest }) => rest) })),
      built: await this.#templates.list(caller),
    };
  }

  async getCapabilities(
    { principal }: Caller,
    _input: Input<'getCapabilities'>,
  ): Promise<Omit<Capabilities, 'previews'>> {
    const { ports } = this.#machinery;
    const able = await ports.node.capabilities();
    const visible = await this.#machinery.vaults.visibleTo(principal.organisationId);
    const { runtime, accelerator, vmmVersion, jail, limits, memory, vaults, archives } = able;
    const { budgetMib, takenMib, members, filling, hits, misses } = able.pool;
    const egress = await egressOf(this.#gateway);
    const withFork = { ...limits, forkCount: { min: 1, max: MAX_FORK_COUNT } };
    const limitsOfVmm = { inForce: [...jail.inForce], missing: [...jail.missing] };
    return {
      runtime,
      accelerator,
      vmmVersion,
      jail: limitsOfVmm,
      limits: withFork,
      memory,
      // Who runs the installation sees all; the others, theirs.
      vaults: vaults.filter(({ name }) => principal.operator || visible.has(name)),
      pool: { budgetMib, takenMib, members, filling, hits, misses },
      archives: [...archives],
      egress,
    };
  }

  async readiness(): Promise<Readiness> {
    const { node, records } = this.#machinery.ports;
    const checks = await Promise.all([
      check('database', 'The database does not answer.', () => records.ping()),
      check('node', 'The node does not answer.', () => node.capabilities()),
      check('gateway', 'The gateway does not answer.', () => this.#gateway.health()),
      check('templates', 'No template is imported yet.', async () => {
        if ((await node.templates()).length === 0) throw new AppError('unavailable', 'No template is imported yet.');
      }),
    ]);
    return { ready: checks.every((one) => one.ready), checks };
  }

  async #checkUnused(snapshot: RecordedSnapshot): Promise<void> {
    const sandbox = await this.#machinery.ports.records.findSandbox(snapshot.sandboxId);
    const inUse = (why: string) => {
      const facts = { snapshotId: snapshot.id, sandboxId: snapshot.sandboxId };
      return new AppError('snapshot_in_use', { detail: why, facts });
    };
    if (this.#machinery.pins.has(snapshot.id)) throw inUse('Sandboxes are being started from the snapshot.');
    if (sandbox === null || sandbox.settled === 'deleted') return;
    if (sandbox.operation !== null) throw inUse(`A ${sandbox.operation} of its sandbox is in progress.`);
    const isAtRest = sandbox.settled === 'paused' || sandbox.settled === 'moved';
    if (isAtRest && sandbox.head === snapshot.id)
      throw inUse(`Its sandbox is ${sandbox.settled}, and would go on from it.`);
  }
}

/** Whether anything can leave a sandbox, and if not, why. */
async function egressOf(gateway: GatewayPort): Promise<Capabilities['egress']> {
  try {
    const { pinsAddresses } = await gateway.health();
    const reason = 'By the gateway, as far as `network` of a sandbox allows.';
    const behind = 'All of it goes through an HTTP proxy, which resolves names: where a name leads to is not checked.';
    return { available: true, reason: pinsAddresses ? reason : `${reason} ${behind}`, remedy: null };
  } catch {
    return {
      available: false,
      reason: 'The gateway does not answer.',
      remedy: 'It is started again by itself; see the log.',
    };
  }
}

async function check(name: string, missing: string, probe: () => Promise<unknown>) {
  try {
    await probe();
    return { name, ready: true, detail: 'ok' };
  } catch (thrown) {
    // What went wrong may name paths and addresses; readiness is shown to anybody.
    const { code } = asAppError(thrown);
    return {
      name,
      ready: false,
      detail: code === 'unavailable' || code === 'node_unavailable' ? missing : `${missing} (${code})`,
    };
  }
}
