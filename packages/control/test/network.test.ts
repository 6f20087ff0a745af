import type { Input } from '@space/contract';
import {
  AppError,
  DEFAULT_NETWORK_POLICY,
  DEFAULT_ORGANISATION,
  type EgressRecord,
  type NetworkPolicy,
  NO_CONSTRAINTS,
  type SandboxId,
} from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { World } from './test-world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.control.close());

const SLOWEST_MS = { timeout: 5_000 };
const WITH_HOST: NetworkPolicy = {
  preset: 'none',
  allow: [{ host: 'api.example.com', protocol: 'http', ports: [443], access: 'write', path: '/' }],
  ask: [],
  deny: [],
};
const CONSTRAINTS: Input<'setNetwork'> = { preset: 'packages', allow: [], ask: [], deny: [], readOnly: [] };

async function create(network?: NetworkPolicy): Promise<SandboxId> {
  const input = (network === undefined ? {} : { network }) as Input<'createSandbox'>;
  return (await world.control.createSandbox(world.caller(), input)).id;
}

/** Of each life that the node is asked to begin: whose, where the gateway knows its rules, and whom it is to trust. */
function begun(): { readonly id: SandboxId | null; readonly trust: string | undefined }[] {
  const all: { readonly id: SandboxId | null; readonly trust: string | undefined }[] = [];
  const { node, gateway } = world;
  const [start, rewind] = [node.start.bind(node), node.rewind.bind(node)];
  const note = ({ sandboxId, trust }: { readonly sandboxId: SandboxId; readonly trust?: string }) =>
    all.push({ id: gateway.rules.has(sandboxId) ? sandboxId : null, trust });
  node.start = (order) => {
    note(order);
    return start(order);
  };
  node.rewind = (order) => {
    note(order);
    return rewind(order);
  };
  return all;
}

describe('the rules of a sandbox', () => {
  it('are in the gateway before a life of it begins: at create, fork, resume, wake and rewind', async () => {
    const lives = begun();
    const id = await create(WITH_HOST);
    expect(world.gateway.rules.get(id)).toEqual({
      sandboxId: id,
      organisationId: DEFAULT_ORGANISATION,
      policy: WITH_HOST,
      constraints: NO_CONSTRAINTS,
      secrets: [],
    });
    const [fork] = await world.control.forkSandbox(world.caller(), { id, count: 1 });
    if (fork === undefined || !('sandbox' in fork)) throw new Error('the fork was made');
    expect(fork.sandbox.network).toEqual(WITH_HOST);
    await world.control.pauseSandbox(world.caller(), { id });
    world.gateway.restart();
    await world.control.resumeSandbox(world.caller(), { id });
    const point = await world.control.takeSnapshot(world.caller(), { id });
    world.gateway.restart();
    await world.control.rewindSandbox(world.caller(), { id, to: point.id, keepPresent: true });
    const trust = `certificate of ${DEFAULT_ORGANISATION}\n`;
    expect(lives).toEqual([id, fork.sandbox.id, id, id].map((whose) => ({ id: whose, trust })));
  });

  it('are those for packages when nothing is said', async () => {
    const id = await create();
    expect(world.gateway.rules.get(id)?.policy).toEqual(DEFAULT_NETWORK_POLICY);
    expect((await world.control.getSandbox(world.caller(), { id })).network).toEqual(DEFAULT_NETWORK_POLICY);
  });

  it('that change are in force when the call answers, and are what is shown', async () => {
    const id = await create();
    const changed = await world.control.updateSandbox(world.caller(), { id, network: WITH_HOST as never });
    expect(changed.network).toEqual(WITH_HOST);
    expect(world.gateway.rules.get(id)?.policy).toEqual(WITH_HOST);
  });

  it('that could not be set at once are set before the call answers, or it fails, to be repeated', async () => {
    const id = await create();
    const { gateway } = world;
    const setRules = gateway.setRules.bind(gateway);
    let failures = 1;
    gateway.setRules = async (rules) => {
      if (failures-- > 0) throw new AppError('unavailable', 'The line broke.');
      await setRules(rules);
    };
    await world.control.updateSandbox(world.caller(), { id, network: WITH_HOST as never });
    expect(gateway.rules.get(id)?.policy).toEqual(WITH_HOST);
    failures = 2;
    const narrower: Input<'updateSandbox'> = { id, network: { preset: 'none', allow: [], ask: [], deny: [] } };
    await expect(world.control.updateSandbox(world.caller(), narrower)).rejects.toMatchObject({ code: 'unavailable' });
    await world.control.updateSandbox(world.caller(), narrower);
    expect(gateway.rules.get(id)?.policy).toEqual(narrower.network);
  });

  it('go with it', async () => {
    const id = await create(WITH_HOST);
    await world.control.deleteSandbox(world.caller(), { id });
    expect(world.gateway.rules.size).toBe(0);
  });

  it('are told to a gateway that takes the place of another', async () => {
    const id = await create(WITH_HOST);
    await world.control.start();
    await expect.poll(() => world.gateway.rules.has(id), SLOWEST_MS).toBe(true);
    world.gateway.restart();
    await expect.poll(() => world.gateway.rules.get(id)?.policy, SLOWEST_MS).toEqual(WITH_HOST);
  });

  it('come later when the gateway does not answer: a life begins all the same, with no way out', async () => {
    await world.control.start();
    world.gateway.isDown = true;
    const id = await create(WITH_HOST);
    expect(world.gateway.rules.size).toBe(0);
    expect((await world.control.readiness()).checks).toContainEqual(
      expect.objectContaining({ name: 'gateway', ready: false }),
    );
    await world.control.updateSandbox(world.caller(), {
      id,
      network: { preset: 'internet', allow: [], ask: [], deny: [] },
    });
    world.gateway.isDown = false;
    await expect.poll(() => world.gateway.rules.get(id)?.policy.preset, SLOWEST_MS).toBe('internet');
  });
});

