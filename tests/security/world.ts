/** The HTTP server over the real control, on records in memory and a fake node: all of the API but the VMs. */
import { type Control, createApiKey, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import { createGateway } from '@space/gateway';
import { createHttpServer, createLogger, listen } from '@space/http';
import { FakeNode, realClock, seededChance } from '@space/testkit';

const ignore = () => undefined;

export class World implements AsyncDisposable {
  readonly node = new FakeNode();
  readonly records = new MemoryRecords();
  readonly breaches: string[] = [];
  readonly #ports = { node: this.node, records: this.records, clock: realClock(), chance: seededChance(Date.now()) };
  readonly control: Control = createControl(
    { ...this.#ports, logger: { debug: ignore, info: ignore, warn: ignore, error: ignore } },
    createGateway(),
  );
  #app: ReturnType<typeof createHttpServer> | undefined;
  url = '';
  /** Of an admin of the organisation that runs the installation. */
  operatorKey = '';

  static async start(): Promise<World> {
    const world = new World();
    world.#app = createHttpServer({
      useCases: world.control,
      authenticate: (token, project) => world.control.authenticate(token, project),
      logger: createLogger({ level: 'silent' }),
      version: '0.1.0',
      onBreach: (breach) => world.breaches.push(breach),
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
