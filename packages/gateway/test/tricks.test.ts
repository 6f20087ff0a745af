/** What a hostile guest, or a hostile host, tries: each trick by itself, against servers that write down what reached them. */
import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import {
  bytesOf,
  DISGUISED_WRITES,
  HIDDEN_REQUESTS,
  REWRITING_HEADERS,
  STRAY_PATHS,
} from '@space/conformance/requests';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, SANDBOX, text, World } from './world.ts';

let world: World;
let heard: string;
let accepted: number;
beforeEach(async () => {
  world = await World.open();
  heard = '';
  accepted = 0;
});
afterEach(() => world.close());

/** Writes down all that reaches it, and answers each piece with an empty 200. */
function listening(name = 'a.test'): Promise<number> {
  return world.serveTcp(name, (socket) => {
    accepted++;
    socket.on('data', (bytes: Buffer) => {
      heard += bytes.toString('latin1');
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    });
    socket.on('end', () => socket.end());
  });
}

async function say(port: number, bytes: string, host = 'a.test'): Promise<string> {
  const { socket } = world.open(host, port);
  socket.write(Buffer.from(bytes.replaceAll('PORT', `${port}`), 'latin1'));
  return text(socket);
}

/** For tricks that are tried from real guests, too. */
const HOSTS = { host: 'a.test', other: 'b.test' };
const INNER = 'POST /shut HTTP/1.1\r\nHost: a.test:PORT\r\nContent-Length: 0\r\n\r\n';
const reading = () => world.allow({ allow: [allow({ host: 'a.test', access: 'read', path: '/open' })] });

describe('a second request that is hidden in a first', () => {
  it.each(HIDDEN_REQUESTS.map((one) => [one.name, one] as const))('%s reaches nobody', async (_what, one) => {
    const port = await listening();
    await reading();
    const back = await say(port, bytesOf(one, { ...HOSTS, port }));
    expect(back).toMatch(/HTTP\/1\.1 4\d\d /);
    expect(heard).not.toMatch(/POST|shut|override/i);
  });

  it('behind an upgrade to HTTP/2 reaches nobody, and no host hears of the upgrade', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', path: '/open' })] });
    const { socket } = world.open('a.test', port);
    const host = `Host: a.test:${port}\r\n`;
    socket.write(`GET /open HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`);
    await once(socket, 'data');
    socket.write(`POST /shut HTTP/1.1\r\n${host}\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`);
    socket.end();
    await expect.poll(() => world.records()).not.toEqual([]);
    expect(heard).toMatch(/^GET \/open/);
    expect(heard).not.toMatch(/h2c|POST|PRI/);
  });

  it('behind an upgrade that the host does not take reaches nobody', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', path: '/open' })] });
    const upgrade = 'GET /open HTTP/1.1\r\nHost: a.test:PORT\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n';
    expect(await say(port, `${upgrade}\r\n${INNER}`)).toMatch(/^HTTP\/1\.1 200 /);
    expect(heard).not.toMatch(/POST/);
    expect(await say(port, `${upgrade}Content-Length: 5\r\n\r\nhello`)).toMatch(/^HTTP\/1\.1 403 /);
  });
});

describe('a write that looks like a read', () => {
  it.each(DISGUISED_WRITES.map((one) => [one.name, one] as const))(
    '%s is refused where the organisation lets a host be read only',
    async (_what, one) => {
      const port = await listening();
      await world.allow({ allow: [allow({ host: 'a.test' })] }, { readOnly: ['a.test'] });
      expect(await say(port, bytesOf(one, { ...HOSTS, port }))).toMatch(/^HTTP\/1\.1 4\d\d /);
      expect(accepted).toBe(0);
    },
  );
});

describe('a path that leads elsewhere', () => {
  it.each(STRAY_PATHS)('is not covered by a rule for another: %s', async (path) => {
    const port = await listening();
    await reading();
    expect(await say(port, `GET ${path} HTTP/1.1\r\nHost: a.test:PORT\r\n\r\n`)).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(accepted).toBe(0);
  });

  it.each(REWRITING_HEADERS)('is not named by a header: %s', async (name) => {
    const port = await listening();
    await reading();
    const back = await say(port, `GET /open HTTP/1.1\r\nHost: a.test:PORT\r\n${name}: /shut\r\n\r\n`);
    expect(back).toMatch(/^HTTP\/1\.1 403 /);
    expect(accepted).toBe(0);
  });
});

