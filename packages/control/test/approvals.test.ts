import type { Caller } from '@space/contract';
import { DEFAULT_PROJECT, type HeldAsk, type LifeId, newId, type Role, type SandboxId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { eventually, World } from './test-world.ts';

const SLOWEST_MS = { timeout: 10_000 };

/** A world whose control follows the gateway, with a sandbox in it. */
async function opened() {
  const world = new World();
  const { id } = await world.create({ name: 'box' });
  await world.control.start();
  return new Asking(world, id);
}

class Asking implements AsyncDisposable {
  readonly world: World;
  readonly id: SandboxId;
  #asks = 0;

  constructor(world: World, id: SandboxId) {
    this.world = world;
    this.id = id;
  }

  /** A program in the sandbox sends something that a rule holds. */
  hold(changes: Partial<HeldAsk> = {}): string {
    const id = `ask ${++this.#asks}`;
    this.world.gateway.hold({
      id,
      sandboxId: this.id,
      lifeId: 'lif_0000000000000001' as LifeId,
      rule: 'ask 1: api.example',
      digest: 'd1',
      ticket: null,
      request: {
        method: 'POST',
        scheme: 'https',
        host: 'api.example',
        port: 443,
        url: '/pay',
        headers: [{ name: 'authorization', value: '⟨masked, 40 characters⟩' }],
        moreHeaders: 0,
        body: { sizeBytes: 2, sha256: 'ab', text: '{}', isWhole: true },
      },
      heldUntil: new Date(Date.now() + 30_000).toISOString(),
      ...changes,
    });
    return id;
  }

  /** What the gateway was told of it last, but for that it waits. */
  async endOf(ask: string) {
    const told = async () => this.world.gateway.answers.findLast(({ id, kind }) => id === ask && kind !== 'wait');
    return eventually(told, (one) => one !== undefined);
  }

  async waits(ask: string) {
    const told = async () => this.world.gateway.answers.findLast(({ id, kind }) => id === ask && kind === 'wait');
    const wait = await eventually(told, (one) => one !== undefined);
    if (wait?.kind !== 'wait') throw new Error('it does not wait');
    return wait.approvalId;
  }

  reviewer(roles: readonly Role[] = ['reviewer']): Caller {
    const caller = this.world.caller();
    return { ...caller, principal: { ...caller.principal, operator: false, roles } };
  }

  approve(id: Awaited<ReturnType<Asking['waits']>>, caller = this.reviewer()) {
    return this.world.control.approveRequest(caller, { id });
  }

  get(id: Awaited<ReturnType<Asking['waits']>>) {
    return this.world.control.getApproval(this.reviewer(), { id });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.world.control.close();
  }
}

describe.concurrent('a held request', () => {
  it(
    'waits, is shown as the gateway shows it, and leaves once a reviewer approves it, after a point was taken',
    async () => {
      await using asking = await opened();
      const ask = asking.hold();
      const id = await asking.waits(ask);
      const { approvals } = await asking.world.control.listApprovals(asking.reviewer(), {
        limit: 10,
        state: 'pending',
      });
      expect(approvals).toMatchObject([{ id, sandbox: asking.id, state: 'pending', request: { url: '/pay' } }]);
      expect(await asking.get(id)).toMatchObject({
        headers: [{ name: 'authorization', value: '⟨masked, 40 characters⟩' }],
        body: { text: '{}' },
      });
      const caller = asking.reviewer();
      expect(await asking.approve(id, caller)).toMatchObject({
        state: 'approved',
        decidedBy: caller.principal.apiKeyId,
      });
      expect(await asking.endOf(ask)).toMatchObject({ kind: 'let_go', approvalId: id });
      const used = await asking.get(id);
      expect(used).toMatchObject({ state: 'used' });
      const [point] = await asking.world.timeline(asking.id);
      expect(point).toMatchObject({ cause: 'approval' });
      expect(used.snapshot).toEqual({ id: point?.id });
    },
    SLOWEST_MS.timeout,
  );

  it('is refused when it is denied, with what the reviewer said, and so is the same one again', async () => {
    await using asking = await opened();
    const id = await asking.waits(asking.hold());
    await asking.world.control.denyRequest(asking.reviewer(), { id, reason: 'too much' });
    const again = asking.hold();
    for (const ask of ['ask 1', again]) {
      expect(await asking.endOf(ask)).toMatchObject({ kind: 'refuse', reason: 'A reviewer denied it: too much' });
    }
  });

  it(
    'that was approved after its program left goes when it is sent again, and only once',
    async () => {
      await using asking = await opened();
      const ask = asking.hold();
      const id = await asking.waits(ask);
      asking.world.gateway.giveUp(ask);
      await asking.approve(id);
      await eventually(
        () => asking.get(id),
        ({ state }) => state === 'approved',
      );
      const [second, third] = [asking.hold(), asking.hold()];
      const ended = await Promise.race([asking.endOf(second), asking.endOf(third)]);
      expect(ended).toMatchObject({ kind: 'let_go', approvalId: id });
      const other = await asking.waits(ended?.id === second ? third : second);
      expect(other).not.toBe(id);
      expect(asking.world.gateway.answers.filter(({ kind }) => kind === 'let_go')).toHaveLength(2);
    },
    SLOWEST_MS.timeout,
  );

  it('of two that are the same, goes once; the other is asked for by itself', async () => {
    await using asking = await opened();
    const [one, two] = [asking.hold(), asking.hold()];
    const id = await asking.waits(one);
    expect(await asking.waits(two)).toBe(id);
    await asking.approve(id);
    const { approvals } = await eventually(
      () => asking.world.control.listApprovals(asking.reviewer(), { limit: 10, state: 'pending' }),
      ({ approvals }) => approvals.length === 1,
    );
    expect(approvals[0]?.id).not.toBe(id);
    expect(asking.world.gateway.answers.filter(({ kind }) => kind === 'let_go')).toHaveLength(1);
  });

  it('is decided once, and only by a reviewer', async () => {
    await using asking = await opened();
    const id = await asking.waits(asking.hold());
    for (const role of ['admin', 'developer', 'viewer', 'auditor', 'key_holder'] as const) {
      await expect(asking.approve(id, asking.reviewer([role]))).rejects.toMatchObject({ code: 'forbidden' });
    }
    const decisions = await Promise.allSettled([
      asking.approve(id),
      asking.world.control.denyRequest(asking.reviewer(), { id }),
      asking.approve(id),
    ]);
    expect(decisions.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await expect(asking.approve(id)).rejects.toMatchObject({ code: 'approval_ended' });
  });

  it('of another project is not there', async () => {
    await using asking = await opened();
    const id = await asking.waits(asking.hold());
    const elsewhere = { ...asking.reviewer(), projectId: newId('project', asking.world.chance) };
    expect(elsewhere.projectId).not.toBe(DEFAULT_PROJECT);
    for (const call of [
      asking.world.control.getApproval(elsewhere, { id }),
      asking.world.control.approveRequest(elsewhere, { id }),
      asking.world.control.getApproval(asking.reviewer(), { id: newId('approval', asking.world.chance) }),
    ]) {
      await expect(call).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  it('is refused by a ticket of another sandbox, another request, another generation, or of nothing', async () => {
    await using asking = await opened();
    const id = await asking.waits(asking.hold());
    const other = await asking.world.create({});
    const forged = asking.hold({ ticket: 'apr_0000000000000000' });
    const nonsense = asking.hold({ ticket: `${id}' or 1=1` });
    const changed = asking.hold({ ticket: id, digest: 'd2' });
    const foreign = asking.hold({ ticket: id, sandboxId: other.id });
    for (const ask of [forged, nonsense, changed, foreign]) {
      expect(await asking.endOf(ask)).toMatchObject({ kind: 'refuse', approvalId: null });
    }
    expect(await asking.waits(asking.hold({ ticket: id }))).toBe(id);
    const { id: point } = await asking.world.snapshot(asking.id);
    await asking.world.rewind(asking.id, point);
    expect(await asking.endOf(asking.hold({ ticket: id }))).toMatchObject({ kind: 'refuse' });
  });

  it('leaves also when no point can be taken, and says why there is none', async () => {
    await using asking = await opened();
    const ask = asking.hold();
    const id = await asking.waits(ask);
    asking.world.node.faults.failNext('snapshot');
    await asking.approve(id);
    expect(await asking.endOf(ask)).toMatchObject({ kind: 'let_go' });
    const used = await eventually(
      () => asking.get(id),
      ({ state }) => state === 'used',
    );
    expect(used.snapshot).toEqual({ code: expect.any(String) });
  });

  it(
    'outlives a restart of control: one that is held, and one that was approved',
    async () => {
      await using asking = await opened();
      const [held, gone] = [asking.hold(), asking.hold({ digest: 'd2' })];
      const [id, approved] = [await asking.waits(held), await asking.waits(gone)];
      await asking.world.control.close();
      asking.world.gateway.giveUp(gone);
      asking.world.newControl();
      await asking.approve(approved);
      await asking.approve(id);
      await asking.world.control.start();
      expect(await asking.endOf(held)).toMatchObject({ kind: 'let_go', approvalId: id });
      expect(await asking.endOf(asking.hold({ digest: 'd2' }))).toMatchObject({ kind: 'let_go', approvalId: approved });
    },
    SLOWEST_MS.timeout,
  );

  it(
    'outlives a restart of the gateway as an approval, and the same request goes',
    async () => {
      await using asking = await opened();
      const id = await asking.waits(asking.hold());
      asking.world.gateway.restart();
      await asking.approve(id);
      expect(await asking.endOf(asking.hold())).toMatchObject({ kind: 'let_go', approvalId: id });
    },
    SLOWEST_MS.timeout,
  );

  it('is not used again when the gateway did not say what became of it', async () => {
    await using asking = await opened();
    const ask = asking.hold();
    const id = await asking.waits(ask);
    const { answerAsk } = asking.world.gateway;
    asking.world.gateway.answerAsk = async (answer) => {
      await answerAsk.call(asking.world.gateway, answer);
      if (answer.kind !== 'let_go') return 'taken';
      throw new Error('the answer was lost');
    };
    await asking.approve(id);
    await eventually(
      () => asking.get(id),
      ({ state }) => state === 'used',
    );
    expect(await asking.waits(asking.hold())).not.toBe(id);
    expect((await asking.get(id)).state).toBe('used');
  });

  it(
    'keeps no sandbox awake: it may be paused meanwhile, and the same request goes after it was woken',
    async () => {
      await using asking = await opened();
      const ask = asking.hold();
      const id = await asking.waits(ask);
      await asking.world.pause(asking.id);
      asking.world.gateway.giveUp(ask);
      await asking.approve(id);
      expect((await asking.world.get(asking.id)).status).toBe('paused');
      await asking.world.resume(asking.id);
      expect(await asking.endOf(asking.hold())).toMatchObject({ kind: 'let_go', approvalId: id });
    },
    SLOWEST_MS.timeout,
  );

  it('is told of in the stream of events', async () => {
    await using asking = await opened();
    const ask = asking.hold();
    const id = await asking.waits(ask);
    await asking.approve(id);
    await asking.endOf(ask);
    const kinds = async () => {
      const events = asking.world.control.listEvents(asking.world.caller(), { follow: false });
      const own = (await Array.fromAsync(events)).filter((one) => one.type === 'event' && one.approvalId === id);
      return own.map((one) => (one.type === 'event' ? one.kind : ''));
    };
    const told = await eventually(kinds, (some) => some.length === 3);
    expect(told).toEqual(['approval.requested', 'approval.approved', 'approval.used']);
  });

  it('waits in bounded numbers, and what is more is told so', async () => {
    await using asking = await opened();
    for (let count = 0; count < 50; count++) asking.hold({ digest: `flood ${count}` });
    await eventually(
      async () => asking.world.gateway.answers.length,
      (count) => count >= 50,
    );
    expect(await asking.endOf(asking.hold({ digest: 'one more' }))).toMatchObject({
      kind: 'refuse',
      reason: expect.stringContaining('wait for a reviewer already'),
    });
  });
});
