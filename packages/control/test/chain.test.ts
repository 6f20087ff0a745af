/** The audit is linked, checked and taken away as its chains are. */
import type { AuditExportEvent, Input } from '@space/contract';
import { DEFAULT_ORGANISATION, type EgressRecord, type OrganisationId, type SandboxId } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { beginOf, type ChainLink, type ChainName, follow } from '../src/chain-records.ts';
import { World } from './test-world.ts';

const OTHER = 'org_0000000000000009' as OrganisationId;
const SLOWEST_MS = { timeout: 10_000 };

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.control.close());

const verify = () => world.control.verifyAudit(world.caller(), {});
const links = (chain: ChainName) =>
  world.records.chain.links({ organisationId: DEFAULT_ORGANISATION, chain, after: 0, limit: 1_000 });

async function exported(input: Partial<Input<'exportAudit'>> = {}): Promise<readonly AuditExportEvent[]> {
  return Array.fromAsync(world.control.exportAudit(world.caller(), { follow: false, ...input }));
}

/** Some calls, each linked. */
async function linked(count: number): Promise<void> {
  for (let done = 0; done < count; done++) await world.create();
  await world.control.start();
  await expect.poll(verify, SLOWEST_MS).toMatchObject({ chains: [{ chain: 'calls', last: count }], notLinked: 0 });
}

describe('the audit that is checked', () => {
  it('is whole as long as it is what was linked', async () => {
    expect(await verify()).toEqual({ organisation: DEFAULT_ORGANISATION, chains: [], notLinked: 0 });
    await linked(3);
    expect((await verify()).chains[0]).toMatchObject({ dropped: 0, last: 3, brokenAt: null, why: null });
    await world.records.chain.drop('calls', { before: new Date(0), kept: 1, limit: 10 });
    expect((await verify()).chains[0]).toMatchObject({ dropped: 2, last: 3, brokenAt: null });
  });

  it.each<[string, (all: ChainLink[]) => void, number]>([
    ['is changed', (all) => Object.assign(all[1] as ChainLink, { entry: all[1]?.entry.replace('"ok"', '"no"') }), 2],
    ['is of another time', (all) => Object.assign(all[1] as ChainLink, { at: new Date(0) }), 2],
    ['is taken out', (all) => all.splice(1, 1), 2],
    ['is taken out at the begin', (all) => all.splice(0, 1), 1],
    ['is another one', (all) => all.splice(1, 1, all[2] as ChainLink), 2],
    ['is slipped in', (all) => all.splice(1, 0, all[0] as ChainLink), 2],
    ['has changed its place', (all) => all.splice(0, 2, all[1] as ChainLink, all[0] as ChainLink), 1],
  ])('is broken where a link %s', async (_, tamper, brokenAt) => {
    await linked(3);
    tamper(world.records.chain.kept('calls'));
    expect((await verify()).chains[0]).toMatchObject({ brokenAt, why: expect.any(String) });
  });

  it('is for auditors and admins', async () => {
    for (const role of ['developer', 'viewer', 'reviewer', 'key_holder'] as const) {
      const caller = world.caller();
      const other = { ...caller, principal: { ...caller.principal, roles: [role] } };
      await expect(world.control.verifyAudit(other, {})).rejects.toMatchObject({ code: 'forbidden' });
      const stream = Array.fromAsync(world.control.exportAudit(other, { follow: false }));
      await expect(stream).rejects.toMatchObject({ code: 'forbidden' });
    }
  });
});

