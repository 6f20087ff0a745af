/** Archives of vaults that have a key: encrypted under it, and read where the KMS allows it. */
import { DEFAULT_ORGANISATION, parseArchiveRef, type VaultName } from '@space/core';
import { describe, expect, it } from 'vitest';
import { Keyed, OWN } from './keyed-world.ts';
import { World } from './test-world.ts';

const place = { location: 'default', timeline: false } as const;

async function archived(world: Keyed, counted = 3) {
  const { id } = await world.create({ env: { TOKEN: 'secret' } });
  await world.count(id, counted);
  const { archive } = await world.control.exportSandbox(world.caller(), { id, ...place });
  return { id, archive };
}

function imported(world: World, archive: string, as: 'copy' | 'move' = 'copy') {
  return world.control.importSandbox(world.caller(), { archive, location: 'default', as, boot: false });
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'ok',
    (thrown: { code?: string }) => thrown.code ?? String(thrown),
  );
}

/** Another installation, with the same storage of archives, and access to the same KMS or to one of its own. */
function elsewhere(world: Keyed, { sameKms }: { readonly sameKms: boolean }): Keyed {
  const other = new Keyed(sameKms ? world.kms : undefined);
  other.node.archives = world.node.archives;
  return other;
}

describe('an archive of a vault with a key', () => {
  it('is encrypted, with its key along, and is imported as it was', async () => {
    const world = new Keyed();
    const { archive } = await archived(world);
    expect(world.node.archives.keyOf({ location: 'default', archive })).toMatchObject({
      organisationId: DEFAULT_ORGANISATION,
      vault: OWN,
    });
    const { id } = await imported(world, archive);
    expect(await world.exec(id, 'read')).toBe('3');
  });

  it('is encrypted by a key that is overwritten once it was used', async () => {
    const world = new Keyed();
    const orders = [(await archived(world)).archive, (await archived(world, 2)).archive].map((archive) =>
      world.node.archives.orderOf(archive),
    );
    for (const order of orders) {
      expect(order?.seal?.key).toHaveLength(32);
      expect(order?.seal?.key.every((byte) => byte === 0)).toBe(true);
    }
  });

  it('is read by another installation that the KMS allows it, and by no other', async () => {
    const world = new Keyed();
    const { archive } = await archived(world);
    const allowed = elsewhere(world, { sameKms: true });
    expect(await allowed.exec((await imported(allowed, archive)).id, 'read')).toBe('3');
    expect(await codeOf(imported(elsewhere(world, { sameKms: false }), archive))).toBe('vault_key_wrong');
    const plain = new World();
    plain.node.archives = world.node.archives;
    expect(await codeOf(imported(plain, archive))).toBe('kms_unavailable');
  });

  it('moves with its sandbox, which comes back when the move is undone', async () => {
    const world = new Keyed();
    const { id } = await archived(world);
    const { archive } = await world.control.moveSandbox(world.caller(), { id, ...place });
    expect(world.node.archives.keyOf({ location: 'default', archive })).not.toBeNull();
    await world.control.undoMove(world.caller(), { id });
    expect(await world.exec(id, 'read')).toBe('3');
    const again = await world.control.moveSandbox(world.caller(), { id, ...place });
    const other = elsewhere(world, { sameKms: true });
    expect((await imported(other, again.archive, 'move')).id).toBe(id);
    expect(await other.exec(id, 'read')).toBe('3');
  });

  it('cannot be read once its vault is revoked, also elsewhere when the KMS refuses; with the key back it can', async () => {
    const world = new Keyed();
    const { archive } = await archived(world);
    const other = elsewhere(world, { sameKms: true });
    await world.revoke();
    expect(await codeOf(imported(world, archive))).toBe('vault_revoked');
    await world.reinstate();
    expect(await codeOf(imported(world, archive))).toBe('ok');
    world.kms.set('installation', 'disabled');
    expect(await codeOf(imported(other, archive))).toBe('kms_refused');
    world.kms.set('installation', 'enabled');
    world.kms.mood = 'down';
    expect(await codeOf(imported(other, archive))).toBe('kms_unavailable');
    world.kms.mood = 'up';
    expect(await codeOf(imported(other, archive))).toBe('ok');
  });

  it('has each reading of its key in the audit', async () => {
    const world = new Keyed();
    const { archive } = await archived(world);
    await imported(world, archive);
    const { records } = await world.control.listAudit(world.caller(), { limit: 100 });
    const calls = records.filter(({ call }) => call === 'unwrap/archive');
    expect(calls.length).toBeGreaterThan(0);
    expect(calls[0]).toMatchObject({ target: OWN, outcome: 'ok' });
  });

  it('that names the vault of another organisation as its own does not open', async () => {
    const world = new Keyed();
    const { archive } = await archived(world);
    const order = world.node.archives.orderOf(archive);
    const ref = parseArchiveRef(archive);
    if (order?.seal === undefined || ref === undefined) return expect.unreachable('it is encrypted');
    const wrapped = { ...order.seal.wrapped, vault: 'other' as VaultName };
    const seal = { key: new Uint8Array(32), wrapped };
    world.node.archives.put(archive, { order: { ...order, seal }, points: [] });
    expect(await codeOf(imported(world, archive))).toBe('vault_key_wrong');
  });
});
