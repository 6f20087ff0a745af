/** The use-cases on sandboxes and their lifecycle. Each looks up what it was given, and lets the driver do the rest. */
import type {
  Caller,
  ForkResult,
  Input,
  Rewound,
  Sandbox,
  SandboxDetail,
  SandboxList,
  Snapshot,
} from '@space/contract';
import {
  AppError,
  checkSize,
  DEFAULT_NETWORK_POLICY,
  DEFAULT_PAUSE_AFTER_MS,
  DEFAULT_RUNS,
  type Expiry,
  type SandboxId,
  type Size,
  type SnapshotId,
} from '@space/core';
import type { ActivityLog } from './activity.ts';
import type { Birth, Born, Nursery } from './birth.ts';
import { isHidden } from './contents.ts';
import type { Driver } from './driver.ts';
import type { Effects } from './effects.ts';
import type { GatedCaller } from './gated-caller.ts';
import type { Network } from './network.ts';
import type { ControlPorts } from './ports.ts';
import { builtFromOf, checkSameSize, findReadyBuild, isInstalled } from './ready-builds.ts';
import type { BuiltFrom, RecordedSandbox, RecordedSnapshot } from './records.ts';
import { showSandbox } from './recovery.ts';
import { findDoomedToo, findSandbox, findSnapshot } from './scope.ts';
import { grantsOf, inheritedGrants, without } from './secret-use-cases.ts';
import { findInTimeline, type PastPoint, type Pins, pinned } from './timeline.ts';
import type { Vaults } from './vaults.ts';
import { viewSandbox, viewSnapshot } from './views.ts';

const DEFAULT_TEMPLATE = 'base';

export interface Machinery {
  readonly ports: ControlPorts;
  readonly activity: ActivityLog;
  readonly driver: Driver;
  readonly effects: Effects;
  readonly nursery: Nursery;
  readonly pins: Pins;
  readonly network: Network;
  readonly vaults: Vaults;
}

export class LifecycleUseCases {
  readonly #ports: ControlPorts;
  readonly #driver: Driver;
  readonly #effects: Effects;
  readonly #nursery: Nursery;
  readonly #pins: Pins;
  readonly #network: Network;
  readonly #vaults: Vaults;

  constructor({ ports, driver, effects, nursery, pins, network, vaults }: Machinery) {
    this.#vaults = vaults;
    this.#ports = ports;
    this.#driver = driver;
    this.#effects = effects;
    this.#nursery = nursery;
    this.#pins = pins;
    this.#network = network;
  }

