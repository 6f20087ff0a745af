/** What the records hold of a tenant's content, and who sees it when. */
import type { SandboxId } from '@space/core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { RecordedSandbox } from '../src/records.ts';
import { Keyed, OWN } from './keyed-world.ts';
import { NO_LEFTOVERS } from './test-world.ts';

const MARKER = 'MARKER-5e1f';
const ENV = { TOKEN: MARKER };
const METADATA = { team: MARKER, [`${MARKER}-key`]: 'x' };

let world: Keyed;
beforeEach(() => {
  world = new Keyed();
});
afterEach(() => world.control.close());

const made = async (): Promise<SandboxId> => (await world.create({ env: ENV, metadata: METADATA })).id as SandboxId;
const shut = (id: SandboxId) => world.pause(id).then(() => world.node.closeVault({ vault: OWN, endLives: false }));
const list = async () => (await world.control.listSandboxes(world.caller(), { limit: 100 })).sandboxes;

async function kept(id: SandboxId): Promise<RecordedSandbox> {
  const found = await world.records.findSandbox(id);
  if (found === null) throw new Error('it is not there');
  return found;
}

it('is ciphertext in the records, and shown as it was given', async () => {
  const id = await made();
  const inRecords = Buffer.concat([
    Buffer.from(JSON.stringify(await kept(id))),
    (await kept(id)).sealed ?? Buffer.alloc(0),
  ]);
  expect(inRecords.includes(MARKER)).toBe(false);
  expect(await world.get(id)).toMatchObject({ env: ENV, metadata: METADATA });
  expect(await world.get(id)).not.toHaveProperty('hidden');
  const [fork] = await world.fork(id);
  if (fork === undefined || 'error' in fork) throw new Error('there is no fork');
  expect(await world.get(fork.sandbox.id)).toMatchObject({ env: ENV, metadata: METADATA });
  expect((await kept(fork.sandbox.id as SandboxId)).sealed).not.toEqual((await kept(id)).sealed);
  expect(await world.exec(id, 'env TOKEN')).toBe(MARKER);
});

it('says nothing while its vault is closed, which a read does not open, and says that', async () => {
  const id = await made();
  await world.create();
  const plain = await world.create();
  await Promise.all((await list()).filter(({ id: other }) => other !== id).map(({ id: other }) => world.pause(other)));
  await shut(id);
  world.restart();
  const asked = world.kms.asked.unwrap;
  const listed = await list();
  expect(listed).toHaveLength(3);
  expect(listed.find((one) => one.id === id)).toMatchObject({ metadata: {}, hidden: true, status: 'paused' });
  expect(listed.find((one) => one.id === plain.id)).not.toHaveProperty('hidden');
  expect(await world.get(id)).toMatchObject({ env: {}, metadata: {}, hidden: true });
  expect([world.kms.asked.unwrap, world.isOpen()]).toEqual([asked, false]);
  await world.resume(id);
  expect(await world.get(id)).toMatchObject({ env: ENV, metadata: METADATA });
});

it('is not taken for empty by what uses it: a fork, a command, another process', async () => {
  const id = await made();
  const { id: snapshot } = await world.snapshot(id, 'point');
  await shut(id);
  world.restart();
  const [fork] = await world.fork(id, 1, snapshot);
  if (fork === undefined || 'error' in fork) throw new Error('there is no fork');
  expect(await world.exec(fork.sandbox.id, 'env TOKEN')).toBe(MARKER);
  // The vault is open, and this process has its key not yet.
  world.restart();
  expect(await world.exec(fork.sandbox.id, 'env TOKEN')).toBe(MARKER);
  // Nor while the KMS is away: it is told to ask again.
  world.restart();
  world.kms.mood = 'down';
  await expect(world.exec(fork.sandbox.id, 'env TOKEN')).rejects.toMatchObject({ code: 'vault_closed' });
  await expect(world.fork(fork.sandbox.id)).rejects.toMatchObject({ code: 'kms_unavailable' });
  world.kms.mood = 'up';
});

it('of one sandbox is not opened in the row of another, and hides nothing of the others', async () => {
  const [one, two] = [await made(), await made()];
  const other = await kept(two);
  await swap(one, other.sealed);
  expect(await world.get(one)).toMatchObject({ env: {}, hidden: true });
  await expect(world.exec(one, 'env TOKEN')).rejects.toMatchObject({ code: 'vault_key_wrong' });
  expect(await list()).toHaveLength(2);
  expect(await world.get(two)).toMatchObject({ env: ENV });
});

it('is found by what is said of it, and by nothing that is not', async () => {
  const id = await made();
  const others = [await world.create({ metadata: { team: 'blue' } }), await world.create()];
  const find = (metadata: Record<string, string>) =>
    world.control.listRuns(world.caller(), {
      metadata,
      statuses: ['running', 'paused'],
      counted: ['running', 'paused'],
      order: 'asc',
      limit: 10,
    });
  const ids = async (metadata: Record<string, string>) => {
    const { sandboxes, count } = await find(metadata);
    expect(count).toBe(sandboxes.length);
    return sandboxes.map((sandbox) => sandbox.id);
  };
  expect(await ids({ team: MARKER })).toEqual([id]);
  expect(await ids(METADATA)).toEqual([id]);
  expect(await ids({ team: 'blue' })).toEqual([others[0]?.id]);
  expect(await ids({ team: 'x' })).toEqual([]);
  expect(await ids({})).toHaveLength(3);
  // Reading content is what the filter is for, so it opens the vault.
  for (const one of [id, ...others.map((other) => other.id)]) await world.pause(one);
  await world.node.closeVault({ vault: OWN, endLives: false });
  world.restart();
  expect(await ids({ team: MARKER })).toEqual([id]);
});

