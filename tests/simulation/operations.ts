/** The operations of the matrices: each brings a sandbox to where it can be done, and does it. */
import type { Expiry, SnapshotId } from '@space/core';
import type { Client, Known, Told } from './client.ts';
import type { World } from './world.ts';

/** A sandbox with the marks `p…` in it, one of its points, and one that holds less than it does now. */
export interface Scene {
  readonly world: World;
  readonly sandbox: Known;
  readonly point: SnapshotId;
}

export type Standing = 'running' | 'paused' | 'crashed';

export interface Setting {
  readonly standing: Standing;
  /** Paused when nobody uses it. */
  readonly idle?: boolean;
  /** Its points go as soon as nothing needs them. */
  readonly collected?: boolean;
  /** It ends by itself, soon after it stands. */
  readonly expiry?: Expiry['action'];
}

const EXPIRES_AFTER_MS = 10_000;

/** How long the platform may take to do something by itself. */
const UNASKED_WITHIN_MS = 60_000;

export async function setScene(world: World, client: Client, setting: Setting): Promise<Scene> {
  const sandbox = await client.create('scene', {
    collected: setting.collected === true,
    ...(setting.idle === true ? { idleMs: 10_000 } : {}),
  });
  await client.mark(sandbox);
  await client.snapshot(sandbox);
  await client.mark(sandbox);
  const [point] = sandbox.points;
  if (point === undefined || sandbox.id === null) throw new Error('the scene could not be set');
  if (setting.standing === 'paused') await client.pause(sandbox);
  if (setting.standing === 'crashed') {
    world.killVmm(sandbox.id);
    await until(world, async () => (await world.records.findSandbox(sandbox.id ?? never()))?.settled === 'crashed');
  }
  if (setting.expiry !== undefined) {
    const expiry = { at: new Date(world.time.wallMs() + EXPIRES_AFTER_MS), action: setting.expiry };
    await world.records.updateSandbox(sandbox.id, { expiry }, new Date(world.time.wallMs()));
  }
  return { world, sandbox, point };
}

export type Act = (client: Client, scene: Scene) => Promise<Told<unknown> | null>;

/** Those of the race matrix. */
export const ACTS = {
  create: (client) => client.createAgain('scene'),
  exec: (client, { sandbox }) => client.mark(sandbox),
  pause: (client, { sandbox }) => client.pause(sandbox),
  resume: (client, { sandbox }) => client.resume(sandbox),
  snapshot: (client, { sandbox }) => client.snapshot(sandbox),
  fork: async (client, { sandbox }) => (await client.fork(sandbox, 2)).told,
  rewind: (client, { sandbox, point }) => client.rewind(sandbox, point),
  delete: (client, { sandbox }) => client.remove(sandbox),
  /** When nobody has used it for long. */
  idle: async (_, { world, sandbox }) => {
    await until(world, async () => {
      const record = sandbox.id === null ? null : await world.records.findSandbox(sandbox.id);
      return record?.settled !== 'running' && record?.operation === null;
    });
    return null;
  },
  'expiry by pause': async (_, { world, sandbox }) => {
    const isMet = await until(world, async () => {
      const record = await recordOf(world, sandbox);
      return record?.expiry === null && record?.operation === null;
    });
    if (!isMet) throw new Error('the expiry was not met');
    return null;
  },
  'expiry by delete': async (client, { world, sandbox }) => {
    const begunAt = client.history.next();
    const isMet = await until(world, async () => (await recordOf(world, sandbox))?.settled === 'deleted');
    if (!isMet) throw new Error('the expiry was not met');
    const base = { kind: 'delete', value: null, maybe: false, text: 'it expires' } as const;
    sandbox.happenings.push({ ...base, begunAt, endedAt: client.history.next() });
    return null;
  },
  /** Of the points that nothing needs. */
  collection: async (_, { world, point }) => {
    await until(world, async () => world.contentOf(point) === null);
    return null;
  },
} as const satisfies Readonly<Record<string, Act>>;
export type ActName = keyof typeof ACTS;

/** Or not: something else may have come first. */
async function until(world: World, holds: () => Promise<boolean>): Promise<boolean> {
  const deadline = world.time.nowMs + UNASKED_WITHIN_MS;
  for (;;) {
    if (await holds()) return true;
    if (world.time.nowMs >= deadline) return false;
    await world.time.sleep(50);
  }
}

function recordOf(world: World, { id }: Known) {
  return world.records.findSandbox(id ?? never());
}

function never(): never {
  throw new Error('a sandbox of a scene has an id');
}
