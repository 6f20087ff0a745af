import { randomBytes } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import type { GuestIdentity, LifeId, SandboxId } from '@space/core';
import type { AssumeIdentityRequest } from '@space/guest-proto';
import { expect, test } from 'vitest';
import { fakeAgent } from './fake-agent.ts';

const HELLO = { agentVersion: '1.2.3', contracts: ['v1'], uptimeNs: 1n, frozen: false };

const identity: GuestIdentity = {
  sandboxId: 'sbx_0123456789abcdef' as SandboxId,
  lifeId: 'lif_0123456789abcdef' as LifeId,
  generation: 3,
  hostname: 'sbx-0123456789abcdef',
  machineId: '0123456789abcdef0123456789abcdef',
  entropy: new Uint8Array(randomBytes(32)),
  isFresh: true,
};

/** What an agent answers that did as it was told. */
function obedient({ wallClockNs, hostname, machineId, generation }: AssumeIdentityRequest) {
  return { wallClockNs, hostname, machineId, generation, entropyCredited: true };
}

const silent = () => new Promise<never>(() => {});

test('hello names the agent, over one connection and one session', async () => {
  const { guest, connected, links } = await fakeAgent({ machine: { hello: () => ({ ...HELLO, frozen: true }) } });
  expect(await guest.hello()).toEqual({ agentVersion: '1.2.3', frozen: true });
  expect(connected).toEqual(['control']);
  expect(links[0]?.sessions).toHaveLength(1);
});

test('a reply that arrives in one piece is a reply', async () => {
  const { guest } = await fakeAgent({ machine: { hello: () => HELLO } }, { burst: true });
  for (let round = 0; round < 3; round += 1) expect((await guest.hello()).agentVersion).toBe('1.2.3');
});

