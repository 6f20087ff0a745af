/** Traces, as a receiver of OTLP sees them: the real HTTP server, control and node, over the link, on fakes of the machine. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createApiKey, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import { NO_TRACES, SIZE_LIMITS } from '@space/core';
import { createHttpServer, createLogger, listen } from '@space/http';
import { connectNode, serveNode } from '@space/link';
import { createNode } from '@space/node';
import {
  connectFakeGuest,
  FakeContainers,
  FakeGateway,
  FakeRuntime,
  Faults,
  realClock,
  seededChance,
} from '@space/testkit';
import { openTraces } from '@space/traces-otel';
import { afterAll, beforeAll, expect, it } from 'vitest';

const ignore = () => undefined;
/** The fake vault copies whole files. */
const ANY = { min: 1, max: 8, step: 1 };
const TINY_LIMITS = { ...SIZE_LIMITS, memoryMib: ANY, diskMib: ANY };

interface WireSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly attributes: readonly {
    readonly key: string;
    readonly value: { readonly stringValue?: string; readonly intValue?: number };
  }[];
}

/** What came in by POST /v1/traces, as OTLP in JSON. */
class Receiver {
  readonly spans: WireSpan[] = [];
  readonly services = new Set<string>();
  readonly authorizations = new Set<string>();
  readonly texts: string[] = [];
  readonly #server: Server = createServer(async (request, response) => {
    const text = Buffer.concat(await Array.fromAsync(request)).toString();
    if (request.url === '/v1/traces') this.#take(text);
    this.authorizations.add(request.headers.authorization ?? '');
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  url = '';

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }

  named(name: string): WireSpan {
    const found = this.spans.find((span) => span.name === name);
    if (found === undefined)
      throw new Error(`no span "${name}" among ${this.spans.map((span) => span.name).join(', ')}`);
    return found;
  }

  #take(text: string): void {
    this.texts.push(text);
    for (const { resource, scopeSpans } of JSON.parse(text).resourceSpans) {
      for (const { key, value } of resource.attributes)
        if (key === 'service.name') this.services.add(value.stringValue);
      for (const { spans } of scopeSpans) this.spans.push(...spans);
    }
  }
}

const receiver = new Receiver();
const closers: (() => Promise<unknown>)[] = [];
let ask: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Response>;
let flush: () => Promise<void>;

beforeAll(async () => {
  await receiver.open();
  process.env['OTEL_SERVICE_NAME'] = 'space-under-test';
  process.env['OTEL_EXPORTER_OTLP_HEADERS'] = 'authorization=Basic%20abc';
  const folder = await mkdtemp(join(tmpdir(), 'space-traces-'));
  closers.unshift(() => rm(folder, { recursive: true, force: true }));
  const options = { url: receiver.url, version: '1', env: {} };
  // Of each process one.
  const [ofControl, ofNode] = [openTraces(options), openTraces(options)];
  const image = join(folder, 'base.img');
  await writeFile(image, '{}');
  const [clock, chance, faults] = [realClock(), seededChance(randomBytes(4).readUInt32LE()), new Faults()];
  const node = createNode({
    egress: new FakeGateway(),
    archives: new Map(),
    runtime: new FakeRuntime('in_place', faults),
    connectGuest: connectFakeGuest,
    containers: await FakeContainers.withDefault(folder, faults),
    templates: [{ name: 'base', diskPath: image, digest: 'base-digest' }],
    clock,
    chance,
    memoryMib: 10_000,
    pool: { memoryMib: 0 },
    limits: TINY_LIMITS,
    tracer: ofNode,
    facts: {
      runtime: 'fake',
      accelerator: { name: 'tcg', reason: 'a fake', remedy: null },
      vmmVersion: '1',
      jail: { inForce: [], missing: [] },
    },
  });
  await node.open();
  const socketPath = join(folder, 'node.sock');
  const service = await serveNode({ node, socketPath, onUnexpected: ignore, tracer: ofNode });
  const remote = connectNode({ socketPath, tracer: ofControl });
  await remote.whenUp(new AbortController().signal);
  const records = new MemoryRecords();
  const ports = { node: remote, records, clock, chance, tracer: ofControl };
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  const control = createControl({ ...ports, logger }, new FakeGateway());
  const app = createHttpServer({
    useCases: control,
    authenticate: (token, project) => control.authenticate(token, project),
    openShare: (token, target) => control.openShare(token, target),
    logger: createLogger({ level: 'silent' }),
    version: '1',
    tracer: ofControl,
  });
  const url = await listen(app, { host: '127.0.0.1', port: 0 });
  const { secretKey } = await createApiKey(ports);
  ask = async (method, path, body, headers = {}) => {
    const json = body === undefined ? {} : { body: JSON.stringify(body) };
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const authorization = `Bearer ${secretKey}`;
    return fetch(url + path, { method, headers: { authorization, ...type, ...headers }, ...json });
  };
  flush = async () => {
    await app.close();
    await control.close();
    await remote.close();
    await service.close();
    await node.close();
    await ofControl.close();
    await ofNode.close();
  };
  closers.unshift(() => receiver.close());
});