describe('a wildcard', () => {
  it.each(['test', 'eviltest', 'a.test.evil', 'test.evil'])('does not cover %s', async (host) => {
    world.names.set(host, ['127.0.0.1']);
    const port = await listening();
    await world.allow({ allow: [allow({ host: '*.test' })] }, { privateHosts: ['*.test', host] });
    expect(await say(port, `GET / HTTP/1.1\r\nHost: ${host}:PORT\r\n\r\n`, host)).toMatch(/^HTTP\/1\.1 403 /);
    expect(world.lookedUp).toEqual([]);
  });
});

/** A hello as a client of Node's makes it. */
async function helloOf(servername: string): Promise<Buffer> {
  const { duplexPair } = await import('node:stream');
  const [near, far] = duplexPair();
  connectTls({ socket: near, servername }).on('error', () => undefined);
  const [hello] = (await once(far, 'data')) as [Buffer];
  near.destroy();
  return hello;
}

/** The same message in records of so many bytes. */
function cutInto(hello: Buffer, size: number): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 5; at < hello.length; at += size) {
    const piece = hello.subarray(at, at + size);
    pieces.push(Buffer.from([22, 3, 1, piece.length >> 8, piece.length & 255]), piece);
  }
  return Buffer.concat(pieces);
}

describe('TLS that is not to be understood', () => {
  const withExtension = (hello: Buffer, extension: Buffer): Buffer => {
    const message = Buffer.from(hello.subarray(9));
    let at = 34;
    at += 1 + (message[at] ?? 0);
    at += 2 + message.readUInt16BE(at);
    at += 1 + (message[at] ?? 0);
    message.writeUInt16BE(message.readUInt16BE(at) + extension.length, at);
    const all = Buffer.concat([message, extension]);
    const head = Buffer.from([22, 3, 1, 0, 0, 1, 0, 0, 0]);
    head.writeUInt16BE(all.length + 4, 3);
    head.writeUIntBE(all.length, 6, 3);
    return Buffer.concat([head, all]);
  };
  const secondName = Buffer.from('000000090007000004622e7465', 'hex');

  it.each<[string, (hello: Buffer) => Buffer]>([
    ['with an empty record before', (hello) => Buffer.concat([Buffer.from('1603010000', 'hex'), hello])],
    ['with an alert before', (hello) => Buffer.concat([Buffer.from('15030100020100', 'hex'), hello])],
    ['in the form of SSL 2', () => Buffer.from('802e0103010015000000100100800200800300800400800500', 'hex')],
    ['with two names', (hello) => withExtension(hello, secondName)],
    ['that is too long', () => Buffer.from('1603014000010fffff', 'hex')],
    ['that is another message', () => Buffer.from('160301000402000000', 'hex')],
    ['cut into too many records', () => cutInto(Buffer.from(`1603010000010010${'00'.repeat(5000)}`, 'hex'), 1)],
  ])('is let through by no rule, also not by one for any bytes: %s', async (_what, change) => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp' })] });
    const { socket, carried } = world.open('a.test', port);
    socket.write(change(await helloOf('b.test')));
    expect(await carried).toMatchObject({ code: 'egress_refused' });
    expect(accepted).toBe(0);
  });

  it('is read however it is cut, in small pieces and smaller records', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tls' })] });
    const cut = cutInto(await helloOf('a.test'), 2);
    const { socket } = world.open('a.test', port);
    for (let at = 0; at < cut.length; at += 100) socket.write(cut.subarray(at, at + 100));
    await expect.poll(() => heard.length).toBe(cut.length);
    const other = world.open('a.test', port);
    other.socket.write(cutInto(await helloOf('b.test'), 2));
    await expect.poll(() => other.socket.readableLength).toBeGreaterThan(0);
    expect(accepted).toBe(1);
  });

  it('does not pass unopened when a second name is hidden in it', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tls' })] });
    const hidden = withExtension(await helloOf('a.test'), Buffer.from('fe0d000100', 'hex'));
    const { socket } = world.open('a.test', port);
    socket.write(hidden);
    await expect.poll(() => heard.length).toBeGreaterThan(0);
    expect(heard).not.toContain(hidden.toString('latin1'));
  });
});

describe('HTTP behind empty lines', () => {
  it('is judged as HTTP, whatever lets other bytes through', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp' }), allow({ host: 'a.test' })] });
    expect(await say(port, '\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n')).toMatch(/^HTTP\/1\.1 403 /);
    expect(accepted).toBe(0);
  });
});