test('hello makes text of the guest inert', async () => {
  const agentVersion = `1\u001b[31m\n\u202e${'x'.repeat(1_000)}`;
  const { guest } = await fakeAgent({ machine: { hello: () => ({ ...HELLO, agentVersion }) } });
  const answer = await guest.hello();
  expect(answer.agentVersion).toMatch(/^1 \[31m x+…$/);
  expect(answer.agentVersion.length).toBeLessThan(310);
});

test('an agent of another contract is refused by name', async () => {
  const { guest } = await fakeAgent({ machine: { hello: () => ({ ...HELLO, contracts: ['v9'] }) } });
  await expect(guest.hello()).rejects.toMatchObject({ code: 'snapshot_unfit' });
});

test('an agent that does not answer a call in time is agent_lost', async () => {
  const { guest } = await fakeAgent({ machine: { hello: silent } }, { limits: { helloMs: 50 } });
  await expect(guest.hello()).rejects.toMatchObject({ code: 'agent_lost' });
});

test('freeze passes its limit on and reports an agent that gave up as timed_out', async () => {
  let asked = 0;
  const { guest } = await fakeAgent({
    machine: {
      freeze: ({ timeoutMs }) => {
        asked = timeoutMs;
        if (timeoutMs < 100) throw new ConnectError('not all are frozen', Code.DeadlineExceeded);
        return { processes: 4 };
      },
    },
  });
  await guest.freeze(1_234);
  expect(asked).toBe(1_234);
  await expect(guest.freeze(5)).rejects.toMatchObject({ code: 'timed_out', message: 'not all are frozen' });
});

test('thaw is a call', async () => {
  let thawed = false;
  const { guest } = await fakeAgent({
    machine: {
      thaw: () => {
        thawed = true;
        return { processes: 1 };
      },
    },
  });
  await guest.thaw();
  expect(thawed).toBe(true);
});

test('an identity that is read back as given is assumed', async () => {
  let got: AssumeIdentityRequest | undefined;
  const { guest } = await fakeAgent({
    machine: {
      assumeIdentity: (request) => {
        got = request;
        return obedient(request);
      },
    },
  });
  expect(await guest.assumeIdentity(identity)).toEqual({ hasMachineId: true });
  const { isFresh: fresh, ...same } = identity;
  expect(got).toMatchObject({ ...same, fresh, generation: 3n });
  expect(Math.abs(Number(got?.wallClockNs ?? 0n) / 1e6 - Date.now())).toBeLessThan(500);
});

const SPOILT = { machineId: '' };

test('an identity without a machine id is assumed, and that is told', async () => {
  const { guest } = await fakeAgent({
    machine: { assumeIdentity: (request) => ({ ...obedient(request), ...SPOILT }) },
  });
  expect(await guest.assumeIdentity(identity)).toEqual({ hasMachineId: false });
});

const lies = {
  hostname: { hostname: 'evil\u001b[2J' },
  'machine id': { machineId: 'f'.repeat(32) },
  generation: { generation: 2n },
  'random number generator': { entropyCredited: false },
  clock: { wallClockNs: 0n },
};

const cases = Object.entries(lies).flatMap(([name, lie]) =>
  name === 'machine id'
    ? [{ name, lie }]
    : [
        { name, lie },
        { name, lie: { ...SPOILT, ...lie } },
      ],
);

test.each(cases)(
  'an identity whose $name is not as given fails the restore, naming it: $lie',
  async ({ name, lie }) => {
    const { guest } = await fakeAgent({ machine: { assumeIdentity: (request) => ({ ...obedient(request), ...lie }) } });
    const failure = guest.assumeIdentity(identity);
    await expect(failure).rejects.toMatchObject({ code: 'restore_failed', message: expect.stringContaining(name) });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that there are none is the point.
    await expect(failure).rejects.toMatchObject({ message: expect.not.stringMatching(/[\u0000-\u001f]/) });
  },
);

test('a clock that was late because the first answers were slow is set again', async () => {
  let tries = 0;
  const { guest } = await fakeAgent({
    machine: {
      assumeIdentity: async (request) => {
        tries += 1;
        if (tries <= 3) await new Promise((resolve) => setTimeout(resolve, 600));
        return obedient(request);
      },
    },
  });
  await guest.assumeIdentity(identity);
  expect(tries).toBe(4);
});

test('an agent that cannot set the identity fails the restore', async () => {
  const { guest } = await fakeAgent({
    machine: {
      assumeIdentity: () => {
        throw new ConnectError('EPERM sethostname', Code.Internal);
      },
    },
  });
  await expect(guest.assumeIdentity(identity)).rejects.toMatchObject({ code: 'restore_failed' });
});

test('closing ends calls, tells why, and can be repeated', async () => {
  const { guest } = await fakeAgent({ machine: { hello: silent } });
  const call = guest.hello();
  await guest.close();
  await guest.close();
  await expect(call).rejects.toMatchObject({ code: 'link_lost' });
  await expect(guest.hello()).rejects.toMatchObject({ code: 'link_lost' });
  expect(await guest.closed).toMatch(/closed/);
});

test('a link that breaks ends every call on both ports as link_lost', async () => {
  const { guest, cut } = await fakeAgent({ machine: { hello: silent }, files: { stat: silent } });
  const calls = [guest.hello(), guest.stat({ path: '/' })];
  await new Promise((resolve) => setTimeout(resolve, 20));
  cut();
  for (const settled of await Promise.allSettled(calls)) {
    expect(settled).toMatchObject({ status: 'rejected', reason: { code: 'link_lost' } });
  }
  await guest.closed;
});

test('when the VM has ended, that is the reason', async () => {
  const end = Promise.withResolvers<{ detail: string }>();
  const { guest, cut } = await fakeAgent({ machine: { hello: silent } }, { vmEnded: end.promise });
  const call = guest.hello();
  await new Promise((resolve) => setTimeout(resolve, 20));
  cut();
  setTimeout(() => end.resolve({ detail: 'killed by signal 9' }), 30);
  await expect(call).rejects.toMatchObject({ code: 'vm_lost', message: 'killed by signal 9' });
  expect(await guest.closed).toBe('killed by signal 9');
});
