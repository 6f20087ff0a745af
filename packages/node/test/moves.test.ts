/** A sandbox from one node to another through an archive that both reach: as orders, also over the link. */
import { hash } from 'node:crypto';
import {
  type AppError,
  archivePath,
  DEFAULT_PROJECT,
  DEFAULT_VAULT,
  type Digest,
  formatArchiveRef,
  newId,
  parseArchiveRef,
  type SandboxId,
  type SnapshotId,
} from '@space/core';
import { describe, expect, it } from 'vitest';
import { makeWorld, type World, type WorldKind } from './world.ts';

const SIZE = { vcpus: 1, memoryMib: 1, diskMib: 1 };
const PLACE = { location: 'default' };
const KINDS: readonly WorldKind[] = [
  { memory: 'in_place', reached: 'itself' },
  { memory: 'written', reached: 'over the link' },
];

interface Pair extends AsyncDisposable {
  readonly here: World;
  readonly there: World;
  /** Paused at the last of its points; it was told `one`, then `two`. */
  readonly id: SandboxId;
  readonly points: readonly SnapshotId[];
}

async function pair(kind: WorldKind): Promise<Pair> {
  const here = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE);
  const there = await makeWorld(kind, 100_000, { memoryMib: 0 }, SIZE, here.archive);
  const id = await here.create();
  await here.run(id, 'set at one');
  const first = await here.snapshot(id);
  await here.run(id, 'set at two');
  const points = [first, await here.pause(id)];
  await there.ready();
  const dispose = async () => {
    await here[Symbol.asyncDispose]();
    await there[Symbol.asyncDispose]();
  };
  return { here, there, id, points, [Symbol.asyncDispose]: dispose };
}

const GRANT = { binding: 'api', placeholder: 'space-secret-0123456789abcdefghjk', env: 'API_TOKEN' };

async function leave({ here, id, points }: Pair): Promise<string> {
  const order = { vault: DEFAULT_VAULT, sandboxId: id, epoch: here.epoch(), ...PLACE, projectId: DEFAULT_PROJECT };
  const move = { number: 1, generation: 1, settings: { name: 'one' }, secrets: [GRANT] };
  const facts = { template: 'base', points, base: null, move, claimant: 'here' };
  return (await here.node.handOver({ ...order, ...facts })).archive;
}

function come(world: World, id: SandboxId, archive: string, claimant: string) {
  const order = { vault: DEFAULT_VAULT, sandboxId: id, epoch: world.epoch(), ...PLACE, archive, claimant };
  return world.node.arrive(order);
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => 'done',
    (thrown: AppError) => thrown.code ?? thrown.message,
  );
}

async function realIn(world: World, id: SandboxId): Promise<string> {
  const held = (await world.node.inspectAll()).find((one) => one.sandboxId === id);
  return held?.real ?? 'absent';
}

/** Each kind of step of the work, where it comes first and last. */
async function stepsOf(faults: World['faults'], work: () => Promise<unknown>) {
  const before = faults.steps.length;
  await work();
  const counts = Map.groupBy(faults.steps.slice(before), (step) => step);
  return [...counts].flatMap(([step, { length }]) => [...new Set([1, length])].map((nth) => [step, nth] as const));
}

function failAt(faults: World['faults'], step: string, nth: number): void {
  for (let passed = 1; passed < nth; passed++) faults.holdNext(step).letGo();
  faults.failNext(step);
}

describe.each(KINDS)('a move, memory $memory, reached $reached', (kind) => {
  it('takes memory and points along, under the same names, and leaves what is never started again', async () => {
    await using both = await pair(kind);
    const { here, there, id, points } = both;
    const archive = await leave(both);
    expect(await realIn(here, id)).toBe('moved');
    const startHere = () => here.start(id, points[1] as SnapshotId);
    expect(await codeOf(startHere())).toBe('wrong_state');
    await here.restart();
    expect(await codeOf(startHere())).toBe('wrong_state');
    expect(await leave(both)).toBe(archive);
    const summary = await there.node.readArchive({ ...PLACE, archive });
    expect(summary.move).toEqual({ number: 1, generation: 1, settings: { name: 'one' }, secrets: [GRANT] });
    expect(summary.points.map(({ snapshotId }) => snapshotId)).toEqual(points);
    expect(await come(there, id, archive, 'there')).toEqual({ head: points[1], generation: 1 });
    expect(await realIn(there, id)).toBe('paused');
    await there.start(id, points[1] as SnapshotId);
    expect(await there.run(id, 'get at')).toBe('two');
    await there.rewind(id, points[0] as SnapshotId);
    expect(await there.run(id, 'get at')).toBe('one');
    expect(await codeOf(come(here, id, archive, 'here'))).toBe('move_taken');
    expect(await realIn(here, id)).toBe('moved');
  });

  it('is undone by who left it, and nobody else can have it then', async () => {
    await using both = await pair(kind);
    const { here, there, id, points } = both;
    const archive = await leave(both);
    await come(here, id, archive, 'here');
    expect(await codeOf(come(there, id, archive, 'there'))).toBe('move_taken');
    expect(await there.node.points(DEFAULT_VAULT)).toEqual([await there.ready()]);
    await here.start(id, points[1] as SnapshotId);
    expect(await here.run(id, 'get at')).toBe('two');
  });
});