describe('rules that change between the judging and the dialling', () => {
  async function whileResolving(protocol: 'tcp' | 'tls' | 'http', change: () => Promise<void>): Promise<void> {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', protocol })] });
    let go = (): void => undefined;
    world.resolving = new Promise((resolve) => {
      go = resolve;
    });
    const { socket, carried } = world.open('a.test', port);
    socket.write(
      protocol === 'tcp' ? '\0secret' : 'GET /secret HTTP/1.1\r\nHost: a.test\r\n\r\n'.replace('test', `test:${port}`),
    );
    await expect.poll(() => world.lookedUp).toEqual(['a.test']);
    await change();
    go();
    socket.resume();
    await carried;
    expect(heard).toBe('');
  }

  it('hold: none are left', () => whileResolving('tcp', () => world.gateway.dropRules(SANDBOX)));
  it('hold: none are left for requests', () => whileResolving('http', () => world.gateway.dropRules(SANDBOX)));
  it('hold: only requests are left', () =>
    whileResolving('tcp', () => world.allow({ allow: [allow({ host: 'a.test' })] })));
  it('hold: the address may not be private any more', () =>
    whileResolving('tcp', () =>
      world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp' })] }, { privateHosts: [] }),
    ));
});

describe('what is open', () => {
  it('is cut when its host may not have a private address any more', async () => {
    const port = await listening();
    const policy = { allow: [allow({ host: 'a.test', protocol: 'tcp' })] };
    await world.allow(policy);
    const { socket, carried } = world.open('a.test', port);
    socket.write('\0');
    await once(socket, 'data');
    await world.allow(policy, { privateHosts: [] });
    await carried;
    await expect.poll(() => socket.destroyed).toBe(true);
  });

  it('does not reach an address that is the machine itself, public as it may be', async () => {
    world.machine.push('1.1.1.1');
    for (const address of ['1.1.1.1', '::ffff:1.1.1.1', '64:ff9b::101:101']) {
      world.names.set('evil.example', [address]);
      await world.allow({ preset: 'internet' });
      const { socket, carried } = world.open('evil.example', 22);
      socket.write('\0');
      expect(await carried).toMatchObject({ code: 'egress_refused', facts: { rule: 'public addresses only' } });
    }
  });

  it('is bounded: what is above the limit of a sandbox is turned away, and the rest goes on', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp' })] });
    const all = Array.from({ length: 2000 }, () => world.open('a.test', port));
    const refused = await Promise.all(all.slice(256).map(({ carried }) => carried));
    expect(refused.every((one) => (one as { code?: string }).code === 'unavailable')).toBe(true);
    all[0]?.socket.write('\0');
    await once(all[0]?.socket ?? world.open('a.test', port).socket, 'data');
  });
});

describe('what is written down', () => {
  it('has no letters that a terminal obeys, and no method of any length', async () => {
    const port = await listening();
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    expect(await say(port, 'GET /\x9b31m HTTP/1.1\r\nHost: a.test:PORT\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
    const session = await world.http2('b.test', 443);
    const stream = session.request({ ':method': 'X'.repeat(5000), ':path': '/', ':authority': 'b.test' });
    stream.on('error', () => undefined).resume();
    await once(stream, 'close');
    await expect.poll(() => world.records()).toHaveLength(2);
    const records = await world.records();
    expect(JSON.stringify(records)).not.toMatch(/\x9b/);
    expect(records.find(({ host }) => host === 'b.test')?.method).toBe('X'.repeat(32));
  });
});

describe('HTTP/2', () => {
  it('lets no read with a body through a rule for reading', async () => {
    const port = await world.serveHttp2('a.test', (stream) => {
      accepted++;
      stream.respond({ ':status': 200 }, { endStream: true });
    });
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read' })] });
    const session = await world.http2('a.test', port);
    const stream = session.request({ ':path': '/', ':authority': `a.test:${port}` }, { endStream: false });
    stream.on('error', () => undefined);
    const answered = once(stream, 'response');
    stream.end('body');
    expect((await answered)[0]).toMatchObject({ ':status': 403 });
    expect(accepted).toBe(0);
  });

  it('ends the session of who opens streams and resets them, and nobody else’s', async () => {
    const port = await world.serveHttp2('a.test', (stream) => stream.respond({ ':status': 200 }, { endStream: true }));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const head = { ':path': '/', ':authority': `a.test:${port}` };
    const hostile = await world.http2('a.test', port);
    const ended = new Promise((resolve) => hostile.once('close', resolve));
    for (let round = 0; round < 40 && !hostile.destroyed; round++) {
      for (let one = 0; one < 100 && !hostile.destroyed; one++) {
        hostile
          .request(head)
          .on('error', () => undefined)
          .close(8);
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    await ended;
    const other = (await world.http2('a.test', port)).request(head);
    expect((await once(other, 'response'))[0]).toMatchObject({ ':status': 200 });
  });
});
