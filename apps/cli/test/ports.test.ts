/** Ports of a sandbox from the command line. Those of a fake guest are those of this machine, where real servers listen. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { constants } from 'node:os';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from './pty.ts';
import { World } from './world.ts';

let world: World;
let echo: Server;
let port: number;
beforeAll(async () => {
  world = await World.start();
  await world.ok('create', '-n', 'box');
  echo = createServer({ allowHalfOpen: true }, (socket) => socket.on('error', () => undefined).pipe(socket));
  port = await listening(echo);
});
afterAll(async () => {
  echo.close();
  await world[Symbol.asyncDispose]();
});

describe('shares', () => {
  it('are made, listed and revoked, and their link is printed once', async () => {
    const link = (await world.ok('ports', 'share', 'box', '8000', '--name', 'demo', '--expires', '1h')).trim();
    const at = (await world.ok('ports', 'url', 'box', '8000')).trim();
    expect(at).toMatch(/^http:\/\/8000-sbx-\w+\.localhost:\d+/);
    expect(new URL(link).host).toBe(new URL(at).host);
    const [token = ''] = new URL(link).searchParams.values();
    expect(token).toMatch(/.{20}/);
    const [share] = await world.json('ports', 'box');
    expect(share).toMatchObject({ port: 8000, name: 'demo' });
    expect(Date.parse(share.expiresAt) - Date.parse(share.createdAt)).toBe(3_600_000);
    const listed = await world.ok('ports', 'box');
    expect(listed).toMatch(new RegExp(`^PORT +ID .*\\n8000  ${share.id}  demo .*Z\\n$`));
    expect(listed).not.toContain(token);
    const other = await world.json('ports', 'share', 'box', '8001');
    expect(other).toMatchObject({ port: 8001, name: null, url: expect.stringContaining('8001-sbx-') });
    expect((await world.run(['ports', 'revoke', 'box', 'demo', 'nobody'])).stderr).toContain('no share "nobody"');
    expect(await world.json('ports', 'box')).toHaveLength(2);
    expect(await world.ok('ports', 'revoke', 'box', 'de', other.id)).toBe(`${share.id}\n${other.id}\n`);
    expect(await world.json('ports', 'box')).toEqual([]);
  });

  it('of one name are not confused', async () => {
    const { id } = await world.json('ports', 'share', 'box', '80', '-n', 'twin');
    const other = await world.json('ports', 'share', 'box', '81', '-n', 'twin');
    expect((await world.run(['ports', 'revoke', 'box', 'twin'])).stderr).toContain('can mean 2 things');
    expect(await world.ok('ports', 'revoke', 'box', id, other.id)).toBe(`${id}\n${other.id}\n`);
  });
});

describe('forwarded ports', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'carry bytes both ways until %s, which is the exit code',
    async (signal) => {
      const child = world.start(['ports', 'forward', 'box', `0:${port}`, `0:${port}`, '--json']);
      const ended = once(child, 'exit');
      const ways = await lines(child.stdout, 2);
      const [one, two] = ways.map((line) => JSON.parse(line));
      expect([one, two]).toMatchObject([
        { localHost: '127.0.0.1', port },
        { localHost: '127.0.0.1', port },
      ]);
      expect(one.localPort).not.toBe(two.localPort);
      for (const { localPort } of [one, two]) {
        const socket = connect(localPort, '127.0.0.1');
        socket.end('there and back');
        expect(await text(socket)).toBe('there and back');
      }
      const open = connect(one.localPort, '127.0.0.1');
      open.write('held');
      await once(open, 'data');
      const cut = closed(open);
      child.kill(signal);
      expect(await ended).toEqual([128 + constants.signals[signal], null]);
      await cut;
      expect(await refused(one.localPort)).toBe(true);
    },
  );

  it('are said in words, and Ctrl-C leaves the terminal as it was', async () => {
    const terminal = world.onTerminal('ports', 'forward', 'box', `0:${port}`);
    await terminal.sees(`leads to port ${port}`);
    expect(terminal.screen).toMatch(/127\.0\.0\.1:\d+ leads to port/);
    terminal.type('\x03');
    expect(await terminal.ended).toEqual({ code: 130, restored: true });
  });

  it('say when nothing listens, and go on; when the sandbox is gone, they end', async () => {
    const id = (await world.ok('create')).trim();
    const nobody = createServer();
    const quiet = await listening(nobody);
    await new Promise((resolve) => nobody.close(resolve));
    const child = world.start(['ports', 'forward', id, `0:${quiet}`, '--json']);
    const ended = once(child, 'close');
    let said = '';
    child.stderr.on('data', (bytes) => {
      said += bytes;
    });
    const [way = ''] = await lines(child.stdout, 1);
    const { localPort } = JSON.parse(way);
    await closed(connect(localPort, '127.0.0.1'));
    await until(() => said.includes('port_refused'));
    expect(said).toMatch(new RegExp(`^space: port ${quiet}: .*\\(port_refused\\)\\n$`));
    await world.ok('rm', id);
    await closed(connect(localPort, '127.0.0.1'));
    expect(await ended).toEqual([1, null]);
    expect(said).toContain('"code":"not_found"');
  });

  it('are all there or none: a local port that is in use is an error with a way out', async () => {
    // The server in the sandbox has that port of this machine already.
    const { code, stderr } = await world.run(['ports', 'forward', 'box', `0:${port}`, String(port)]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(new RegExp(`in use.*\\n  Next: .*0:${port} for any`))]);
  });

  it.each(['0', '65536', 'http', '1:2:3', '70000:80', ':80'])('are not taken from %j', async (given) => {
    expect((await world.run(['ports', 'forward', 'box', given])).code).toBe(2);
  });
});

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('it listens on a port');
  return address.port;
}

/** Also by a reset. */
function closed(socket: Socket): Promise<unknown> {
  socket.on('error', () => undefined).resume();
  return new Promise((resolve) => socket.once('close', resolve));
}

function refused(at: number): Promise<boolean> {
  const socket = connect(at, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(false)).once('error', () => resolve(true));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

async function lines(stream: NodeJS.ReadableStream, count: number): Promise<string[]> {
  let said = '';
  stream.on('data', (bytes) => {
    said += bytes;
  });
  await until(() => said.split('\n').length > count);
  return said.trimEnd().split('\n');
}