describe('a move that fails at any step', () => {
  const [kind] = KINDS as [WorldKind];

  it('leaves the sandbox paused or moved; repeated it is moved, and one has it', async () => {
    await using probe = await pair(kind);
    const steps = await stepsOf(probe.here.faults, () => leave(probe));
    expect(new Set(steps.map(([step]) => step)).size).toBeGreaterThanOrEqual(5);
    for (const [step, nth] of steps) {
      await using both = await pair(kind);
      const { here, there, id } = both;
      failAt(here.faults, step, nth);
      await codeOf(leave(both));
      expect(['paused', 'moved'], `${step} #${nth}`).toContain(await realIn(here, id));
      const archive = await leave(both);
      expect(await codeOf(come(there, id, archive, 'there')), `${step} #${nth}`).toBe('done');
      expect(await codeOf(come(here, id, archive, 'here')), `${step} #${nth}`).toBe('move_taken');
    }
  });

  it('at the end of the node, is what the next one finds, and repeated is done', async () => {
    await using probe = await pair(kind);
    const steps = await stepsOf(probe.here.faults, () => leave(probe));
    for (const [step, nth] of steps.filter(([name]) => name.startsWith('vault.'))) {
      await using both = await pair(kind);
      const { here, there, id } = both;
      for (let passed = 1; passed < nth; passed++) here.faults.holdNext(step).letGo();
      const held = here.faults.holdNext(step);
      void leave(both).catch(() => undefined);
      await held.reached;
      await here.die();
      held.letGo();
      const archive = await leave(both);
      expect(await codeOf(come(there, id, archive, 'there')), `${step} #${nth}`).toBe('done');
    }
  });

  it('as it is taken up, leaves nothing of it, or it; repeated it is there', async () => {
    await using probe = await pair(kind);
    const name = await leave(probe);
    const probed = [probe.here.faults, probe.there.faults].map(async (faults, at) => {
      if (at === 1) return [];
      return stepsOf(faults, () => come(probe.there, probe.id, name, 'there'));
    });
    const ofArchive = ((await probed[0]) ?? []).map((step) => ['archive', ...step] as const);
    const ofVault = ['vault.receive', 'vault.write', 'vault.commit'].map((step) => ['vault', step, 1] as const);
    for (const [where, step, nth] of [...ofArchive, ...ofVault]) {
      await using both = await pair(kind);
      const { here, there, id, points } = both;
      const archive = await leave(both);
      failAt((where === 'archive' ? here : there).faults, step, nth);
      const code = await codeOf(come(there, id, archive, 'there'));
      if (code !== 'done') {
        expect(await realIn(there, id), step).toBe('absent');
        expect(await there.node.points(DEFAULT_VAULT), step).toEqual([await there.ready()]);
        expect((await there.leftovers()).staging, step).toEqual([]);
      }
      await come(there, id, archive, 'there');
      await there.start(id, points[1] as SnapshotId);
      expect(await there.run(id, 'get at'), step).toBe('two');
    }
  });
});

describe('an archive of a move that somebody had in hand', () => {
  it('takes no point for its own that is another sandbox’s, and nothing for a claim that is none', async () => {
    await using both = await pair(KINDS[0] as WorldKind);
    const { here, there, id } = both;
    const victim = await there.create();
    const theirs = await there.snapshot(victim);
    const archive = await leave(both);
    const ref = parseArchiveRef(archive);
    if (ref === undefined) return expect.unreachable('it has a name');
    const text = Buffer.from(here.archive.objects.get(archivePath({ kind: 'index', ...ref })) ?? []).toString();
    const forge = (change: (text: string) => string) => {
      const bytes = Buffer.from(change(text));
      const forged = { ...ref, digest: hash('sha256', bytes, 'hex') as Digest };
      here.archive.objects.set(archivePath({ kind: 'index', ...forged }), bytes);
      return formatArchiveRef(forged);
    };
    const before = await there.node.points(DEFAULT_VAULT);
    const named = forge((whole) => whole.replaceAll(both.points[1] as string, theirs));
    expect(await codeOf(come(there, id, named, 'there'))).toBe('archive_damaged');
    const unmoved = forge((whole) => whole.replace(/,"move":\{.*\}\}/, '}'));
    expect(await codeOf(come(there, id, unmoved, 'there'))).toBe('bad_request');
    for (const [from, to] of [
      ['"number":1', '"number":0'],
      ['"number":1', '"number":1.5'],
      ['"nonce":"', '"nonce":"x'],
      ['"settings":{', '"more":1,"settings":{'],
      ['"format":2', '"format":1'],
      ['"binding":"api"', '"binding":"../api"'],
      ['"placeholder":"space-secret-', '"placeholder":"another-secret-'],
      ['"env":"API_TOKEN"', '"env":"A=B"'],
      ['"secrets":[', `"secrets":[${JSON.stringify(GRANT)},`],
    ] as const) {
      const wrong = forge((whole) => whole.replace(from, to));
      expect(await codeOf(come(there, id, wrong, 'there')), to).toBe('archive_damaged');
    }
    expect(await codeOf(come(there, newId('sandbox', there.chance), archive, 'there'))).toBe('bad_request');
    for (const claim of ['', 'no JSON', '{}', '{"kind":"space claim","format":2,"by":"there"}', 'x'.repeat(2000)]) {
      here.archive.objects.set(archivePath({ kind: 'claim', ...ref }), Buffer.from(claim));
      expect(await codeOf(come(there, id, archive, 'there')), claim.slice(0, 20)).toBe('archive_damaged');
    }
    expect(await there.node.points(DEFAULT_VAULT)).toEqual(before);
    expect(await realIn(there, id)).toBe('absent');
    expect(await there.run(victim, 'get at')).toBe('');
  });
});
