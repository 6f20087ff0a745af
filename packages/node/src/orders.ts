/**
 * The orders that change a sandbox. Each holds the sandbox's lock from its first check to its last effect; the record in
 * the vault is the commit point of each: before it the old state stands, after it the new one does.
 */
import {
  AppError,
  type CaptureOrder,
  type DestroyOrder,
  type GoOnOrder,
  type InspectedSandbox,
  MANIFEST_FORMAT,
  type NodePort,
  type Real,
  type RewindOrder,
  type SandboxId,
  type SandboxRecord,
  type StartedLife,
  type StartOrder,
  type TakenPoint,
  type Vault,
  type VaultName,
} from '@space/core';
import { type CapturedPoint, type CapturePlan, capture, captureDisk, captureFiles, type PointPlan } from './capture.ts';
import type { Held, Ledger } from './ledger.ts';
import type { Life } from './life.ts';
import type { Pool } from './pool.ts';
import { deleteFiles, endLife, type LifeMachinery, type LifePlan, prepareLife } from './start-life.ts';
import type { Vaults } from './vaults.ts';
import type { WayOut } from './way-out.ts';
import { writeOut } from './write-out.ts';

export interface NodeState {
  readonly ledger: Ledger;
  readonly vaults: Vaults;
  readonly machinery: LifeMachinery;
  readonly pool: Pool;
  readonly wayOut: WayOut;
  /** The running life of each sandbox that has one. */
  readonly lives: Map<SandboxId, Life>;
  /** Makes a life the sandbox's own and watches for its end. */
  admit(sandboxId: SandboxId, life: Life): void;
}

/** How long user processes may take to stand still: for a snapshot of a sandbox that goes on, and of one that does not. */
const PASSING = { freezeTimeoutMs: 2_000 };
const LAST = { freezeTimeoutMs: 20_000, ending: true };

type Orders = Pick<
  NodePort,
  | 'start'
  | 'goOn'
  | 'snapshot'
  | 'pause'
  | 'rewind'
  | 'destroy'
  | 'deletePoint'
  | 'checkPoint'
  | 'points'
  | 'pointOwner'
  | 'changed'
  | 'inspect'
  | 'inspectAll'
>;

export function createOrders(state: NodeState): Orders {
  const { ledger, vaults } = state;
  const alone =
    <O extends { vault: VaultName; sandboxId: SandboxId; epoch: number }, T>(
      order: (state: NodeState, order: O) => Promise<T>,
    ) =>
    (asked: O) => {
      const { tracer } = state.machinery;
      const span = {
        name: `node ${order.name}`,
        attributes: { 'space.sandbox': asked.sandboxId, 'space.epoch': asked.epoch },
      };
      const inTurn = () => ledger.exclusively(asked, () => order(state, asked));
      return tracer.span(span, () => state.pool.aside(inTurn));
    };
  return {
    start: alone(start),
    goOn: alone(goOn),
    snapshot: alone(snapshot),
    pause: alone(pause),
    rewind: alone(rewind),
    destroy: alone(destroy),
    deletePoint: (name, snapshotId) => vaults.use(name, ({ vault }) => vault.deletePoint(snapshotId)),
    // No use, since it takes minutes, and harms nobody: it ends with the vault.
    checkPoint: async (name, snapshotId) => vaults.get(name).checkPoint(snapshotId),
    points: (name) => vaults.use(name, ({ vault }) => vault.points()),
    pointOwner: (name, snapshotId) =>
      vaults.use(name, async ({ vault }) => {
        const { owner } = await vault.readManifest(snapshotId);
        return owner.kind === 'sandbox' ? owner.sandboxId : null;
      }),
    async changed(sandboxId) {
      const life = state.lives.get(sandboxId);
      if (life === undefined) return null;
      return vaults.use(life.vault.name, async ({ vault }) => {
        await vault.flush(life.lifeId);
        return vault.changed(life.lifeId);
      });
    },
    inspect: (vault, sandboxId) =>
      vaults.use(vault, async () => {
        // One that whoever gave it no longer waits for may still be under way: what is real is what it leaves.
        await ledger.settled(sandboxId);
        const held = ledger.find(sandboxId);
        if (held === undefined) throw new AppError('not_found', `This node holds no sandbox ${sandboxId}.`);
        return inspected(state, held);
      }),
    inspectAll: async () => ledger.held().map((held) => inspected(state, held)),
  };
}

