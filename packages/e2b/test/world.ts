/** The platform on fakes, and both of E2B's SDKs pointed at it in the way that users do: by URLs and a key. */
import type { HttpServerOptions } from '@space/http';
import { createTestPlatform, type TestPlatform } from '@space/testing';
import * as current from 'e2b';
import * as earlier from 'e2b-2-45';
import { World as FragileWorld } from '../../../tests/security/world.ts';
import { e2bFace } from '../src/index.ts';

export const SDKS = [
  ['2.51.0', current],
  ['2.45.0', earlier as unknown as typeof current],
] as const;

/** The same on what can be made to fail; to be disposed. */
export function startFragile(more: Partial<HttpServerOptions> = {}): Promise<FragileWorld> {
  const world = new FragileWorld();
  const { control } = world;
  const face = e2bFace({
    useCases: control,
    tokenFor: (caller, id) => control.tokenFor(caller, id),
    reach: (id) => control.reach(id),
    findByToken: (isIt, limit) => control.findByToken(isIt, limit),
    listRuns: (caller, asked) => control.listRuns(caller, asked),
    uploads: control.uploads,
  });
  return FragileWorld.startAs(world, { faces: [face], ...more });
}

export class World implements AsyncDisposable {
  readonly platform: TestPlatform;

  private constructor(platform: TestPlatform) {
    this.platform = platform;
  }

  static async start(): Promise<World> {
    return new World(await createTestPlatform());
  }

  get url(): string {
    return this.platform.connection.baseUrl;
  }

  /** As the environment variables say it. The earlier SDK looks at the form of keys, unless it is told not to. */
  get options() {
    const { baseUrl, apiKey } = this.platform.connection;
    return { apiUrl: baseUrl, sandboxUrl: baseUrl, apiKey, validateApiKey: false, requestTimeoutMs: 10_000 };
  }

  /** A call of the control API, as it is. */
  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const { apiKey } = this.platform.connection;
    const response = await fetch(this.url + path, {
      method,
      headers: {
        'x-api-key': apiKey,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.platform.close();
  }
}
