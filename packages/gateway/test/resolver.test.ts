import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createResolve, resolveTarget } from '../src/resolver.ts';

const A = 1;
const NAME_ERROR = 3;

/** A server of DNS that knows a few names, and what it was asked. */
class Names {
  readonly asked: string[] = [];
  readonly #socket: Socket = createSocket('udp4');
  readonly #addresses: Readonly<Record<string, string>>;

  constructor(addresses: Readonly<Record<string, string>>) {
    this.#addresses = addresses;
    this.#socket.on('message', (query, from) => this.#answer(query, from));
  }

  async open(): Promise<string> {
    this.#socket.bind(0, '127.0.0.1');
    await once(this.#socket, 'listening');
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  close(): void {
    this.#socket.close();
  }

  #answer(query: Buffer, from: RemoteInfo): void {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.subarray(at + 1, at + 1 + length).toString());
      at += 1 + length;
    }
    const name = labels.join('.').toLowerCase();
    const type = query.readUInt16BE(at + 1);
    this.asked.push(name);
    const address = this.#addresses[name];
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(0x8180 | (address === undefined ? NAME_ERROR : 0), 2);
    const answers = address !== undefined && type === A ? 1 : 0;
    header.writeUInt16BE(answers, 6);
    header.fill(0, 8);
    const bytes = [0xc0, 0x0c, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...(address ?? '').split('.').map(Number)];
    const answer = answers === 0 ? Buffer.alloc(0) : Buffer.from(bytes);
    this.#socket.send(Buffer.concat([header, query.subarray(12, at + 5), answer]), from.port, from.address);
  }
}

let names: Names;
let server: string;
beforeEach(async () => {
  names = new Names({ 'a.example': '1.2.3.4', 'evil.example': '169.254.169.254' });
  server = await names.open();
});
afterEach(() => names.close());

const RULES = {
  policy: { preset: 'internet', allow: [], ask: [], deny: [] },
  constraints: { preset: 'internet', allow: [], ask: [], deny: [], readOnly: [], privateHosts: [] },
} as const;

it('asks the servers that it is told of, and nobody else', async () => {
  const resolve = createResolve([server]);
  expect(await resolve('a.example')).toEqual(['1.2.3.4']);
  expect(new Set(names.asked)).toEqual(new Set(['a.example']));
  await expect(resolve('none.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
});

it('gives no address to dial that may not be dialled, whatever its name', async () => {
  const resolve = createResolve([server]);
  expect(await resolveTarget(resolve, RULES, { host: 'a.example', port: 443 })).toEqual(['1.2.3.4']);
  const evil = resolveTarget(resolve, RULES, { host: 'evil.example', port: 80 });
  await expect(evil).rejects.toMatchObject({ code: 'egress_refused' });
  const none = resolveTarget(resolve, RULES, { host: 'none.example', port: 80 });
  await expect(none).rejects.toMatchObject({ code: 'egress_failed' });
});

it('asks nobody for an address', async () => {
  await resolveTarget(createResolve([server]), RULES, { host: '1.1.1.1', port: 443 });
  expect(names.asked).toEqual([]);
});

it('knows what the machine knows beside DNS', async () => {
  expect(await createResolve()('localhost')).toContain('127.0.0.1');
});

it('refuses a name that has an address of a denied network, or a denied one, by whatever rule it is allowed', async () => {
  const resolve = async (host: string) => (host === 'two.example' ? ['1.1.1.1', '2606:4700::6810:1'] : ['1.1.1.1']);
  const denying = (...deny: string[]) => ({ ...RULES, policy: { ...RULES.policy, deny } }) as const;
  const target = { host: 'two.example', port: 443 };
  for (const denied of ['1.1.0.0/16', '1.1.1.1', '2606:4700::/32']) {
    await expect(resolveTarget(resolve, denying(denied), target)).rejects.toMatchObject({ code: 'egress_refused' });
  }
  await expect(resolveTarget(resolve, denying('1.1.0.0/16'), { host: '1.1.2.3', port: 443 })).rejects.toThrow();
  expect(await resolveTarget(resolve, denying('1.2.0.0/16', '*.other.example'), target)).toHaveLength(2);
});
