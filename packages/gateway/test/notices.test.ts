/** Notices to addresses that tenants have named, to hosts of a small internet on loopback. */
import { createHmac } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ORGANISATION, text, World } from './world.ts';

let world: World;
let port: number;
let heard: { method: string; url: string; headers: IncomingHttpHeaders; body: string }[];
let status: number;

beforeEach(async () => {
  world = await World.open();
  [heard, status] = [[], 200];
  port = await world.serveHttps('hooks.test', async (incoming, answer) => {
    const { method = '', url = '', headers } = incoming;
    heard.push({ method, url, headers, body: await text(incoming) });
    answer.writeHead(status, { location: `https://hooks.test:${port}/elsewhere` });
    answer.end('x'.repeat(100_000));
  });
});
afterEach(() => world.close());

const notice = (changes: Partial<Parameters<World['gateway']['sendNotice']>[0]> = {}) => ({
  organisationId: ORGANISATION,
  url: `https://hooks.test:${port}/in?x=1`,
  id: 'apr_0000000000000001',
  body: '{"type":"approval.requested"}',
  privateHosts: ['*.test'],
  ...changes,
});

describe('a notice', () => {
  it('is sent once by TLS that is verified, signed as its receiver can check', async () => {
    const sent = notice();
    const secret = await world.gateway.noticeSecret(ORGANISATION, sent.url);
    await world.gateway.sendNotice(sent);
    const [one] = heard;
    expect(heard).toHaveLength(1);
    expect(one).toMatchObject({ method: 'POST', url: '/in?x=1', body: sent.body });
    const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = one?.headers ?? {};
    const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
    expect(signature).toBe(`v1,${createHmac('sha256', key).update(`${id}.${at}.${sent.body}`).digest('base64')}`);
    expect(Math.abs(Number(at) - Date.now() / 1000)).toBeLessThan(10);
  });

  it('has a key of its organisation and its address, which stays over a restart and is in no file as it is', async () => {
    const secretOf = (organisation: string, url: string) =>
      world.gateway.noticeSecret(organisation as typeof ORGANISATION, url);
    const secret = await secretOf(ORGANISATION, 'https://a.example/');
    expect(await secretOf(ORGANISATION, 'https://a.example/')).toBe(secret);
    expect(await secretOf(ORGANISATION, 'https://b.example/')).not.toBe(secret);
    expect(await secretOf('org_0000000000000009', 'https://a.example/')).not.toBe(secret);
    const again = world.again();
    expect(await again.noticeSecret(ORGANISATION, 'https://a.example/')).toBe(secret);
    again.close();
    const file = join(world.ownFolder, 'notices.key');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await readFile(file)).toString('base64')).not.toBe(secret.replace('whsec_', ''));
  });

  it('reaches no address that is not public, unless its host is named', async () => {
    for (const url of [
      `https://hooks.test:${port}/`,
      `https://127.0.0.1:${port}/`,
      `https://[::1]:${port}/`,
      `https://0x7f.1:${port}/`,
      'https://169.254.169.254/latest/meta-data/',
    ]) {
      await expect(world.gateway.sendNotice(notice({ url, privateHosts: [] }))).rejects.toMatchObject({
        code: 'egress_refused',
      });
    }
    expect(heard).toEqual([]);
  });

  it('goes nowhere by clear text, or with a password', async () => {
    for (const url of [`http://hooks.test:${port}/`, `https://user:pass@hooks.test:${port}/`, 'file:///etc/passwd']) {
      await expect(world.gateway.sendNotice(notice({ url }))).rejects.toMatchObject({ code: 'egress_refused' });
    }
    expect(heard).toEqual([]);
  });

  it('fails on whatever is no success, and follows no redirect', async () => {
    for (status of [302, 307, 404, 500]) {
      await expect(world.gateway.sendNotice(notice())).rejects.toMatchObject({ code: 'egress_failed' });
    }
    expect(heard.map(({ url }) => url)).toEqual(Array(4).fill('/in?x=1'));
  });

  it('is not sent to who cannot prove to be the host', async () => {
    const other = await world.serveHttps('liar.test', (_incoming, answer) => answer.end(), 'other.test');
    const url = `https://liar.test:${other}/`;
    await expect(world.gateway.sendNotice(notice({ url }))).rejects.toMatchObject({ code: 'egress_failed' });
  });
});
