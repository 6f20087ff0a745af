import { once } from 'node:events';
import { type IncomingMessage, type RequestOptions, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { bytesOf, TWO_WAY_HEADS } from '@space/conformance/requests';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, text, World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await World.open();
});
afterEach(() => world.close());

interface Told {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

async function ask(socket: Duplex, options: RequestOptions, body?: string): Promise<Told> {
  const asked = request({ createConnection: () => socket as never, path: '/', ...options });
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response), headers: response.headers };
}

/** Raw bytes, and all that comes back. */
async function say(socket: Duplex, bytes: string): Promise<string> {
  socket.write(bytes);
  return text(socket);
}

describe('a request over TLS', () => {
  it('reaches the host that it names, and is seen by its authority', async () => {
    const port = await world.serveHttps('a.test', (incoming, answer) => {
      answer.setHeader('x-path', incoming.url ?? '');
      answer.end(`${incoming.method} ${incoming.headers.host}`);
    });
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read' })] });
    const tls = await world.tls('a.test', port);
    expect(tls.getPeerCertificate().issuer.CN).toMatch(/^SPACE gateway/);
    const told = await ask(tls, { path: '/x?secret=1', headers: { host: `a.test:${port}` } });
    expect(told).toMatchObject({ status: 200, body: `GET a.test:${port}`, headers: { 'x-path': '/x?secret=1' } });
    await expect
      .poll(() => world.records())
      .toMatchObject([
        { host: 'a.test', port, method: 'GET', path: '/x', outcome: 'allowed', status: 200, rule: 'allow 1: a.test' },
      ]);
  });

  it('that no rule allows is answered with the rule and whom to ask, and nothing is looked up', async () => {
    await world.allow({});
    const tls = await world.tls('a.test', 443);
    const told = await ask(tls, { headers: { host: 'a.test' } });
    expect(told).toMatchObject({ status: 403, body: expect.stringMatching(/Rule: no rule\. Whom to ask: whoever/) });
    expect(world.lookedUp).toEqual([]);
    await expect.poll(() => world.records()).toMatchObject([{ host: 'a.test', outcome: 'refused', rule: 'no rule' }]);
  });

  it('is answered in JSON when that is asked for', async () => {
    await world.allow({});
    const told = await ask(await world.tls('a.test', 443), { headers: { host: 'a.test', accept: 'application/json' } });
    expect(JSON.parse(told.body)).toMatchObject({ status: 403, code: 'egress_refused', rule: 'no rule', ask: 'owner' });
  });
});