  async createSandbox(caller: GatedCaller, input: Input<'createSandbox'>): Promise<Sandbox> {
    const { projectId } = caller;
    const { pauseAfterMs } = input.idle ?? { pauseAfterMs: DEFAULT_PAUSE_AFTER_MS };
    const own = {
      projectId,
      name: input.name ?? null,
      env: input.env ?? {},
      metadata: input.metadata ?? {},
      pauseAfterMs,
      wakeAt: dateOf(input.wakeAt ?? null),
      expiry: expiryOf(input.expiry ?? null),
      runs: input.runs ?? DEFAULT_RUNS,
      publicPorts: input.publicPorts ?? false,
      snapshotPolicy: input.snapshots ?? {},
      network: input.network ?? DEFAULT_NETWORK_POLICY,
      secrets: await grantsOf(this.#ports, projectId, input.secrets ?? []),
      arrival: null,
    };
    if (input.network !== undefined) await this.#network.check(projectId, input.network);
    const { snapshot: reference } = input;
    if (reference !== undefined) {
      const snapshot = await this.#pinned(() => findSnapshot(this.#ports.records, projectId, reference));
      const { template, size, vault, sandboxId, id } = snapshot;
      try {
        const builtFrom = (await this.#ports.records.findSandbox(sandboxId))?.builtFrom ?? null;
        const forkedFrom = { sandboxId, snapshotId: id };
        const birth: Birth = { ...own, template, size, vault, builtFrom, forkedFrom };
        return viewSandbox(await this.#bearOne(birth, caller));
      } finally {
        this.#pins.unpin(id);
      }
    }
    const template = input.template ?? DEFAULT_TEMPLATE;
    if (!(await isInstalled(this.#ports.node, template)))
      return this.#createFromBuilt(caller, own, template, input.size);
    const name = template.split(':', 1)[0] ?? template;
    const { limits } = await this.#ports.node.capabilities();
    const size = checkSize(input.size ?? {}, limits);
    const vault = await this.#vaults.of(caller.principal.organisationId);
    const birth: Birth = { ...own, template: name, size, vault, forkedFrom: null };
    return viewSandbox(await this.#bearOne(birth, caller));
  }

  /** From the point of a template that was built in the project. */
  async #createFromBuilt(
    caller: GatedCaller,
    own: Omit<Birth, 'template' | 'size' | 'vault' | 'forkedFrom'>,
    reference: string,
    asked: Partial<Size> = {},
  ): Promise<Sandbox> {
    const { records } = this.#ports;
    let builtFrom: BuiltFrom | null = null;
    const point = await this.#pinned(async () => {
      const build = await findReadyBuild(records, caller.projectId, reference);
      const { snapshotId } = build;
      builtFrom = await builtFromOf(records, build);
      const found = snapshotId === null ? null : await records.findSnapshot(snapshotId);
      if (found === null) throw new AppError('template_unknown', `The point of the template "${reference}" is gone.`);
      return found;
    });
    try {
      checkSameSize(reference, point.size, asked);
      const { template, size, vault, sandboxId, id } = point;
      const birth: Birth = { ...own, template, size, vault, builtFrom, forkedFrom: { sandboxId, snapshotId: id } };
      return viewSandbox(await this.#bearOne(birth, caller));
    } finally {
      this.#pins.unpin(point.id);
    }
  }

  async listSandboxes({ projectId }: Caller, input: Input<'listSandboxes'>): Promise<SandboxList> {
    const { items, next } = await this.#ports.records.listSandboxes({ ...input, projectId });
    const sandboxes = await Promise.all(items.map((one) => showSandbox(this.#ports.records, one)));
    return { sandboxes, nextCursor: next };
  }

  async getSandbox(caller: GatedCaller, input: Input<'getSandbox'>): Promise<SandboxDetail> {
    const found = await findDoomedToo(this.#ports.records, caller.projectId, input.id);
    return { ...(await showSandbox(this.#ports.records, found)), env: isHidden(found.env) ? {} : found.env };
  }

  async updateSandbox(caller: GatedCaller, input: Input<'updateSandbox'>): Promise<Sandbox> {
    const { id, snapshotPolicy, projectId, secrets: before, missingSecrets } = await this.find(caller, input.id);
    const at = new Date(this.#ports.clock.now());
    const { idle, wakeAt, expiry, runs, publicPorts, snapshots, network } = input;
    if (network !== undefined) await this.#network.check(projectId, network);
    const secrets =
      input.secrets && (await grantsOf(this.#ports, projectId, input.secrets, [...before, ...missingSecrets]));
    const changes = {
      ...(idle === undefined ? {} : { pauseAfterMs: idle.pauseAfterMs }),
      ...(wakeAt === undefined ? {} : { wakeAt: dateOf(wakeAt) }),
      ...(expiry === undefined ? {} : { expiry: expiryOf(expiry) }),
      ...(runs === undefined ? {} : { runs }),
      ...(publicPorts === undefined ? {} : { publicPorts }),
      ...(snapshots === undefined ? {} : { snapshotPolicy: { ...snapshotPolicy, ...snapshots } }),
      ...(network === undefined ? {} : { network }),
      ...(secrets === undefined ? {} : { secrets, missingSecrets: without(missingSecrets, secrets) }),
    };
    // In a turn of its own: what ends at an expiry is decided in one, too.
    const changed = await this.#driver.exclusively(id, () => this.#ports.records.updateSandbox(id, changes, at));
    if (changed === null) throw new AppError('not_found', `There is no sandbox "${input.id}".`);
    if (network !== undefined || secrets !== undefined) await this.#network.changed(id);
    return showSandbox(this.#ports.records, changed);
  }

  async deleteSandbox(caller: GatedCaller, input: Input<'deleteSandbox'>): Promise<void> {
    const { id } = await findDoomedToo(this.#ports.records, caller.projectId, input.id);
    await this.#driver.perform(id, 'delete', this.#effects.delete(), caller);
  }

  async pauseSandbox(caller: GatedCaller, input: Input<'pauseSandbox'>): Promise<Sandbox> {
    const { id } = await this.find(caller, input.id);
    const { sandbox } = await this.#driver.perform(id, 'pause', this.#effects.pause(input.keep), caller);
    return viewSandbox(sandbox);
  }

  /** The platform's own pause, when it is stopped: nobody asked for it. */
  async pauseUnasked(id: RecordedSandbox['id']): Promise<void> {
    await this.#driver.perform(id, 'pause', this.#effects.pause());
  }

  /** The platform's pause of what nobody uses. Throws `NotIdleError`, with nothing begun, when it is not idle any more. */
  async pauseIdle(id: SandboxId, isIdle: (seen: RecordedSandbox) => boolean): Promise<void> {
    await this.#driver.perform(id, 'pause', this.#effects.pauseIdle(isIdle));
  }

  async resumeSandbox(caller: GatedCaller, input: Input<'resumeSandbox'>): Promise<Sandbox> {
    const { id } = await this.find(caller, input.id);
    const { sandbox } = await this.#driver.perform(id, 'resume', this.#effects.resume(), caller);
    return viewSandbox(sandbox);
  }

  async takeSnapshot(caller: GatedCaller, input: Input<'takeSnapshot'>): Promise<Snapshot> {
    const { id } = await this.find(caller, input.id);
    const effect = this.#effects.snapshot({ name: input.name ?? null, note: input.note ?? null });
    const { result } = await this.#driver.perform(id, 'snapshot', effect, caller);
    return viewSnapshot(present(result));
  }

  async rewindSandbox(caller: GatedCaller, input: Input<'rewindSandbox'>): Promise<Rewound> {
    const { id } = await this.find(caller, input.id);
    const { sandbox, result } = await this.#driver.perform(
      id,
      'rewind',
      this.#effects.rewind(input.to, input.keepPresent),
      caller,
    );
    return { sandbox: viewSandbox(sandbox), kept: result ? viewSnapshot(result) : null };
  }

  /** Memory is there for all before the source is touched. */
  async forkSandbox(caller: GatedCaller, input: Input<'forkSandbox'>): Promise<readonly ForkResult[]> {
    const source = await this.find(caller, input.id);
    return this.#nursery.withMemory(input.count, source.size.memoryMib, async (ids) => {
      const point = await this.#forkPoint(source, input.from, caller);
      const born = await this.#bearCopies(source, point, caller, ids, input.inheritSecrets === true);
      const [first] = born;
      if (first !== undefined && 'error' in first && born.every((one) => 'error' in one)) throw first.error;
      return born.map(forkResultOf);
    });
  }

  /** More copies from the point of a fork that broke off. */
  async forkMore(
    caller: GatedCaller,
    reference: string,
    from: SnapshotId,
    count: number,
    inheritSecrets: boolean,
  ): Promise<readonly ForkResult[]> {
    const source = await this.find(caller, reference);
    return this.#nursery.withMemory(count, source.size.memoryMib, async (ids) => {
      const point = await this.#pinned(() => findSnapshot(this.#ports.records, source.projectId, from));
      return (await this.#bearCopies(source, point, caller, ids, inheritSecrets)).map(forkResultOf);
    });
  }

  /** Unpins the point. */
  async #bearCopies(
    source: RecordedSandbox,
    point: RecordedSnapshot,
    caller: GatedCaller,
    ids: readonly SandboxId[],
    inheritSecrets: boolean,
  ): Promise<readonly Born[]> {
    try {
      const birth = await this.#copyOf(source, point, inheritSecrets);
      return await this.#nursery.bear(
        ids.map(() => birth),
        caller,
        { ids },
      );
    } finally {
      this.#pins.unpin(point.id);
    }
  }

  async #copyOf(source: RecordedSandbox, point: RecordedSnapshot, inheritSecrets: boolean): Promise<Birth> {
    // Of one that is closed nothing of this could be read.
    await this.#vaults.ensureOpen(source.vault);
    return {
      projectId: source.projectId,
      name: null,
      template: point.template,
      size: point.size,
      vault: point.vault,
      env: source.env,
      metadata: source.metadata,
      pauseAfterMs: source.pauseAfterMs,
      wakeAt: null,
      expiry: null,
      runs: source.runs,
      publicPorts: source.publicPorts,
      builtFrom: source.builtFrom,
      snapshotPolicy: source.snapshotPolicy,
      network: source.network,
      secrets: inheritSecrets ? await inheritedGrants(this.#ports, source.projectId, source.secrets) : [],
      forkedFrom: { sandboxId: point.sandboxId, snapshotId: point.id },
      arrival: null,
    };
  }

  /** In the caller's project, by id or name. Throws `not_found`, also for what is deleted or being deleted. */
  find({ projectId }: Pick<Caller, 'projectId'>, reference: string): Promise<RecordedSandbox> {
    return findSandbox(this.#ports.records, projectId, reference);
  }

  /** Pinned. A past point is used as it is, and the source is not touched. */
  async #forkPoint(
    source: RecordedSandbox,
    from: PastPoint | undefined,
    caller: GatedCaller,
  ): Promise<RecordedSnapshot> {
    if (from !== undefined) return this.#pinned(() => findInTimeline(this.#ports, source, from));
    const { result } = await this.#driver.perform(source.id, 'fork', this.#effects.presentPoint('fork'), caller);
    return this.#pinned(() => findSnapshot(this.#ports.records, source.projectId, present(result).id));
  }

  #pinned(find: () => Promise<RecordedSnapshot>): Promise<RecordedSnapshot> {
    return pinned(this.#pins, find);
  }

  async #bearOne(birth: Birth, caller: GatedCaller): Promise<RecordedSandbox> {
    const [born] = (await this.#nursery.bear([birth], caller)) as readonly [Born];
    if ('error' in born) throw born.error;
    return born.sandbox;
  }
}

function forkResultOf(born: Born): ForkResult {
  return 'error' in born ? born : { sandbox: viewSandbox(born.sandbox) };
}

function dateOf(instant: string | null): Date | null {
  return instant === null ? null : new Date(instant);
}

function expiryOf(asked: { readonly at: string; readonly action: Expiry['action'] } | null): Expiry | null {
  return asked === null ? null : { at: new Date(asked.at), action: asked.action };
}

function present<T>(result: T | undefined): T {
  if (result === undefined) throw new Error('an operation that takes a point ends with it');
  return result;
}