it('is ciphertext in the answer that is kept of a call, which is the same when it is asked for again', async () => {
  let answer = '';
  const keep = world.records.calls.keepAnswer.bind(world.records.calls);
  world.records.calls.keepAnswer = (call, kept) => {
    answer = kept;
    return keep(call, kept);
  };
  const caller = { ...world.caller(), idempotencyKey: 'once' };
  const first = await world.control.createSandbox(caller, { env: ENV, metadata: METADATA });
  expect(answer).toMatch(/^sealed:1:/);
  expect(answer).not.toContain(MARKER);
  await shut(first.id as SandboxId);
  world.restart();
  expect(
    await world.control.createSandbox({ ...caller, requestId: 'again' }, { env: ENV, metadata: METADATA }),
  ).toEqual(first);
  world.restart();
  world.kms.mood = 'down';
  await world.node.closeVault({ vault: OWN, endLives: false });
  const repeated = world.control.createSandbox({ ...caller, requestId: 'more' }, { env: ENV, metadata: METADATA });
  await expect(repeated).rejects.toMatchObject({ code: 'kms_unavailable' });
});

/** What is kept of the answers of calls, from now on. */
function answersKept(): string[] {
  const answers: string[] = [];
  const keep = world.records.calls.keepAnswer.bind(world.records.calls);
  world.records.calls.keepAnswer = (call, answer, ...rest) => {
    answers.push(answer);
    return keep(call, answer, ...rest);
  };
  return answers;
}

it('is not kept of an answer whose key is not at hand: asked again, the call tells that it was carried out, and is not again', async () => {
  const { id } = await world.create();
  world.restart();
  const answers = answersKept();
  const caller = { ...world.caller(), idempotencyKey: 'once' };
  const make = () => world.control.makeDirectory(caller, { id, path: `/${MARKER}`, parents: true });
  expect(await make()).toMatchObject({ name: MARKER });
  expect(answers).toHaveLength(1);
  expect(answers[0]).not.toContain(MARKER);
  await expect(make()).rejects.toMatchObject({ code: 'vault_closed', message: expect.stringContaining('once') });
  expect(answers).toHaveLength(1);
});

it('is kept of an answer under the key of the vault that it is about, where several are open', async () => {
  const first = await world.create();
  const wish = { name: 'next', kms: 'local', key: 'a', isDefault: true, onRevoke: 'pause', outageMs: null } as const;
  await world.control.createVault(world.holder(), wish);
  const second = await world.create();
  const answers = answersKept();
  for (const { id } of [first, second]) {
    await world.control.makeDirectory({ ...world.caller(), idempotencyKey: id }, { id, path: '/made', parents: true });
  }
  const vaults = await Promise.all([first, second].map(async ({ id }) => (await kept(id as SandboxId)).vault));
  expect(new Set(vaults).size).toBe(2);
  expect(answers.map((answer) => answer.split(':')[2])).toEqual(vaults);
});

it('is ciphertext in a note, which is hidden while the vault is closed, and lost by nothing', async () => {
  const id = await made();
  const note = `a note: ${MARKER}`;
  const { id: point } = await world.control.takeSnapshot(world.caller(), { id, name: 'point', note });
  const noteOf = async () => (await world.control.getSnapshot(world.caller(), { id: point })).note;
  expect(await noteOf()).toBe(note);
  expect(JSON.stringify(await world.records.findSnapshot(point as never))).not.toContain(MARKER);
  await world.pause(id);
  const { id: head } = await world.control.takeSnapshot(world.caller(), { id, note: 'of a paused one' });
  await world.control.takeSnapshot(world.caller(), { id, name: 'named-later' });
  await world.node.closeVault({ vault: OWN, endLives: false });
  world.restart();
  expect(await world.control.getSnapshot(world.caller(), { id: point })).toMatchObject({ note: null, hidden: true });
  const { snapshots } = await world.control.listSnapshots(world.caller(), { limit: 10 });
  expect(snapshots.filter(({ hidden }) => hidden)).toHaveLength(2);
  await world.control.updateSnapshot(world.caller(), { id: point, name: 'renamed' });
  await world.resume(id);
  expect(await noteOf()).toBe(note);
  expect((await world.control.getSnapshot(world.caller(), { id: head })).note).toBe('of a paused one');
  await world.control.updateSnapshot(world.caller(), { id: point, note: 'another' });
  expect(await noteOf()).toBe('another');
  await world.control.updateSnapshot(world.caller(), { id: point, note: null });
  expect(await world.control.getSnapshot(world.caller(), { id: point })).toMatchObject({ note: null });
  expect(await world.control.getSnapshot(world.caller(), { id: point })).not.toHaveProperty('hidden');
});

it('goes with what is deleted, and nothing is recorded of what could not be sealed', async () => {
  const id = await made();
  await world.remove(id);
  expect(await kept(id)).toMatchObject({ sealed: null, env: {}, metadata: {} });
  await world.node.closeVault({ vault: OWN, endLives: false });
  world.restart();
  world.kms.mood = 'down';
  await expect(made()).rejects.toMatchObject({ code: 'kms_unavailable' });
  expect(await world.records.allSandboxes()).toEqual([]);
  expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
});

/** As somebody would who can write into the database. */
async function swap(id: SandboxId, sealed: Uint8Array | null): Promise<void> {
  const find = world.records.findSandbox.bind(world.records);
  world.records.findSandbox = async (asked) => {
    const found = await find(asked);
    return found === null || asked !== id ? found : { ...found, sealed };
  };
}