async function start(state: NodeState, order: StartOrder): Promise<StartedLife> {
  const { ledger, machinery, pool } = state;
  const vault = ledger.vault(order.vault);
  const before = ledger.find(order.sandboxId)?.record;
  if (before?.moved !== undefined) throw new AppError('wrong_state', `${order.sandboxId} was moved.`);
  requireVault(state, order);
  if (state.lives.has(order.sandboxId)) throw new AppError('wrong_state', `${order.sandboxId} is running.`);
  const from = order.from === 'crashed' ? crashedDisk(order, before) : order.from;
  const plan: LifePlan = {
    vault,
    size: order.size,
    from,
    identity: { ...order, isFresh: typeof from === 'string' && pool.knows(from) },
    check: () => ledger.checkEpoch(order.sandboxId, order.epoch),
    since: machinery.clock.monotonicMs(),
  };
  const prepared = (await pool.claim(plan)) ?? (await prepareLife(machinery, plan));
  return switchTo(state, vault, prepared, {
    format: MANIFEST_FORMAT,
    sandboxId: order.sandboxId,
    epoch: order.epoch,
    generation: order.generation,
    size: order.size,
    template: order.template,
    head: typeof from === 'string' ? from : (before as SandboxRecord).head,
    life: prepared.life.lifeId,
  });
}

function write({ ledger, machinery }: NodeState, vault: Vault, record: SandboxRecord): Promise<void> {
  return machinery.tracer.span({ name: 'record' }, () => ledger.write(vault, record));
}

async function goOn(state: NodeState, order: GoOnOrder): Promise<void> {
  const life = state.lives.get(order.sandboxId);
  if (life === undefined) throw new AppError('vm_lost', `The microVM of ${order.sandboxId} is gone.`);
  if (life.halted) await state.machinery.spaceWatch.letGoOn(life);
  const { vault, record } = state.ledger.get(order.sandboxId);
  await state.ledger.write(vault, { ...record, epoch: order.epoch });
}

/** Makes a prepared life the sandbox's own: the record first, then the thaw, then the end of the life before it. */
async function switchTo(
  state: NodeState,
  vault: Vault,
  prepared: Awaited<ReturnType<typeof prepareLife>>,
  record: SandboxRecord,
): Promise<StartedLife> {
  const { ledger, machinery } = state;
  const before = ledger.find(record.sandboxId)?.record;
  const oldLife = state.lives.get(record.sandboxId);
  try {
    ledger.checkEpoch(record.sandboxId, record.epoch);
    await write(state, vault, record);
  } catch (error) {
    await prepared.discard('it was not admitted');
    throw error;
  }
  state.admit(record.sandboxId, prepared.life);
  let started: StartedLife;
  try {
    started = await prepared.thaw();
  } catch (error) {
    await prepared
      .discard('its user code could not be started')
      .catch((thrown: unknown) => machinery.onWarning?.(`What could not be started was not ended: ${String(thrown)}`));
    if (oldLife !== undefined) bringBack(state, record.sandboxId, oldLife);
    if (before === undefined) await ledger.remove(vault, record.sandboxId);
    else await ledger.write(vault, { ...before, epoch: record.epoch });
    throw error;
  }
  // Its programs run by now; what they have opened meanwhile waits in the guest.
  state.wayOut.serve(record.sandboxId, prepared.life);
  if (oldLife !== undefined) await endLife(machinery, oldLife, 'the sandbox was rewound');
  else if (before?.life) await deleteFiles(vault, before.life);
  return started;
}

/** It may have ended meanwhile. */
function bringBack({ lives }: NodeState, sandboxId: SandboxId, life: Life): void {
  lives.set(sandboxId, life);
  void life.vm.ended.then(() => {
    if (lives.get(sandboxId) === life) lives.delete(sandboxId);
  });
}

/** It never crosses vaults: another key opens each. */
function requireVault({ ledger }: NodeState, { sandboxId, vault }: StartOrder): void {
  const held = ledger.find(sandboxId);
  if (held === undefined || held.vault.name === vault) return;
  throw new AppError('wrong_state', `${sandboxId} lies in the vault ${held.vault.name} and not in ${vault}.`);
}

function crashedDisk(order: StartOrder, record: SandboxRecord | undefined) {
  if (!record?.life) throw new AppError('wrong_state', `${order.sandboxId} did not crash.`);
  return { kind: 'crashed', lifeId: record.life, memoryBytes: order.size.memoryMib * 2 ** 20 } as const;
}

async function snapshot(state: NodeState, order: CaptureOrder): Promise<TakenPoint> {
  const { held, point } = await (order.kind === 'disk' ? takeDisk(state, order) : takeMemory(state, order));
  await write(state, held.vault, { ...held.record, epoch: order.epoch, head: point.snapshotId });
  return point;
}

async function takeMemory(state: NodeState, order: CaptureOrder) {
  const { held, captured } = await captureRunning(state, order, PASSING);
  return { held, point: await captured.keepRunning() };
}

async function takeDisk(state: NodeState, order: CaptureOrder) {
  const { held, life, plan } = planOf(state, order);
  return { held, point: await captureDisk(life, plan) };
}

async function pause(state: NodeState, order: CaptureOrder): Promise<TakenPoint> {
  const { machinery } = state;
  const keepsMemory = order.kind !== 'disk';
  const { held, life, captured } = await (keepsMemory
    ? captureRunning(state, order, LAST)
    : captureTheFiles(state, order));
  const { point } = captured;
  try {
    await write(state, held.vault, { ...held.record, epoch: order.epoch, head: point.snapshotId, life: null });
  } catch (error) {
    await captured.undo();
    throw error;
  }
  await machinery.tracer.span({ name: 'end' }, () =>
    endLife(machinery, life, 'the sandbox was paused', keepsMemory ? point.snapshotId : null),
  );
  return point;
}