describe('the constraints of an organisation', () => {
  it('refuse a wider policy by what exceeds, at create and at a change, and nothing is made', async () => {
    await world.control.setNetwork(world.caller(), CONSTRAINTS);
    await expect(create(WITH_HOST)).rejects.toMatchObject({
      code: 'network_too_wide',
      facts: { exceeds: 'allow 1: api.example.com' },
    });
    const id = await create();
    const wider = { id, network: { preset: 'internet' as const, allow: [], ask: [], deny: [] } };
    await expect(world.control.updateSandbox(world.caller(), wider)).rejects.toMatchObject({
      code: 'network_too_wide',
    });
    expect(world.gateway.rules.get(id)?.policy).toEqual(DEFAULT_NETWORK_POLICY);
    expect((await world.control.listSandboxes(world.caller(), { limit: 10 })).sandboxes).toHaveLength(1);
  });

  it('that change reach what runs before the call answers', async () => {
    const id = await create(WITH_HOST);
    const set = await world.control.setNetwork(world.caller(), { ...CONSTRAINTS, deny: ['evil.example'] });
    expect(set).toEqual({ ...CONSTRAINTS, deny: ['evil.example'], privateHosts: [] });
    expect(world.gateway.rules.get(id)?.constraints).toEqual(set);
    expect(await world.control.getNetwork(world.caller(), {})).toEqual(set);
  });

  it('keep the private hosts that who runs the installation has named', async () => {
    const id = await create();
    const privateHosts = ['git.corp.example'];
    await world.control.setPrivateHosts(world.caller(), { id: DEFAULT_ORGANISATION, privateHosts });
    await world.control.setNetwork(world.caller(), CONSTRAINTS);
    expect(world.gateway.rules.get(id)?.constraints).toEqual({ ...CONSTRAINTS, privateHosts });
  });
});

describe('what the gateway has seen', () => {
  const seen = (sandboxId: SandboxId, host: string): EgressRecord => ({
    sandboxId,
    lifeId: 'lif_0000000000000001' as EgressRecord['lifeId'],
    at: new Date().toISOString(),
    protocol: 'http',
    host,
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
  });

  it('is kept, each once, over a restart of the gateway, and is listed', async () => {
    const id = await create();
    const listed = async () => {
      const { records } = await world.control.listEgress(world.caller(), { id, limit: 10 });
      return records.map(({ host }) => host).sort();
    };
    world.gateway.seen.push(seen(id, 'a.example'));
    await world.control.start();
    await expect.poll(listed, SLOWEST_MS).toEqual(['a.example']);
    world.gateway.restart();
    world.gateway.seen.push(seen(id, 'b.example'), seen(id, 'c.example'));
    await expect.poll(listed, SLOWEST_MS).toEqual(['a.example', 'b.example', 'c.example']);
    await expect.poll(() => world.gateway.seen.length, SLOWEST_MS).toBe(0);
  });
});
