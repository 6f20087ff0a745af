/** The table of who a sandbox is after each transition, row by row. On real microVMs: `tests/e2e/identity.vm.test.ts`. */
import {
  APPROVAL_LIMITS,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  newId,
  type SandboxId,
  type WatchEvent,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { makeWorld, SIZE, type World } from './world.ts';

/** What there was before, and after it what is to be looked at. */
interface Scene {
  readonly world: World;
  readonly id: SandboxId;
  /** Of its running life. */
  kill(): Promise<void>;
}

interface Row {
  /** Makes the transition; the sandbox that came of it. */
  readonly make: (scene: Scene) => Promise<SandboxId>;
  readonly sandbox: 'same' | 'new';
  readonly generation: 'same' | 'next' | 'first';
  /** What becomes of an open stream of the sandbox that there was. */
  readonly streams: 'end' | 'go on';
}

const TABLE: Readonly<Record<string, Row>> = {
  resume: {
    ...{ sandbox: 'same', generation: 'same', streams: 'end' },
    async make({ world, id }) {
      await world.control.pauseSandbox(world.caller(), { id });
      await world.control.resumeSandbox(world.caller(), { id });
      return id;
    },
  },
  wake: {
    ...{ sandbox: 'same', generation: 'same', streams: 'end' },
    async make({ world, id }) {
      await world.control.pauseSandbox(world.caller(), { id });
      await Array.fromAsync(world.control.exec(world.caller(), { id, command: 'true' }));
      return id;
    },
  },
  rewind: {
    ...{ sandbox: 'same', generation: 'next', streams: 'end' },
    async make({ world, id }) {
      const { id: to } = await world.control.takeSnapshot(world.caller(), { id });
      await world.control.rewindSandbox(world.caller(), { id, to, keepPresent: true });
      return id;
    },
  },
  'recovery from memory': {
    ...{ sandbox: 'same', generation: 'next', streams: 'end' },
    async make({ world, id, kill }) {
      await world.control.takeSnapshot(world.caller(), { id });
      await kill();
      await world.control.resumeSandbox(world.caller(), { id });
      return id;
    },
  },
  'fork of what runs': {
    ...{ sandbox: 'new', generation: 'first', streams: 'go on' },
    make: ({ world, id }) => forked(world, id),
  },
  'fork of a past point': {
    ...{ sandbox: 'new', generation: 'first', streams: 'go on' },
    async make({ world, id }) {
      return forked(world, id, (await world.control.takeSnapshot(world.caller(), { id })).id);
    },
  },
  'import as a copy': {
    ...{ sandbox: 'new', generation: 'first', streams: 'go on' },
    async make({ world, id }) {
      const from = { location: 'default', timeline: false };
      const { archive } = await world.control.exportSandbox(world.caller(), { id, ...from });
      const copy = { archive, location: 'default', as: 'copy', boot: false } as const;
      const { id: made } = await world.control.importSandbox(world.caller(), copy);
      return (await world.control.resumeSandbox(world.caller(), { id: made })).id;
    },
  },
};

async function forked(world: World, id: SandboxId, from?: string): Promise<SandboxId> {
  const point = from === undefined ? {} : { from };
  const [child] = await world.control.forkSandbox(world.caller(), { id, count: 1, ...point });
  if (child === undefined || !('sandbox' in child)) return expect.unreachable('it was not forked');
  return child.sandbox.id;
}

const chance = seededChance(11);

/** As if a program in it had sent something that a rule holds. */
function asked(world: World, sandboxId: SandboxId, digest: string) {
  const body = { sizeBytes: 0, sha256: '', text: '', isWhole: true };
  const at = { method: 'GET', scheme: 'https', host: 'api.example', port: 443, url: '/' } as const;
  const fresh = {
    id: newId('approval', chance),
    organisationId: DEFAULT_ORGANISATION,
    projectId: DEFAULT_PROJECT,
    rule: 'ask 1: api.example',
    request: { ...at, headers: [], moreHeaders: 0, body },
    requestedAt: new Date(),
    expiresAt: new Date(Date.now() + 600_000),
    askedBy: 'fake/1',
  };
  return world.records.approvals.ask({ ...fresh, sandboxId, digest }, APPROVAL_LIMITS);
}

/** Two approvals of it: one that waits, and one that was not used. */
async function approvalsOf(world: World, id: SandboxId) {
  const [waits, unused] = [await asked(world, id, 'waits'), await asked(world, id, 'unused')];
  const reviewer = { ...world.caller().principal, roles: ['reviewer' as const] };
  await world.control.approveRequest({ ...world.caller(), principal: reviewer }, { id: unused.id });
  return async () => {
    const found = await Promise.all([waits, unused].map((one) => world.records.approvals.find(one.id)));
    return found.map((one) => one?.state);
  };
}

/** What its present life was told. */
function toldTo({ runtime, heard }: World, id: SandboxId) {
  const lives = [...runtime.alive.keys()].map((lifeId) => heard.get(lifeId));
  const own = lives.filter((life) => life?.identities.at(-1)?.sandboxId === id);
  expect(own, `lives of ${id}`).toHaveLength(1);
  const [life] = own;
  const identity = life?.identities.at(-1);
  if (life === undefined || identity === undefined) return expect.unreachable('it was told nothing');
  return { ...identity, entropy: Buffer.from(identity.entropy).toString('hex'), calls: life.calls };
}

/** The end of a stream, once it has one. */
function watched(world: World, id: SandboxId) {
  const stream = world.control.watchFiles(world.caller(), { id, path: '/', recursive: false });
  const events = stream[Symbol.asyncIterator]();
  let end: string | null = null;
  const follow = async () => {
    for (;;) if ((await events.next()).done) break;
    end = 'ended without a reason';
  };
  return {
    ready: async (): Promise<WatchEvent> => {
      const first = await events.next();
      void follow().catch((thrown: { code: string }) => {
        end = thrown.code;
      });
      return first.value;
    },
    end: () => end,
  };
}

describe.each(['in_place', 'written'] as const)('with memory %s', (memory) => {
  it.each(Object.entries(TABLE))('after %s a sandbox is who the table says', async (_, row) => {
    await using world = await makeWorld(memory);
    const { id } = await world.control.createSandbox(world.caller(), { size: SIZE });
    const before = toldTo(world, id);
    const stream = watched(world, id);
    await stream.ready();
    const states = await approvalsOf(world, id);
    const kill = async () => {
      world.runtime.alive.get(before.lifeId)?.die();
      const status = async () => (await world.control.getSandbox(world.caller(), { id })).status;
      await expect.poll(status).toBe('crashed');
    };
    const made = await row.make({ world, id, kill });
    const after = toldTo(world, made);

    const isSame = row.sandbox === 'same';
    expect(made === id).toBe(isSame);
    expect(after.hostname === before.hostname, 'hostname').toBe(isSame);
    expect(after.hostname).toBe(made.replace('_', '-'));
    expect(after.machineId === before.machineId, 'machine id').toBe(isSame);
    expect(after.lifeId).not.toBe(before.lifeId);
    expect(after.entropy).not.toBe(before.entropy);
    expect(after.entropy).toMatch(/^[0-9a-f]{128}$/);
    const generations = { same: before.generation, next: before.generation + 1, first: 1 };
    expect(after.generation).toBe(generations[row.generation]);
    const shown = await world.control.getSandbox(world.caller(), { id: made });
    expect(shown.generation).toBe(after.generation);
    const isVoid = isSame && row.generation !== 'same';
    expect(await states()).toEqual(isVoid ? ['void', 'void'] : ['pending', 'approved']);
    // A copy has none of its source's, and neither has a new generation.
    const again = await asked(world, made, 'unused');
    expect(again.state).toBe(isSame && !isVoid ? 'approved' : 'pending');
    // Nothing of the user's runs before it knows who it is.
    expect(after.calls[0]).toBe('assumeIdentity');
    expect(after.calls[1]).toBe('thaw');
    if (row.streams === 'end') await expect.poll(stream.end).toMatch(/^(link_lost|vm_lost)$/);
    else {
      expect(stream.end()).toBeNull();
      expect(toldTo(world, id)).toMatchObject({ lifeId: before.lifeId, entropy: before.entropy });
    }
  });
});

it('sixteen copies and their source have nothing of an identity in common', async () => {
  await using world = await makeWorld('in_place');
  const { id } = await world.control.createSandbox(world.caller(), { size: SIZE });
  const children = await world.control.forkSandbox(world.caller(), { id, count: 16 });
  const all = [id, ...children.flatMap((child) => ('sandbox' in child ? [child.sandbox.id] : []))];
  const told = all.map((one) => toldTo(world, one));
  expect(told).toHaveLength(17);
  for (const part of ['sandboxId', 'lifeId', 'hostname', 'machineId', 'entropy'] as const) {
    expect(new Set(told.map((one) => one[part])).size, part).toBe(17);
  }
});
