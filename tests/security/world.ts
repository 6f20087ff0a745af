/** The HTTP server over the real control, on records in memory and a fake node: all of the API but the VMs. */
import { type IncomingMessage, request } from 'node:http';
import { type Control, createApiKey, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import { createHttpServer, createLogger, type HttpServerOptions, listen } from '@space/http';
import { FakeGateway, FakeKms, FakeNode, fakeKmsDirectory, realClock, seededChance } from '@space/testkit';

const ignore = () => undefined;

export class World implements AsyncDisposable {
  readonly node = new FakeNode();
  readonly records = new MemoryRecords();
  readonly breaches: string[] = [];
  readonly kms = new FakeKms();
  readonly #ports = {
    node: this.node,
    records: this.records,
    clock: realClock(),
    chance: seededChance(Date.now()),
    kms: fakeKmsDirectory(this.kms),
  };
  readonly control: Control = createControl(
    { ...this.#ports, logger: { debug: ignore, info: ignore, warn: ignore, error: ignore } },
    new FakeGateway(),
  );
  #app: ReturnType<typeof createHttpServer> | undefined;
  url = '';
  /** Of an admin of the organisation that runs the installation. */
  operatorKey = '';

  static start(): Promise<World> {
    return World.startAs(new World());
  }

  static async startAs<W extends World>(world: W, more: Partial<HttpServerOptions> = {}): Promise<W> {
    world.#app = createHttpServer({
      useCases: world.control,
      authenticate: (token, project) => world.control.authenticate(token, project),
      openPublic: (target) => world.control.openPublic(target),
      openShare: (token, preview) => world.control.openShare(token, preview),
      logger: createLogger({ level: 'silent' }),
      version: '0.1.0',
      onBreach: (breach) => world.breaches.push(breach),
      ...more,
    });
    world.url = await listen(world.#app, { host: '127.0.0.1', port: 0 });
    world.operatorKey = (await createApiKey(world.#ports)).secretKey;
    return world;
  }

  async call(key: string, method: string, path: string, body?: unknown, more: Record<string, string> = {}) {
    const headers = {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const json = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(this.url + path, { method, headers: { ...headers, ...more }, ...json });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  /** As `call`, of a route that takes the connection over. */
  async upgrade(key: string, path: string, protocol: string) {
    const headers = { authorization: `Bearer ${key}`, connection: 'Upgrade', upgrade: protocol };
    const asked = request(this.url + path, { headers, agent: false }).end();
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      asked.once('response', resolve).once('error', reject);
      asked.once('upgrade', (accepted, socket) => {
        socket.destroy();
        resolve(accepted);
      });
    });
    const status = answer.statusCode ?? 0;
    const text = status === 101 ? '' : (await Array.fromAsync(answer.setEncoding('utf8'))).join('');
    return { status, headers: new Headers(), text };
  }

  /** The JSON of a call that succeeds. */
  async ask(key: string, method: string, path: string, body?: unknown) {
    const { status, text } = await this.call(key, method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#app?.close();
    await this.control.close();
    if (this.breaches.length > 0) throw new Error(`The contract was broken: ${this.breaches.join('\n')}`);
  }
}
