/**
 * How a point becomes a running VM. Create, fork, resume and rewind are all this one path:
 *
 *   verify the point → reserve memory → clone its files → restore → run → identity (verified) → [admit] → thaw
 *
 * A point of kind `disk` is booted in place of the restore.
 *
 * Up to the thaw nothing of the user's has run, so a failure anywhere loses nothing: what was made is removed and the
 * point stands. `admit` is where the caller makes its record durable, before user code can act.
 */

import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type Chance,
  type Clock,
  type GuestIdentity,
  hostnameOf,
  type LifeId,
  type LifeSource,
  type MachineFacts,
  newId,
  type Runtime,
  type SandboxId,
  type Size,
  type SnapshotId,
  type StartedLife,
  type Tracer,
  type Vault,
} from '@space/core';
import { type ConnectGuest, Life } from './life.ts';
import type { MemoryBudget } from './memory-budget.ts';
import type { SpaceWatch } from './space-watch.ts';

export interface LifeMachinery {
  readonly runtime: Runtime;
  readonly connectGuest: ConnectGuest;
  readonly budget: MemoryBudget;
  readonly spaceWatch: SpaceWatch;
  readonly spares: Spares;
  /** VMs that run and are nobody's yet. One whose vault is to be closed in any case is ended in the midst of that. */
  readonly unready: Set<Life>;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly tracer: Tracer;
  /** Told what has not gone well and does no harm now. */
  readonly onWarning?: (message: string) => void;
}

/** What gives memory and space back when somebody wants them. */
export interface Spares {
  /** Returns when nobody takes what is promised to others. Throws `insufficient_memory` when that cannot be had. */
  makeRoom(): Promise<void>;
  /** Runs the work, and once more if it found no space and some could be given back. */
  withSpace<T>(vault: Vault, work: () => Promise<T>): Promise<T>;
}

export interface LifePlan {
  readonly vault: Vault;
  readonly size: Size;
  readonly from: SnapshotId | Exclude<LifeSource, { kind: 'point' }>;
  /** `isFresh`: it comes from a ready snapshot, which nobody has owned. */
  readonly identity: {
    readonly sandboxId: SandboxId;
    readonly generation: number;
    readonly isFresh?: boolean;
    readonly trust?: string;
  };
  readonly check: () => void;
  /** When the order came, on the monotonic clock; left out: now. */
  readonly since?: number;
  /** It is started for nobody yet: it takes only what is free, and what it does is not watched. */
  readonly spare?: boolean;
}

/** A VM whose agent has its identity and whose user processes wait for the thaw. */
export interface PreparedLife {
  readonly life: Life;
  /** Lets user code run. */
  thaw(): Promise<StartedLife>;
  /** Ends the VM and removes its files. */
  discard(reason: string): Promise<void>;
}

export async function prepareLife(machinery: LifeMachinery, plan: LifePlan): Promise<PreparedLife> {
  const { budget, clock, chance, spares } = machinery;
  const startedAt = plan.since ?? clock.monotonicMs();
  const lifeId = newId('life', chance);
  plan.check();
  if (plan.spare === true) budget.reserveSpare(lifeId, plan.size.memoryMib);
  else budget.reserve(lifeId, plan.size.memoryMib, plan.identity.sandboxId);
  let life: Life | null = null;
  try {
    if (plan.spare !== true) await spares.makeRoom();
    life = await startVm(machinery, plan, lifeId);
    machinery.unready.add(life);
    return await giveIdentity(machinery, plan, life, startedAt);
  } catch (error) {
    if (life !== null) await endLife(machinery, life, 'it could not be started');
    else await deleteFiles(plan.vault, lifeId).finally(() => budget.release(lifeId));
    throw error;
  } finally {
    if (life !== null) machinery.unready.delete(life);
  }
}

/** Makes a running VM, whose user processes are frozen, the sandbox's. What fails leaves the life to the caller. */
export async function giveIdentity(
  machinery: LifeMachinery,
  plan: LifePlan,
  life: Life,
  startedAt: number,
): Promise<PreparedLife> {
  const { clock, chance, tracer } = machinery;
  const { lifeId } = life;
  if (plan.spare !== true) machinery.spaceWatch.add(life, plan.size);
  const runningMs = clock.monotonicMs() - startedAt;
  plan.check();
  const guest = await tracer.span({ name: 'reach the agent' }, () => life.guest());
  await tracer.span({ name: 'assume identity' }, async (note) => {
    const { hasMachineId } = await guest.assumeIdentity(identityOf(plan.identity, lifeId, chance));
    note({ 'space.has_machine_id': hasMachineId });
  });
  plan.check();
  return {
    life,
    async thaw() {
      await tracer.span({ name: 'thaw' }, () => guest.thaw());
      return { lifeId, runningMs, readyMs: clock.monotonicMs() - startedAt };
    },
    discard: (reason) => endLife(machinery, life, reason),
  };
}

