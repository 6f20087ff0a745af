/**
 * What E2B's SDKs find in a sandbox, over the whole control plane on a fake node, behind a door that lets everybody in. The
 * SDKs reach it in their debug mode, in which they ask nothing of a control API.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Caller } from '@space/contract';
import { createApiKey, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import type { SandboxId } from '@space/core';
import { FakeGateway, FakeNode, type FakePrograms, realClock } from '@space/testkit';
import { pino } from 'pino';
import { createEnvd } from '../src/envd/index.ts';

const ignore = () => undefined;
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export type EnvdWorld = Awaited<ReturnType<typeof createEnvdWorld>>;

export async function createEnvdWorld(programs: FakePrograms = {}) {
  const node = new FakeNode({ programs });
  const chance = { bytes: (count: number) => randomBytes(count) };
  const ports = { node, records: new MemoryRecords(), clock: realClock(), chance };
  const control = createControl({ ...ports, logger: SILENT }, new FakeGateway());
  await control.start();
  const identity = await control.authenticate((await createApiKey(ports)).secretKey);
  if (identity === null) throw new Error('the key is not known');
  const caller = (signal = new AbortController().signal): Caller => ({ ...identity, requestId: 'test', signal });
  const { id: sandboxId } = await control.createSandbox(caller(), { env: { GIVEN: 'at create' } });

  const envd = createEnvd({ useCases: control, logger: pino({ level: 'silent' }) });
  let isGone = false;
  const requests = new Set<string>();
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (isGone) return void response.writeHead(502, { 'content-type': 'application/json' }).end('{"code":502}');
    if (request.url === '/health') return void response.writeHead(204).end();
    const name = `${request.method} ${request.headers['content-type']}`;
    requests.add(name);
    response.once('close', () => requests.delete(name));
    envd.handle(request, response, {
      caller: caller(),
      sandboxId: sandboxId as SandboxId,
      e2bSandboxId: 'itest',
      template: 'base',
      defaultUser: 'user',
      defaultCwd: null,
      env: { GIVEN: 'at create' },
    });
  };
  const server = createServer(serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    baseUrl,
    envd,
    node,
    control,
    caller,
    sandboxId,
    /** Under way, by method and type of content. */
    requests,
    /** For `Sandbox.create` of the SDKs. */
    options: { debug: true, sandboxUrl: baseUrl, apiKey: 'e2b_0' },
    async kill() {
      isGone = true;
      await control.deleteSandbox(caller(), { id: sandboxId });
    },
    async [Symbol.asyncDispose]() {
      envd.close();
      server.closeAllConnections();
      server.close();
      await control.close();
    },
  };
}
