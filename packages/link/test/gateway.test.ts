/** What control asks of a gateway in another process. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApprovalId, GatewayPort, HeldAsk, LifeId, SandboxId } from '@space/core';
import { FakeGateway } from '@space/testkit';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connectGateway, serveGateway } from '../src/gateway-link.ts';
import type { Service } from '../src/serve.ts';

let folder: string;
let service: Service;
let gateway: FakeGateway;
let remote: GatewayPort;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-gateway-link-'));
  gateway = new FakeGateway();
  const socketPath = join(folder, 'gateway.sock');
  service = await serveGateway({ gateway, socketPath, onUnexpected: () => undefined });
  remote = connectGateway(socketPath);
});
afterEach(async () => {
  await service.close();
  await rm(folder, { recursive: true });
});

const ASK: HeldAsk = {
  id: 'one',
  sandboxId: 'sbx_0000000000000001' as SandboxId,
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
    headers: [],
    moreHeaders: 0,
    body: { sizeBytes: 3, sha256: 'x', text: '⟨U+202E⟩\n', isWhole: true },
  },
  heldUntil: new Date().toISOString(),
};

it('waits for held requests, hears of them as they come, and answers them', async () => {
  const taking = remote.takeAsks(null, new AbortController().signal);
  gateway.hold(ASK);
  const { asks, instance } = await taking;
  expect(asks).toEqual([ASK]);
  const approvalId = 'apr_0000000000000001' as ApprovalId;
  expect(await remote.answerAsk({ instance, id: 'one', kind: 'let_go', approvalId })).toBe('taken');
  expect(gateway.answers).toEqual([{ instance, id: 'one', kind: 'let_go', approvalId }]);
});

it('ends its wait when the caller does not wait any more, and the gateway hears of it', async () => {
  const [reached, heard] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  gateway.takeAsks = (_behind, signal) => {
    reached.resolve();
    signal.addEventListener('abort', () => heard.resolve());
    return new Promise(() => undefined);
  };
  const caller = new AbortController();
  const taking = remote.takeAsks(null, caller.signal);
  await reached.promise;
  caller.abort();
  await expect(taking).rejects.toBeDefined();
  await heard.promise;
});