/** Pauses between the attempts to end a life, in milliseconds. What resists all of them is removed at the next open. */
const END_RETRIES_MS = [20, 200, 1000];

/** Ends a life and frees what it held: its files and its memory are somebody else's next. */
export async function endLife(
  machinery: LifeMachinery,
  life: Life,
  reason: string,
  keptFor: SnapshotId | null = null,
): Promise<void> {
  await insistently(() => life.end(reason, keptFor));
  machinery.budget.release(life.lifeId);
}

/** Of a life whose VM is dead, or never was. */
export function deleteFiles(vault: Vault, lifeId: LifeId): Promise<void> {
  return insistently(() => vault.deleteLife(lifeId));
}

async function insistently(work: () => Promise<void>): Promise<void> {
  for (const pauseMs of END_RETRIES_MS) {
    try {
      return await work();
    } catch {
      await sleep(pauseMs);
    }
  }
  await work();
}

async function startVm(machinery: LifeMachinery, plan: LifePlan, lifeId: LifeId): Promise<Life> {
  const { runtime, connectGuest, tracer, spares } = machinery;
  const vault = plan.vault.name;
  const createLife = (from: LifeSource) => plan.vault.createLife(lifeId, from);
  const cloneFiles = (from: LifeSource) =>
    tracer.span({ name: 'clone files' }, () =>
      plan.spare === true ? createLife(from) : spares.withSpace(plan.vault, () => createLife(from)),
    );
  const boot = async (from: LifeSource, size: Size) => {
    const files = await cloneFiles(from);
    const vm = await tracer.span({ name: 'boot' }, () => runtime.boot({ lifeId, size, vault, files }));
    return new Life(plan.vault, vm, connectGuest, { booting: true });
  };
  if (typeof plan.from !== 'string') return boot(plan.from, plan.size);
  const snapshotId = plan.from;
  const point = await tracer.span({ name: 'verify point' }, () => plan.vault.readPoint(snapshotId));
  const { deviceState } = point;
  if (deviceState === null) {
    // It needs nothing of the VMM that ran when it was taken.
    const { size } = point.manifest;
    return boot({ kind: 'disk', snapshotId, memoryBytes: size.memoryMib * 2 ** 20 }, size);
  }
  checkFit(point.manifest.machine, runtime);
  const files = await cloneFiles({ kind: 'point', snapshotId });
  const vm = await tracer.span({ name: 'restore' }, () =>
    runtime.restore({ lifeId, size: point.manifest.size, vault, files }, deviceState, {
      machine: point.manifest.machine,
    }),
  );
  try {
    await tracer.span({ name: 'run' }, () => vm.run());
  } catch (error) {
    await vm.kill();
    throw error;
  }
  return new Life(plan.vault, vm, connectGuest);
}

/** What device state depends on. Kernel and agent are inside the memory and travel with the point. */
const MUST_MATCH = [
  'runtime',
  'vmmBuild',
  'machine',
  'cpuModel',
  'accelerator',
] as const satisfies (keyof MachineFacts)[];

/** Which of the needs is not met: of the machine here that comes nearest. */
export function unmetNeed(needed: MachineFacts, { machines }: Runtime): (typeof MUST_MATCH)[number] | undefined {
  const differs = machines.map((offered) => MUST_MATCH.filter((key) => needed[key] !== offered[key]));
  if (differs.some((keys) => keys.length === 0)) return undefined;
  return differs.toSorted((a, b) => a.length - b.length)[0]?.[0] ?? 'vmmBuild';
}

/** Throws `snapshot_unfit` naming what is not there. */
function checkFit(needed: MachineFacts, runtime: Runtime): void {
  const need = unmetNeed(needed, runtime);
  if (need === undefined) return;
  const offered = [...new Set(runtime.machines.map((machine) => machine[need]))].join('", "');
  throw new AppError('snapshot_unfit', {
    detail: `The snapshot needs ${need} "${needed[need]}"; this node has "${offered}".`,
    facts: { need, needed: needed[need], offered },
  });
}

function identityOf(of: LifePlan['identity'], lifeId: LifeId, chance: Chance): GuestIdentity {
  return {
    sandboxId: of.sandboxId,
    lifeId,
    generation: of.generation,
    hostname: hostnameOf(of.sandboxId),
    // The same in every life of a sandbox, another one in each fork.
    machineId: createHash('sha256').update(`machine-id:${of.sandboxId}`).digest('hex').slice(0, 32),
    entropy: chance.bytes(64),
    isFresh: of.isFresh === true,
    ...(of.trust === undefined ? {} : { trust: of.trust }),
  };
}
