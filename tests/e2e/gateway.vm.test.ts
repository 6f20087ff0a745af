/**
 * The whole way out, of a real microVM through the platform's own gateway: ordinary tools, with no setting of theirs changed,
 * reach by HTTPS what the policy allows and are told why not what it does not.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { EGRESS_CASES, runCases } from '@space/conformance';
import {
  approve,
  createKey,
  deny,
  listApprovals,
  listOrganisations,
  listSecretBindings,
  listSecrets,
  type Sandbox,
  setPrivateHosts,
  setSecret,
  setSecretBinding,
} from '@space/sdk';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const run = promisify(execFile);

const HOST = 'api.upstream.test';
let folder: string;
let names: Socket;
let upstream: Server;
/** Names that anybody asked for. */
const asked = new Set<string>();
/** What arrived at the host. */
const arrived: string[] = [];
/** Whom each request was of. */
const arrivedFrom: string[] = [];
let world: World;
let sandbox: Sandbox;
let url: string;

beforeAll(async () => {
  folder = await mkdtemp('/var/tmp/space-upstream-');
  await makeCertificates();
  names = createSocket('udp4').on('message', (question, from) =>
    names.send(answerTo(question), from.port, from.address),
  );
  names.bind(0, '127.0.0.1');
  await once(names, 'listening');
  const [cert, key] = await Promise.all([readFile(join(folder, 'host.pem')), readFile(join(folder, 'host.key'))]);
  upstream = createServer({ cert, key }, (request, response) => {
    arrived.push(`${request.method} ${request.headers.host} ${request.url}`);
    const { authorization = 'nobody' } = request.headers;
    arrivedFrom.push(authorization);
    response.end(request.url === '/whoami' ? `${authorization}\n` : `${request.method} ${request.url}\n`);
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  const { port } = upstream.address() as AddressInfo;
  url = `https://${HOST}:${port}`;
  const dnsServers = [`127.0.0.1:${names.address().port}`];
  const upstreamAuthorities = [await readFile(join(folder, 'ca.pem'), 'utf8')];
  world = await makeWorld(undefined, { gateway: { dnsServers, upstreamAuthorities } });
  sandbox = await world.create({ idle: { pauseAfterMs: null } });
  for (const { id } of await listOrganisations(world.connection)) await setPrivateHosts(id, [HOST], world.connection);
});
afterAll(async () => {
  await world?.[Symbol.asyncDispose]();
  upstream?.close();
  names?.close();
  await rm(folder, { recursive: true, force: true });
});

async function allow(access: 'read' | 'write'): Promise<void> {
  const port = Number(new URL(url).port);
  await sandbox.update({ network: { preset: 'none', allow: [{ host: HOST, ports: [port], access }] } });
}

async function printed(command: string, by: Sandbox = sandbox): Promise<string> {
  const { stdout, stderr, exitCode } = await by.run(command);
  return exitCode === 0 ? stdout : `${exitCode}: ${stdout}${stderr}`;
}

it('what no rule allows is refused with the rule, and its name is not even looked up', async () => {
  const answer = await printed(`curl -s -w '%{http_code}' ${url}/secret`);
  expect(answer).toMatch(/no rule/);
  expect(answer).toMatch(/403$/);
  expect([...asked]).not.toContain(HOST);
  expect(arrived).toEqual([]);
});

it('ordinary tools reach what is allowed, by TLS that they verify, also with an empty environment and as root', async () => {
  await allow('write');
  expect(await printed(`curl -s ${url}/curl`)).toBe('GET /curl\n');
  expect(await printed(`env -i /usr/bin/curl -s ${url}/bare`)).toBe('GET /bare\n');
  expect(await printed(`sudo curl -s -X DELETE ${url}/root`)).toBe('DELETE /root\n');
  const python = `import urllib.request as r; print(r.urlopen("${url}/python").read().decode(), end="")`;
  expect(await printed(`python3 -c '${python}'`)).toBe('GET /python\n');
  expect(await printed(`env -i /usr/bin/python3 -c '${python}'`)).toBe('GET /python\n');
  const node = `require("https").get("${url}/node", (a) => a.pipe(process.stdout))`;
  expect(await printed(`node -e '${node}'`)).toBe('GET /node\n');
  expect(arrived.at(-1)).toBe(`GET ${new URL(url).host} /node`);
  // It is told that there is none.
  await printed(`pip download --retries 0 --index-url ${url}/simple nothing; python3 -c 'import venv, ensurepip'`);
  expect(arrived.at(-1)).toBe(`GET ${new URL(url).host} /simple/nothing/`);
});

it('a write is refused where only reading is allowed, from the next request on', async () => {
  await allow('read');
  expect(await printed(`curl -s ${url}/read`)).toBe('GET /read\n');
  expect(await printed(`curl -s -d x -w '%{http_code}' ${url}/write`)).toMatch(/403$/);
  expect(arrived).not.toContain(expect.stringContaining('/write'));
});

it('the ways around it that are tried on live installations are shut', async () => {
  const places = { open: HOST, shut: 'shut.upstream.test', https: Number(new URL(url).port), own: null };
  const cases = EGRESS_CASES.filter(({ topic }) => topic === 'one host');
  const run = { connection: world.connection, places, hosts: null, has: [] };
  const outcomes = await Array.fromAsync(runCases(run, cases));
  expect(outcomes.filter(({ outcome }) => outcome === 'miss')).toEqual([]);
  expect(outcomes.filter(({ outcome }) => outcome === 'ok').length).toBeGreaterThan(15);
  expect(arrived.filter((one) => one.includes('shut'))).toEqual([]);
  expect([...asked]).not.toContain(places.shut);
});

it('a fork has the rules and the certificate of its source, and a paused sandbox has them when it wakes', async () => {
  await allow('read');
  const [copy] = await sandbox.fork(1);
  expect(copy && (await printed(`curl -s ${url}/fork`, copy))).toBe('GET /fork\n');
  await copy?.delete();
  await sandbox.pause();
  expect(await printed(`curl -s ${url}/woken`)).toBe('GET /woken\n');
});

it('what a rule asks for waits for a reviewer, leaves once when approved, and not at all when denied', async () => {
  const port = Number(new URL(url).port);
  await sandbox.update({ network: { preset: 'none', ask: [{ host: HOST, ports: [port] }] } });
  const { secretKey } = await createKey({ ...world.connection, roles: ['reviewer'] });
  const reviewer = { ...world.connection, apiKey: secretKey ?? '' };
  const waiting = async () => {
    for await (const one of listApprovals({ ...reviewer, state: 'pending' })) return one;
    return undefined;
  };
  const soon = { timeout: 20_000 };
  const before = arrived.length;
  const sending = printed(`curl -s -d cents=1 ${url}/pay`);
  await expect.poll(waiting, soon).toMatchObject({ request: { method: 'POST', host: HOST, url: '/pay' } });
  expect(arrived.length).toBe(before);
  const { id = '' } = (await waiting()) ?? {};
  await expect(approve(id, world.connection)).rejects.toMatchObject({ code: 'forbidden' });
  await approve(id, reviewer);
  expect(await sending).toBe('POST /pay\n');
  const [point] = (await sandbox.timeline()).snapshots;
  expect(point).toMatchObject({ cause: 'approval' });
  const denied = printed(`curl -s -w '%{http_code}' -d cents=1 ${url}/pay`);
  await expect.poll(waiting, soon).toBeDefined();
  await deny((await waiting())?.id ?? '', { ...reviewer, reason: 'once is enough' });
  expect(await denied).toMatch(/once is enough[\s\S]*403$/);
  expect(arrived.slice(before)).toEqual([`POST ${HOST}:${port} /pay`]);
});

it('what left, and what was refused, is told by host, method and path, without the query', async () => {
  await allow('read');
  await printed(`curl -s '${url}/told?token=hidden'`);
  const seen = async () => {
    const records = [];
    for await (const { method, host, path, outcome } of sandbox.egress()) records.push({ method, host, path, outcome });
    return records;
  };
  await expect
    .poll(seen, { timeout: 10_000 })
    .toContainEqual(expect.objectContaining({ method: 'GET', path: '/told' }));
  const records = await seen();
  expect(records).toContainEqual({ method: 'GET', host: HOST, path: '/secret', outcome: 'refused' });
  expect(JSON.stringify(records)).not.toContain('hidden');
});

it('a secret that a sandbox uses is nowhere but in the request: in no memory, disk, snapshot, database, log or answer', async () => {
  const value = `canary${randomBytes(20).toString('hex')}`;
  await setSecret('canary', value, world.connection);
  const port = Number(new URL(url).port);
  const place = { in: 'bearer' } as const;
  const binding = { secret: 'canary', hosts: [HOST], ports: [port], place, projects: 'all' as const, env: 'API_TOKEN' };
  await setSecretBinding('canary', { ...binding, ...world.connection });
  const network = { preset: 'none', allow: [{ host: HOST, ports: [port], access: 'read' }] } as const;
  const user = await world.create({ network, secrets: ['canary'], idle: { pauseAfterMs: null } });
  const placeholder = (await printed('printenv API_TOKEN', user)).trim();
  const told = await printed(`curl -s -H "Authorization: Bearer $API_TOKEN" ${url}/whoami | tee told; sync`, user);
  expect(arrivedFrom.at(-1), told).toBe(`Bearer ${value}`);
  expect(told).not.toContain(value);
  await printed('echo $API_TOKEN > kept; sync', user);
  await user.snapshot();
  const answers = [user.fields, await listSecrets(world.connection), await listSecretBindings(world.connection)];
  await user.pause();
  expect(JSON.stringify(answers)).not.toContain(value);
  // What is searched holds what is in the guest: the search finds a placeholder there, in memory and on the disk.
  expect((await filesWith([placeholder])).length).toBeGreaterThanOrEqual(2);
  expect(await filesWith(formsOf(value))).toEqual([]);
  await user.delete();
});

/** As it is, in base64 at each of the three places where it may begin, and in hexadecimal. */
function formsOf(value: string): readonly string[] {
  const whole = Buffer.from(value);
  const inner = [0, 1, 2].map((skip) => whole.subarray(skip, skip + 3 * Math.floor((whole.length - skip) / 3)));
  return [value, ...inner.map((bytes) => bytes.toString('base64')), whole.toString('hex')];
}

/**
 * All that lies on the disk, the file behind the vault included, where it still has blocks of files that are gone. `-z`: memory
 * that is zeros is no endless line.
 */
async function filesWith(texts: readonly string[]): Promise<readonly string[]> {
  const any = texts.flatMap((text) => ['-e', text]);
  const found = run('grep', ['-rlaszF', '--devices=skip', ...any, world.config.dataDir], {
    maxBuffer: 16 * 1024 * 1024,
  });
  const { stdout } = await found.catch((thrown: { code?: number; stdout: string }) => {
    // 1: nowhere. 2: files of the database went while it looked.
    if (thrown.code !== 1 && thrown.code !== 2) throw thrown;
    return thrown;
  });
  return stdout.split('\n').filter((line) => line !== '');
}

/** An authority of its own, and a certificate of the host by it. */
async function makeCertificates(): Promise<void> {
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-subj',
    '/CN=Upstream',
    '-days',
    '2',
  );
  await openssl('req', ...newKey, '-keyout', 'host.key', '-out', 'host.csr', '-subj', `/CN=${HOST}`);
  await writeFile(join(folder, 'host.ext'), `subjectAltName=DNS:${HOST}\n`);
  const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2'];
  await openssl('x509', '-req', '-in', 'host.csr', ...by, '-extfile', 'host.ext', '-out', 'host.pem');
}

/** Every name has the address 127.0.0.1, and nothing else. */
function answerTo(question: Buffer): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  asked.add(labels.join('.').toLowerCase());
  const end = at + 5;
  const isV4 = question.readUInt16BE(at + 1) === 1;
  const head = Buffer.from(question.subarray(0, 12));
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(isV4 ? 1 : 0, 6);
  head.writeUInt32BE(0, 8);
  const address = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
  return Buffer.concat([head, question.subarray(12, end), ...(isV4 ? [address] : [])]);
}
