/**
 * Approvals by the real control and the real gateway, against a host on loopback that counts what reaches it: whatever a program
 * does with what was approved, exactly that reaches the host, once.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Duplex, duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Caller } from '@space/contract';
import { type Control, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import {
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  type LifeId,
  newId,
  type PortConnection,
  type SandboxId,
} from '@space/core';
import { createGateway, type Gateway } from '@space/gateway';
import { FakeNode, realClock, seededChance } from '@space/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const HOST = 'pay.test';
const HOLD_MS = 400;
const chance = seededChance(Date.now());
const quiet = () => undefined;

let folder: string;
let upstream: Server;
let gateway: Gateway;
let records: MemoryRecords;
let node: FakeNode;
let control: Control;
let id: SandboxId;
let port: number;
let heard: string[];
const ended = new AbortController();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-approvals-'));
  heard = [];
  upstream = createServer(async (incoming, answer) => {
    heard.push(`${incoming.method} ${incoming.url} ${await text(incoming)}`);
    answer.end('done');
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  port = (upstream.address() as AddressInfo).port;
  const resolve = async () => ['127.0.0.1'];
  gateway = createGateway({ folder, holdMs: HOLD_MS, resolve, ownAddresses: () => [] });
  [records, node] = [new MemoryRecords(), new FakeNode()];
  const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  control = createControl({ node, records, clock: realClock(), chance, logger }, gateway);
  await control.setPrivateHosts(callerAs('admin'), { id: DEFAULT_ORGANISATION, privateHosts: [HOST] });
  const network = {
    preset: 'none' as const,
    allow: [],
    ask: [{ host: HOST, ports: [port], access: 'any' as const, path: '/' }],
    deny: [],
  };
  ({ id } = await control.createSandbox(callerAs('admin'), { network }));
  await control.start();
});
afterEach(async () => {
  await control.close();
  gateway.close();
  upstream.close();
  upstream.closeAllConnections();
  await rm(folder, { recursive: true });
});

function callerAs(role: 'admin' | 'reviewer'): Caller {
  const apiKeyId = newId('apiKey', chance);
  const principal = {
    apiKeyId,
    organisationId: DEFAULT_ORGANISATION,
    operator: true,
    onlyProject: null,
    roles: [role],
  };
  return { principal, projectId: DEFAULT_PROJECT, requestId: 'req_1', signal: new AbortController().signal };
}

interface Told {
  readonly status: number;
  readonly body: string;
  readonly ticket: string | undefined;
}

/** A program in the sandbox sends it. */
async function send(path: string, body: string, headers: Record<string, string> = {}, from = id): Promise<Told> {
  const [socket, far] = duplexPair();
  socket.on('error', quiet);
  const connection = { sandboxId: from, lifeId: 'lif_0000000000000001' as LifeId, host: HOST, port };
  void gateway.carry(connection, lent(far), ended.signal).catch(quiet);
  const host = `${HOST}:${port}`;
  const asked = request({
    createConnection: () => socket as never,
    method: 'POST',
    path,
    headers: { host, ...headers },
  });
  asked.on('error', quiet);
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const told = await text(response);
  socket.destroy();
  return {
    status: response.statusCode ?? 0,
    body: told,
    ticket: response.headers['x-space-approval'] as string | undefined,
  };
}

function lent(stream: Duplex): PortConnection {
  stream.on('error', quiet);
  return {
    output: stream,
    async write(bytes) {
      if (!stream.write(bytes)) await Promise.race([once(stream, 'drain'), once(stream, 'close')]);
    },
    end: () => void stream.end(),
    reset: () => void stream.destroy(),
    closed: new Promise((resolve) => stream.once('close', resolve)),
  };
}

/** Sends it until it was told of a ticket, which says that somebody is asked. */
async function pending(path: string, body: string): Promise<NonNullable<ReturnType<typeof ticketOf>>> {
  for (;;) {
    const ticket = ticketOf(await send(path, body));
    if (ticket !== undefined) return ticket;
  }
}

function ticketOf({ ticket }: Told) {
  return ticket as Awaited<ReturnType<Control['getApproval']>>['id'] | undefined;
}