describe('a refusal', () => {
  it.each(['TLS', 'clear text'])('is read by a program that still sends, in %s', async (form) => {
    await world.allow({});
    const socket = form === 'TLS' ? await world.tls('a.test', 443) : world.open('a.test', 80).socket;
    socket.write('POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000000\r\n\r\n');
    const piece = Buffer.alloc(64 * 1024);
    let isOver = false;
    const pour = (): void => {
      while (!isOver && socket.write(piece));
    };
    socket.on('drain', pour);
    pour();
    const told = await text(socket);
    isOver = true;
    expect(told).toMatch(/^HTTP\/1.1 403 .*Rule: no rule\./s);
  });

  it('is the last answer of its connection: what was sent behind it is no request', async () => {
    const heard: string[] = [];
    const port = await world.serveHttps('a.test', (incoming, answer) => {
      heard.push(incoming.url ?? '');
      answer.end();
    });
    await world.allow({ allow: [allow({ host: 'a.test', path: '/may' })] });
    const tls = await world.tls('a.test', port);
    tls.write(`GET /no HTTP/1.1\r\nHost: a.test:${port}\r\n\r\n`);
    await once(tls, 'readable');
    tls.write(`GET /may HTTP/1.1\r\nHost: a.test:${port}\r\n\r\n`);
    expect((await text(tls)).match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 403']);
    expect(heard).toEqual([]);
  });
});

it('hints that a host gives ahead of its answer are passed on', async () => {
  const port = await world.serveHttps('a.test', (_incoming, answer) => {
    answer.writeProcessing();
    answer.writeEarlyHints({ link: '</style.css>; rel=preload', 'x-id': '7' }, () => answer.end('well'));
  });
  await world.allow({ allow: [allow({ host: 'a.test' })] });
  const tls = await world.tls('a.test', port);
  const asked = request({ createConnection: () => tls as never, path: '/', headers: { host: `a.test:${port}` } });
  const early: unknown[] = [];
  asked.on('information', ({ statusCode, headers }) => early.push([statusCode, headers]));
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  expect(early).toEqual([
    [102, {}],
    [103, { link: '</style.css>; rel=preload', 'x-id': '7' }],
  ]);
  expect(await text(response)).toBe('well');
});

it('a request that offers another protocol is answered in this one, and says that its connection ends', async () => {
  const port = await world.serveHttp('a.test', (_incoming, answer) => answer.end('well'));
  await world.allow({ allow: [allow({ host: 'a.test' })] });
  const { socket } = world.open('a.test', port);
  const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n';
  const told = await say(socket, `GET / HTTP/1.1\r\nHost: a.test:${port}\r\n${offer}`);
  expect(told).toMatch(/^HTTP\/1.1 200 .*Connection: close.*well/is);
});

describe('a request in clear text', () => {
  it('is judged one by one on one connection, and the host hears only of those that may', async () => {
    const heard: string[] = [];
    const port = await world.serveHttp('a.test', (incoming, answer) => {
      heard.push(incoming.url ?? '');
      answer.end('well');
    });
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read', path: '/open' })] });
    const { socket } = world.open('a.test', port);
    const host = `Host: a.test:${port}\r\n\r\n`;
    const all = await say(
      socket,
      `GET /open/1 HTTP/1.1\r\n${host}GET /open/2 HTTP/1.1\r\n${host}GET /shut HTTP/1.1\r\n${host}`,
    );
    expect(all.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 403']);
    expect(heard).toEqual(['/open/1', '/open/2']);
  });
});

describe('a head that can be read in two ways', () => {
  it.each(TWO_WAY_HEADS.map((one) => [one.name, one] as const))('is refused: %s', async (_what, one) => {
    let heard = 0;
    const port = await world.serveHttp('a.test', (_incoming, answer) => {
      heard++;
      answer.end();
    });
    await world.allow({ preset: 'none', allow: [allow({ host: '*.test' })] });
    const { socket } = world.open('a.test', port);
    const told = await say(socket, bytesOf(one, { host: 'a.test', other: 'b.test', port }));
    expect(told).toMatch(/^(HTTP\/1\.1 4\d\d |$)/);
    expect(heard).toBe(0);
  });

  it('in another way of writing the same host is passed on as it is', async () => {
    const port = await world.serveHttp('a.test', (incoming, answer) => answer.end(incoming.headers.host));
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket } = world.open('A.test.', port);
    expect(await ask(socket, { headers: { host: `A.TEST.:${port}` } })).toMatchObject({ status: 200 });
  });
});

describe('what is streamed', () => {
  it('arrives piece by piece, and not at the end: events of a server', async () => {
    let say: ((text: string) => void) | undefined;
    const port = await world.serveHttps('a.test', (_incoming, answer) => {
      answer.writeHead(200, { 'content-type': 'text/event-stream' });
      answer.flushHeaders();
      say = (text) => answer.write(text);
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const tls = await world.tls('a.test', port);
    const asked = request({ createConnection: () => tls as never, headers: { host: `a.test:${port}` } });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    for (const event of ['one', 'two']) {
      say?.(`data: ${event}\n\n`);
      const [bytes] = (await once(response, 'data')) as [Buffer];
      expect(bytes.toString()).toBe(`data: ${event}\n\n`);
    }
  });

  it('is asked for only when the host says that it goes on', async () => {
    const port = await world.serveHttp(
      'a.test',
      (incoming, answer) => void text(incoming).then((body) => answer.end(body)),
    );
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket } = world.open('a.test', port);
    const headers = { host: `a.test:${port}`, expect: '100-continue', 'content-length': 5 };
    const asked = request({ createConnection: () => socket as never, method: 'POST', headers });
    asked.flushHeaders();
    await once(asked, 'continue');
    asked.end('hello');
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    expect(await text(response)).toBe('hello');
  });

  it('keeps its trailers', async () => {
    const port = await world.serveHttp('a.test', (_incoming, answer) => {
      answer.writeHead(200, { trailer: 'X-Sum' });
      answer.write('a');
      answer.addTrailers({ 'X-Sum': '1' });
      answer.end();
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const asked = request({
      createConnection: () => world.open('a.test', port).socket as never,
      headers: { host: `a.test:${port}` },
    });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    await text(response);
    expect(response.trailers).toEqual({ 'x-sum': '1' });
  });

  it('waits for a program that does not read, and holds little of it', async () => {
    const size = 100 * 1024 * 1024;
    let sent = 0;
    const port = await world.serveHttp('a.test', (_incoming, answer) => {
      const give = (): void => {
        while (sent < size) {
          sent += 65_536;
          if (!answer.write(Buffer.alloc(65_536))) {
            answer.once('drain', give);
            return;
          }
        }
        answer.end();
      };
      give();
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const asked = request({
      createConnection: () => world.open('a.test', port).socket as never,
      headers: { host: `a.test:${port}` },
    });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    let before = -1;
    await expect
      .poll(
        () => {
          const same = sent === before;
          before = sent;
          return same;
        },
        { interval: 100 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(32 * 1024 * 1024);
    let received = 0;
    for await (const bytes of response) received += (bytes as Buffer).length;
    expect(received).toBe(size);
  });
});

describe('a WebSocket', () => {
  const upgrade = (port: number) =>
    `GET /ws HTTP/1.1\r\nHost: a.test:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;

  it('carries bytes both ways once the host has taken it', async () => {
    const port = await world.serveTcp('a.test', (socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly');
        socket.on('data', (bytes) => socket.write(bytes));
        socket.on('end', () => socket.end());
      });
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket } = world.open('a.test', port);
    socket.write(upgrade(port));
    const [head] = (await once(socket, 'data')) as [Buffer];
    expect(head.toString()).toMatch(/^HTTP\/1.1 101 /);
    let seen = head.toString();
    socket.on('data', (bytes: Buffer) => {
      seen += bytes.toString();
    });
    socket.write('frame');
    await expect.poll(() => seen).toMatch(/earlyframe$/);
    socket.end();
    await expect.poll(() => world.records()).toMatchObject([{ path: '/ws', outcome: 'allowed', status: 101 }]);
  });

  it('is a write: where only reading is allowed it is refused', async () => {
    await world.allow({ allow: [allow({ host: 'a.test', access: 'read' })] });
    const { socket } = world.open('a.test', 80);
    socket.write(upgrade(80).replace(':80', ''));
    expect(await text(socket)).toMatch(/^HTTP\/1.1 403 /);
    expect(world.lookedUp).toEqual([]);
  });

  it('that the host does not take is answered with what the host says', async () => {
    const port = await world.serveHttp('a.test', (_incoming, answer) => {
      answer.writeHead(418);
      answer.end('no');
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket } = world.open('a.test', port);
    socket.write(upgrade(port));
    expect(await text(socket)).toMatch(/^HTTP\/1.1 418 [\s\S]*no/);
  });
});

describe('a host that is hostile', () => {
  it.each([
    ['a status line with control characters', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n'],
    ['a status that is none', 'HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n'],
    ['a status beyond all', 'HTTP/1.1 999 All\r\nContent-Length: 0\r\n\r\n'],
    ['no HTTP', '\0\0\0\0'],
    ['a header with control characters', 'HTTP/1.1 200 OK\r\nX-A: \x01\r\nContent-Length: 0\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    [
      'a switch of protocols that nobody asked for',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
    ],
    ['trailers that are none', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX A: \x01\r\n\r\n'],
    ['a cut in its head', 'HTTP/1.1 200 O'],
  ])('harms its own connection only: %s', async (_what, says) => {
    const port = await world.serveTcp('a.test', (socket) => socket.once('data', () => socket.end(says, 'latin1')));
    const well = await world.serveHttp('b.test', (_incoming, answer) => answer.end('well'));
    await world.allow({ allow: [allow({ host: '*.test' })] });
    const { socket } = world.open('a.test', port);
    const asked = `GET / HTTP/1.1\r\nHost: a.test:${port}\r\nConnection: close\r\n\r\n`;
    const told = await say(socket, asked).catch(() => '');
    expect(told).toMatch(/^(HTTP\/1\.1 |$)/);
    const { socket: other } = world.open('b.test', well);
    expect(await ask(other, { headers: { host: `b.test:${well}` } })).toMatchObject({ status: 200, body: 'well' });
  });
});

describe('a program that sends requests ahead', () => {
  /** Besides the one that the host has. */
  const MAX_WAITING = 100;

  async function sendAhead(count: number) {
    let begun = 0;
    const [first, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const port = await world.serveHttp('a.test', async (_incoming, answer) => {
      begun++;
      first.resolve();
      await held.promise;
      answer.end('held');
    });
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket } = world.open('a.test', port);
    const asked = (more = '') => `GET / HTTP/1.1\r\nHost: a.test:${port}\r\n${more}\r\n`;
    socket.write(asked());
    await first.promise;
    socket.write(asked().repeat(count - 1) + asked('Connection: close\r\n'));
    return { socket, begun: () => begun, letGo: held.resolve };
  }

  it('has all of them answered, up to the limit', async () => {
    const { socket, begun, letGo } = await sendAhead(MAX_WAITING);
    letGo();
    expect((await text(socket)).match(/HTTP\/1\.1 200 /g)).toHaveLength(MAX_WAITING + 1);
    expect(begun()).toBe(MAX_WAITING + 1);
  });

  it('is cut when there is one more, and the host is asked for none of those that wait', async () => {
    const { socket, begun } = await sendAhead(MAX_WAITING + 1);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => undefined).resume();
    await closed;
    await expect.poll(() => world.records()).toMatchObject([{ host: 'a.test', outcome: 'cut' }]);
    expect(begun()).toBe(1);
  });
});