async function rewind(state: NodeState, order: RewindOrder): Promise<{ kept: TakenPoint | null; life: StartedLife }> {
  const { ledger, machinery } = state;
  const since = machinery.clock.monotonicMs();
  const { vault, record } = ledger.get(order.sandboxId);
  if (record.moved !== undefined) throw new AppError('wrong_state', `${order.sandboxId} was moved.`);
  const target = await vault.readPoint(order.to);
  // Until the target runs and knows who it is, the present is not disturbed.
  const prepared = await prepareLife(machinery, {
    vault,
    size: target.manifest.size,
    from: order.to,
    identity: order,
    check: () => ledger.checkEpoch(order.sandboxId, order.epoch),
    since,
  });
  const present = await keepPresent(state, order).catch(async (error: unknown) => {
    await prepared.discard('the present could not be kept');
    throw error;
  });
  try {
    const life = await switchTo(state, vault, prepared, {
      ...record,
      epoch: order.epoch,
      generation: order.generation,
      size: target.manifest.size,
      head: order.to,
      life: prepared.life.lifeId,
    });
    return { kept: present?.point ?? null, life };
  } catch (error) {
    if (present !== null && state.lives.get(order.sandboxId) === present.life) await present.captured.undo();
    throw error;
  }
}

/** A point of the present, whose VM then stands still; null when there is none to keep. */
async function keepPresent(state: NodeState, { keepAs, ...order }: RewindOrder) {
  if (!state.lives.has(order.sandboxId) || keepAs === null) return null;
  const { life, captured } = await captureRunning(state, { ...order, snapshotId: keepAs }, LAST);
  return { life, captured, point: captured.point };
}

async function captureRunning(
  state: NodeState,
  order: CaptureOrder,
  how: Pick<CapturePlan, 'freezeTimeoutMs' | 'ending'>,
): Promise<{ held: Held; life: Life; captured: CapturedPoint }> {
  const { held, life, plan } = planOf(state, order);
  const budget = order.budgetMs === undefined ? {} : { budgetMs: order.budgetMs };
  return { held, life, captured: await capture(life, { ...plan, ...how, ...budget }) };
}

async function captureTheFiles(state: NodeState, order: CaptureOrder) {
  const { held, life, plan } = planOf(state, order);
  const { chance } = state.machinery;
  return { held, life, captured: await captureFiles(life, plan, async () => writeOut(await life.guest(), chance)) };
}

/** Of a sandbox that runs. */
function planOf(
  { ledger, lives, machinery }: NodeState,
  order: CaptureOrder,
): { readonly held: Held; readonly life: Life; readonly plan: PointPlan } {
  const held = ledger.get(order.sandboxId);
  const life = lives.get(order.sandboxId);
  if (life === undefined) throw new AppError('wrong_state', `${order.sandboxId} is not running.`);
  if (life.halted)
    throw new AppError('out_of_space', `${order.sandboxId} stands still since its vault is nearly full.`);
  const plan: PointPlan = {
    snapshotId: order.snapshotId,
    owner: {
      kind: 'sandbox',
      sandboxId: order.sandboxId,
      lifeId: life.lifeId,
      generation: held.record.generation,
    },
    parent: held.record.head,
    size: held.record.size,
    clock: machinery.clock,
    tracer: machinery.tracer,
    spares: machinery.spares,
    check: () => ledger.checkEpoch(order.sandboxId, order.epoch),
  };
  return { held, life, plan };
}

async function destroy(state: NodeState, order: DestroyOrder): Promise<void> {
  const { ledger, machinery } = state;
  const vault = ledger.vault(order.vault);
  // The life of one whose record cannot be read is met as a stray at the next start.
  const record = ledger.findReadable(order.sandboxId)?.record;
  const life = state.lives.get(order.sandboxId);
  if (life !== undefined) await endLife(machinery, life, 'the sandbox was deleted');
  if (record?.life) await vault.deleteLife(record.life);
  for (const snapshotId of order.points) await vault.deletePoint(snapshotId);
  await ledger.remove(vault, order.sandboxId);
}

function inspected(state: NodeState, { vault, record }: Held): InspectedSandbox {
  const { sandboxId, epoch, generation, head, life, moved } = record;
  const real = realOf(state, record);
  return {
    vault: vault.name,
    sandboxId,
    epoch,
    generation,
    head,
    life,
    real,
    ...(moved === undefined ? {} : { moved }),
  };
}

function realOf(state: NodeState, record: SandboxRecord): Real {
  const life = state.lives.get(record.sandboxId);
  if (life !== undefined) return life.halted ? 'out_of_space' : 'running';
  if (record.moved !== undefined) return 'moved';
  return record.life === null ? 'paused' : 'crashed';
}
