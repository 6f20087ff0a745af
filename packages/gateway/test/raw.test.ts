import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allow, type SANDBOX, text, World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await World.open();
});
afterEach(() => world.close());

const echo = (name: string) => world.serveTcp(name, (socket) => void socket.pipe(socket));

describe('bytes that are neither TLS nor HTTP', () => {
  it('pass where a rule lets any bytes to the host and port, each direction with its own end', async () => {
    const port = await world.serveTcp('a.test', (socket) => void text(socket).then((all) => socket.end(`${all}!`)));
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp', ports: [port] })] });
    const { socket, carried } = world.open('a.test', port);
    socket.end('\0\x01binary');
    expect(await text(socket)).toBe('\0\x01binary!');
    expect(await carried).toBeNull();
    expect(await world.records()).toMatchObject([
      { protocol: 'tcp', host: 'a.test', port, outcome: 'allowed', sentBytes: 8, receivedBytes: 9 },
    ]);
  });

  it('do not pass by a rule for requests, and nothing is looked up', async () => {
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket, carried } = world.open('a.test', 22);
    socket.write('SSH-2.0-x\r\n');
    expect(await carried).toMatchObject({ code: 'egress_refused' });
    expect(world.lookedUp).toEqual([]);
    expect(await world.records()).toMatchObject([{ outcome: 'refused', rule: 'no rule' }]);
  });

  it('do not pass at another port', async () => {
    const port = await echo('a.test');
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp', ports: [port + 1] })] });
    const { socket, carried } = world.open('a.test', port);
    socket.write('\0');
    expect(await carried).toMatchObject({ code: 'egress_refused' });
  });

  it('are waited for from the server, where that speaks first', async () => {
    const port = await world.serveTcp('a.test', (socket) => {
      socket.write('220 hello\r\n');
      socket.pipe(socket);
    });
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp', ports: [port] })] });
    const { socket } = world.open('a.test', port);
    const [greeting] = (await once(socket, 'data')) as [Buffer];
    expect(greeting.toString()).toBe('220 hello\r\n');
    socket.write('\0');
    expect((await once(socket, 'data'))[0]).toEqual(Buffer.from('\0'));
  });

  it('that come late are told apart all the same: a request is judged as one', async () => {
    let accepted = false;
    const port = await world.serveTcp('a.test', () => {
      accepted = true;
    });
    const raw = allow({ host: 'a.test', protocol: 'tcp', ports: [port] });
    await world.allow({ allow: [raw, allow({ host: 'a.test', access: 'read' })] });
    const { socket } = world.open('a.test', port);
    await expect.poll(() => accepted).toBe(true);
    socket.write(`POST / HTTP/1.1\r\nHost: a.test:${port}\r\nContent-Length: 0\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1.1 403 /);
  });
});

describe('without rules', () => {
  it('nothing leaves, and a program that speaks HTTP is told', async () => {
    const { socket } = world.open('a.test', 80);
    socket.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1.1 403 [\s\S]*no rules are loaded/);
    const { socket: other, carried } = world.open('a.test', 22);
    other.write('\0');
    expect(await carried).toMatchObject({ code: 'egress_refused' });
    expect(world.lookedUp).toEqual([]);
  });

  it('of its own a sandbox has none, whatever others have', async () => {
    await world.gateway.setRules({
      ...world.rules({ preset: 'internet' }),
      sandboxId: 'sbx_0000000000000009' as typeof SANDBOX,
    });
    const { socket, carried } = world.open('a.test', 22);
    socket.write('\0');
    expect(await carried).toMatchObject({ code: 'egress_refused' });
  });
});

describe('an address that is not public', () => {
  it.each([
    ['a name of a loopback address', 'evil.example', ['127.0.0.1']],
    ['a name of a private address', 'evil.example', ['10.0.0.1']],
    ['a name of the metadata service', 'evil.example', ['169.254.169.254']],
    ['a name of a mapped form', 'evil.example', ['::ffff:127.0.0.1']],
    ['a name of NAT64', 'evil.example', ['64:ff9b::7f00:1']],
    ['a name of a public and a private address', 'evil.example', ['1.1.1.1', '127.0.0.1']],
    ['a private host that is at the metadata service', 'a.test', ['169.254.169.254']],
    ['a private host at no address', 'a.test', ['0.0.0.0']],
    ['a literal', '127.0.0.2', []],
    ['a literal in hexadecimal', '0x7f000002', []],
    ['a literal in octal', '0177.0.0.2', []],
    ['a literal as one number', '2130706434', []],
    ['a short literal', '127.2', []],
    ['a mapped literal', '::ffff:127.0.0.2', []],
    ['a literal of IPv6 loopback', '::1', []],
    ['a literal of the metadata service', '169.254.169.254', []],
  ])('is not dialled: %s', async (_what, host, addresses) => {
    let accepted = 0;
    const port = await world.serveTcp('a.test', () => accepted++);
    world.names.set(host, addresses);
    await world.allow({ preset: 'internet' });
    const { socket, carried } = world.open(host, port);
    socket.write('\0');
    expect(await carried).toMatchObject({ code: 'egress_refused', facts: { rule: 'public addresses only' } });
    expect(accepted).toBe(0);
  });

  it('is looked up once for each connection: a name that changes its address in between changes nothing', async () => {
    const port = await echo('a.test');
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp' })] });
    const { socket } = world.open('a.test', port);
    socket.write('\0');
    await once(socket, 'data');
    expect(world.lookedUp).toEqual(['a.test']);
  });
});

describe('a connection', () => {
  it('ends with its life', async () => {
    const port = await echo('a.test');
    await world.allow({ allow: [allow({ host: 'a.test', protocol: 'tcp' })] });
    const { socket, carried } = world.open('a.test', port);
    socket.write('\0');
    await once(socket, 'data');
    world.ended.abort(new Error('the life has ended'));
    expect(await carried).toMatchObject({ message: 'the life has ended' });
  });

  it('to nothing that answers fails, and says so', async () => {
    world.names.set('a.test', ['127.0.0.1']);
    await world.allow({ allow: [allow({ host: 'a.test' })] });
    const { socket } = world.open('a.test', 1);
    socket.write('GET / HTTP/1.1\r\nHost: a.test:1\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1.1 502 [\s\S]*Nothing answers at a\.test, port 1/);
  });

  it('to a name that is not there fails, and says so', async () => {
    await world.allow({ allow: [allow({ host: 'none.test' })] });
    const { socket } = world.open('none.test', 80);
    socket.write('GET / HTTP/1.1\r\nHost: none.test\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1.1 502 [\s\S]*could not be resolved/);
  });
});
