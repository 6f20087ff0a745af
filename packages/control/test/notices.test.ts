import type { Caller } from '@space/contract';
import { AppError, DEFAULT_ORGANISATION, type HeldAsk, type LifeId, type SandboxId } from '@space/core';
import { describe, expect, it } from 'vitest';
import { eventually, World } from './test-world.ts';

const URL = 'https://hooks.example/space';

function held(sandboxId: SandboxId, digest: string): HeldAsk {
  const body = { sizeBytes: 6, sha256: 'ab', text: 'secret', isWhole: true };
  const to = { method: 'POST', scheme: 'https', host: 'api.example', port: 443, url: '/pay?token=secret' } as const;
  return {
    id: digest,
    sandboxId,
    lifeId: 'lif_0000000000000001' as LifeId,
    rule: 'ask 1: api.example',
    digest,
    ticket: null,
    request: { ...to, headers: [{ name: 'x', value: 'secret' }], moreHeaders: 0, body },
    heldUntil: new Date(Date.now() + 30_000).toISOString(),
  };
}

describe.concurrent('a webhook', () => {
  it('is told of what waits, without query, headers and body, and again when it did not take it', async () => {
    const world = new World();
    const { id } = await world.create();
    const set = await world.control.setWebhook(world.caller(), { url: URL });
    expect(set).toEqual({ url: URL, secretKey: `whsec_of ${DEFAULT_ORGANISATION} ${URL}` });
    expect(await world.control.getWebhook(world.caller(), {})).toMatchObject({ url: URL, failure: null });
    world.gateway.noticeFailures.push(new AppError('egress_refused', 'Not there.'));
    await world.control.start();
    world.gateway.hold(held(id, 'one'));
    const failure = () => world.control.getWebhook(world.caller(), {}).then((webhook) => webhook.failure?.code ?? null);
    await eventually(failure, (code) => code === 'egress_refused');
    const [notice] = await eventually(
      async () => world.gateway.notices,
      (all) => all.length === 1,
      12_000,
    );
    const { approvals } = await world.control.listApprovals(world.caller(), { limit: 10 });
    expect(notice).toMatchObject({
      organisationId: DEFAULT_ORGANISATION,
      url: URL,
      id: approvals[0]?.id,
      privateHosts: [],
    });
    expect(JSON.parse(notice?.body ?? '')).toMatchObject({
      type: 'approval.requested',
      data: { id: approvals[0]?.id, sandbox: id, request: { method: 'POST', host: 'api.example', path: '/pay' } },
    });
    expect(notice?.body).not.toContain('secret');
    await eventually(failure, (code) => code === null);
    await world.control.close();
  }, 20_000);

  it('that does not answer holds up no approval', async () => {
    const world = new World();
    const { id } = await world.create();
    await world.control.setWebhook(world.caller(), { url: URL });
    world.gateway.sendNotice = () => new Promise(() => undefined);
    await world.control.start();
    world.gateway.hold(held(id, 'one'));
    const pending = async () => (await world.control.listApprovals(world.caller(), { limit: 10 })).approvals;
    const [approval] = await eventually(pending, (all) => all.length === 1);
    const caller: Caller = world.caller();
    const reviewer = { ...caller, principal: { ...caller.principal, roles: ['reviewer' as const] } };
    if (approval === undefined) throw new Error('it waits');
    await world.control.approveRequest(reviewer, { id: approval.id });
    await eventually(
      async () => world.gateway.answers.at(-1)?.kind,
      (kind) => kind === 'let_go',
    );
    await world.control.close();
  });

  it('is gone when it was removed', async () => {
    const world = new World();
    await world.control.setWebhook(world.caller(), { url: URL });
    await world.control.removeWebhook(world.caller(), {});
    await expect(world.control.getWebhook(world.caller(), {})).rejects.toMatchObject({ code: 'not_found' });
  });
});