describe('the audit that is exported', () => {
  it('can be checked by whoever has nothing else', async () => {
    await linked(3);
    const [anchor, ...rest] = await exported({ chain: 'calls' });
    expect(anchor).toEqual({
      type: 'anchor',
      organisation: DEFAULT_ORGANISATION,
      chain: 'calls',
      ...beginOf({ organisationId: DEFAULT_ORGANISATION, chain: 'calls' }),
    });
    const given = rest.flatMap((one) => (one.type === 'link' ? [one] : []));
    const read = given.map((one) => ({ ...one, at: new Date(one.at), entry: JSON.stringify(one.entry) }));
    const { last, brokenAt } = follow(beginOf({ organisationId: DEFAULT_ORGANISATION, chain: 'calls' }), read);
    expect([brokenAt, last.number]).toEqual([null, 3]);
    expect(given[0]?.entry).toMatchObject({ call: 'createSandbox', outcome: 'ok' });
  });

  it('begins where it is asked to, with what stands before', async () => {
    await linked(3);
    const all = await links('calls');
    const [anchor, link, ...none] = await exported({ chain: 'calls', last: 1 });
    expect([anchor, link, none.length]).toMatchObject([{ number: 2, digest: all[1]?.digest }, { number: 3 }, 0]);
    const later = new Date(Date.now() + 60_000).toISOString();
    expect(await exported({ chain: 'calls', since: later })).toMatchObject([{ type: 'anchor', number: 3 }]);
    expect(await exported({ chain: 'calls', since: new Date(0).toISOString() })).toHaveLength(4);
  });

  it('goes on with what leaves any sandbox, and says when the gateway is another one', async () => {
    const { id } = await world.create();
    const seen: EgressRecord = {
      sandboxId: id as SandboxId,
      lifeId: 'lif_0000000000000001' as EgressRecord['lifeId'],
      at: new Date().toISOString(),
      protocol: 'http',
      host: 'a.example',
      port: 443,
      method: 'GET',
      path: '/',
      calls: null,
      secret: null,
      approval: null,
      rule: 'internet',
      outcome: 'allowed',
      status: 200,
      sentBytes: 1,
      receivedBytes: 2,
      durationMs: 3,
      lostBefore: 0,
    };
    const stop = new AbortController();
    const told: AuditExportEvent[] = [];
    const tail = (async () => {
      const stream = world.control.exportAudit(world.caller(stop.signal), { chain: 'egress', follow: true });
      for await (const event of stream) told.push(event);
    })().catch(() => undefined);
    world.gateway.seen.push(seen);
    await world.control.start();
    await expect
      .poll(() => told, SLOWEST_MS)
      .toMatchObject([{ type: 'anchor' }, { entry: { sandbox: id, host: 'a.example' } }]);
    world.gateway.restart();
    await expect
      .poll(() => told.slice(2), SLOWEST_MS)
      .toMatchObject([{ entry: { event: 'gateway_changed', before: 'fake-1', now: 'fake-2' } }]);
    // Another process of ours is no other gateway.
    await world.control.close();
    await world.newControl().start();
    world.gateway.seen.push({ ...seen, host: 'b.example' });
    await expect.poll(() => links('egress'), SLOWEST_MS).toHaveLength(3);
    stop.abort();
    await tail;
    expect(await verify()).toMatchObject({
      chains: [{ chain: 'calls' }, { chain: 'egress', last: 3, brokenAt: null }],
    });
  });
});

describe('an organisation that takes all it can', () => {
  it.each(['exportAudit', 'listEvents'] as const)('leaves places for others that follow: %s', async (call) => {
    const stop = new AbortController();
    const caller = world.caller(stop.signal);
    const other = { ...caller, principal: { ...caller.principal, organisationId: OTHER } };
    const followed: AsyncIterator<unknown>[] = [];
    const follow = async (by: typeof caller) => {
      const one = world.control[call](by, { follow: true })[Symbol.asyncIterator]();
      followed.push(one);
      return (await one.next()).value;
    };
    // Nothing to tell yet of an audit but where it begins.
    const fill = async () => {
      for (let count = 0; count < 200; count++) await follow(caller);
    };
    try {
      await expect(fill()).rejects.toMatchObject({ code: 'unavailable' });
      expect(followed.length).toBeGreaterThan(10);
      expect(await follow(other)).toBeDefined();
      await followed[0]?.return?.();
      expect(await follow(caller)).toBeDefined();
    } finally {
      stop.abort();
      await Promise.all(followed.map((one) => one.return?.()));
    }
  });
});