afterAll(async () => {
  delete process.env['OTEL_SERVICE_NAME'];
  delete process.env['OTEL_EXPORTER_OTLP_HEADERS'];
  for (const close of closers) await close();
});

it('shows a call, its operation, the order to the node and each of its phases as one trace, that of the caller', async () => {
  const size = { vcpus: 1, memoryMib: 1, diskMib: 1 };
  const created = await ask('POST', '/v1/sandboxes', { size, metadata: { secret: 'canary-of-content' } });
  expect(created.status, await created.clone().text()).toBe(201);
  const { id } = (await created.json()) as { id: string };
  const [traceId, callerSpan] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  const traceparent = `00-${traceId}-${callerSpan}-01`;
  expect((await ask('POST', `/v1/sandboxes/${id}/snapshots`, {}, { traceparent })).status).toBe(201);
  expect((await ask('GET', '/v1/sandboxes/never-was', undefined, { traceparent: 'nonsense' })).status).toBe(404);
  await flush();

  const call = receiver.named('takeSnapshot');
  expect(call).toMatchObject({ traceId, parentSpanId: callerSpan });
  const operation = receiver.named('operation snapshot');
  expect(operation).toMatchObject({ traceId, parentSpanId: call.spanId });
  const overLink = receiver.named('link snapshot');
  expect(overLink).toMatchObject({ traceId, parentSpanId: operation.spanId });
  const order = receiver.named('node snapshot');
  expect(order).toMatchObject({ traceId, parentSpanId: overLink.spanId });
  for (const phase of ['flush', 'freeze', 'stop', 'device state', 'seal', 'go on', 'record']) {
    const ofSnapshot = receiver.spans.filter((span) => span.name === phase && span.traceId === traceId);
    expect(ofSnapshot, phase).toMatchObject([{ parentSpanId: order.spanId }]);
  }
  const start = receiver.named('node start');
  for (const phase of ['verify point', 'clone files', 'restore', 'run', 'reach the agent', 'assume identity', 'thaw']) {
    const ofStart = receiver.spans.filter((span) => span.name === phase && span.parentSpanId === start.spanId);
    expect(ofStart, phase).toHaveLength(1);
  }
  const failed = receiver.named('getSandbox');
  expect(failed.parentSpanId ?? '').toBe('');
  const values = Object.fromEntries(
    failed.attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]),
  );
  expect(values).toMatchObject({
    'http.route': '/v1/sandboxes/{id}',
    'http.response.status_code': 404,
    'error.type': 'not_found',
  });
  expect(receiver.services).toEqual(new Set(['space-under-test']));
  expect(receiver.authorizations).toEqual(new Set(['Basic abc']));
  expect(receiver.texts.join('')).not.toContain('canary-of-content');
});

it('costs nothing when nobody asks: the work itself is what is run, and nothing of OpenTelemetry is loaded', async () => {
  const work = Promise.resolve(1);
  expect(NO_TRACES.span({ name: 'any' }, () => work)).toBe(work);
  expect(NO_TRACES.traceparent()).toBeUndefined();
  const script = `
    import { registerHooks } from 'node:module';
    registerHooks({
      load(url, context, next) {
        if (url.includes('opentelemetry') || url.includes('traces-otel')) throw new Error('loaded ' + url);
        return next(url, context);
      },
    });
    await import('@space/server');
    console.log('quiet');`;
  const argv = ['--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: import.meta.dirname });
  expect(stdout).toContain('quiet');
}, 60_000);