const approve = (ticket: Awaited<ReturnType<typeof pending>>) =>
  control.approveRequest(callerAs('reviewer'), { id: ticket });

describe('what was approved', () => {
  it('reaches the host once, when it is sent again, and a replay of it does not', async () => {
    const ticket = await pending('/pay', 'cents=1');
    expect(heard).toEqual([]);
    await approve(ticket);
    expect(await send('/pay', 'cents=1', { 'x-space-approval': ticket })).toMatchObject({ status: 200, body: 'done' });
    expect(await send('/pay', 'cents=1', { 'x-space-approval': ticket })).toMatchObject({ status: 503 });
    expect(await send('/pay', 'cents=1')).toMatchObject({ status: 503 });
    expect(heard).toEqual(['POST /pay cents=1']);
  });

  it('reaches the host once when many send it at once', async () => {
    await approve(await pending('/pay', 'cents=1'));
    const told = await Promise.all(Array.from({ length: 8 }, () => send('/pay', 'cents=1')));
    expect(told.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(heard).toEqual(['POST /pay cents=1']);
  });

  it('lets nothing else through: another body, path, query or header, by its ticket or without', async () => {
    const ticket = await pending('/pay', 'cents=1');
    await approve(ticket);
    const by = { 'x-space-approval': ticket };
    for (const headers of [{}, by]) {
      expect((await send('/pay', 'cents=100', headers)).status).toBe(headers === by ? 403 : 503);
      expect((await send('/pay?to=me', 'cents=1', headers)).status).toBe(headers === by ? 403 : 503);
      expect((await send('/pay', 'cents=1', { ...headers, 'x-account': 'other' })).status).toBe(
        headers === by ? 403 : 503,
      );
    }
    expect(heard).toEqual([]);
    expect((await send('/pay', 'cents=1', by)).status).toBe(200);
  });

  it('is of its sandbox: the same request of another one, by its ticket too, does not leave', async () => {
    const ticket = await pending('/pay', 'cents=1');
    await approve(ticket);
    const [fork] = await control.forkSandbox(callerAs('admin'), { id, count: 1 });
    if (fork === undefined || !('sandbox' in fork)) throw new Error('it was not forked');
    expect((await send('/pay', 'cents=1', {}, fork.sandbox.id)).status).toBe(503);
    expect((await send('/pay', 'cents=1', { 'x-space-approval': ticket }, fork.sandbox.id)).status).toBe(403);
    expect(heard).toEqual([]);
  });

  it('is void after a rewind, for which the same request is asked for anew', async () => {
    const ticket = await pending('/pay', 'cents=1');
    const { id: to } = await control.takeSnapshot(callerAs('admin'), { id });
    await approve(ticket);
    await control.rewindSandbox(callerAs('admin'), { id, to, keepPresent: true });
    expect((await send('/pay', 'cents=1', { 'x-space-approval': ticket })).status).toBe(403);
    expect(await pending('/pay', 'cents=1')).not.toBe(ticket);
    expect(heard).toEqual([]);
  });

  it('does not leave under rules that have been tightened since', async () => {
    await approve(await pending('/pay', 'cents=1'));
    await control.updateSandbox(callerAs('admin'), { id, network: { preset: 'none', allow: [], ask: [], deny: [] } });
    expect((await send('/pay', 'cents=1')).status).toBe(403);
    expect(heard).toEqual([]);
  });
});

describe('what was denied', () => {
  it('does not leave, and nobody is asked for it again', async () => {
    const ticket = await pending('/pay', 'cents=1');
    await control.denyRequest(callerAs('reviewer'), { id: ticket, reason: 'no' });
    for (let count = 0; count < 3; count++) {
      expect(await send('/pay', 'cents=1')).toMatchObject({
        status: 403,
        body: expect.stringContaining('denied it: no'),
      });
    }
    const { approvals } = await control.listApprovals(callerAs('reviewer'), { limit: 10 });
    expect(approvals.map(({ state }) => state)).toEqual(['denied']);
    expect(heard).toEqual([]);
  });
});
