/**
 * A whole platform in memory, for tests of programs that use sandboxes: the real API over the real control plane, on guests
 * that are fakes. It needs no root, no VM and no set-up, and starts in a fraction of a second.
 *
 * ```ts
 * import { createTestPlatform } from '@space/testing';
 *
 * await using platform = await createTestPlatform({ programs: { pytest: () => 1 } });
 * const sandbox = await Sandbox.create(platform.connection);
 * expect((await sandbox.run('pytest')).exitCode).toBe(1);
 * ```
 *
 * The same cases that show what sandboxes do pass here and on microVMs. What a fake guest has of Linux is files (without
 * permissions) and a little shell (see `fake-shell.ts` of the test kit); any other program is one that the test hands in.
 * Its memory is not captured: after a rewind, a fork or a resume, files are as they were, and no process runs.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createApiKey, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import { canonicalRequest, type HeldAsk, newId, type SandboxId, shownRequest } from '@space/core';
import { e2bFace } from '@space/e2b';
import { createHttpServer, createLogger, listen } from '@space/http';
import {
  FakeGateway,
  FakeKms,
  FakeNode,
  type FakeProcessWorld,
  type FakeProgram,
  type FakePrograms,
  fakeKmsDirectory,
  realClock,
} from '@space/testkit';

export type { FakeProcessWorld as TestProcess, FakeProgram as TestProgram, FakePrograms as TestPrograms };

export interface TestPlatformOptions {
  /** Programs that are in every sandbox, by name: each gets its process and its arguments, and returns its exit code. */
  readonly programs?: FakePrograms;
}

export interface TestRequest {
  readonly method?: string;
  /** Default: `https://api.example/`. */
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface TestPlatform extends AsyncDisposable {
  /** For any call of the SDK: `Sandbox.create({ ...platform.connection, name: 'one' })`. */
  readonly connection: { readonly baseUrl: string; readonly apiKey: string };
  /** Ends the microVM of a sandbox as a crash does. */
  crash(sandboxId: string): void;
  /** A program in it sends a request that a rule holds; settles when it was decided, or refused by itself. */
  holdRequest(sandboxId: string, request?: TestRequest): Promise<'let_go' | 'refused'>;
  close(): Promise<void>;
}

const VERSION = '0.1.0';
const ignore = () => undefined;
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export async function createTestPlatform({ programs }: TestPlatformOptions = {}): Promise<TestPlatform> {
  const node = new FakeNode(programs === undefined ? {} : { programs });
  const ports = {
    node,
    records: new MemoryRecords(),
    clock: realClock(),
    chance: { bytes: (count: number) => randomBytes(count) },
    kms: fakeKmsDirectory(new FakeKms()),
  };
  const gateway = new FakeGateway();
  const control = createControl({ ...ports, logger: SILENT }, gateway);
  await control.start();
  const breaches: string[] = [];
  const http = createHttpServer({
    useCases: control,
    authenticate: (token, project) => control.authenticate(token, project),
    openShare: (token, preview) => control.openShare(token, preview),
    openPublic: (target) => control.openPublic(target),
    faces: [
      e2bFace({
        useCases: control,
        tokenFor: (caller, id) => control.tokenFor(caller, id),
        reach: (id) => control.reach(id),
        findByToken: (isIt, limit) => control.findByToken(isIt, limit),
        listRuns: (caller, asked) => control.listRuns(caller, asked),
        uploads: control.uploads,
      }),
    ],
    logger: createLogger({ level: 'silent' }),
    version: VERSION,
    onBreach: (breach) => breaches.push(breach),
  });
  const baseUrl = await listen(http, { host: '127.0.0.1', port: 0 });
  const { secretKey: apiKey } = await createApiKey(ports);
  const close = async () => {
    http.server.closeAllConnections();
    await http.close();
    await control.close();
    if (breaches.length > 0) throw new Error(`The contract was broken: ${breaches.join('\n')}`);
  };
  return {
    connection: { baseUrl, apiKey },
    crash: (sandboxId) => node.crash(sandboxId as SandboxId),
    async holdRequest(sandboxId, request = {}) {
      const { kind } = await gateway.holdToEnd(askOf(sandboxId as SandboxId, request));
      return kind === 'let_go' ? 'let_go' : 'refused';
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** As the gateway tells of one. */
function askOf(sandboxId: SandboxId, { method = 'GET', url, headers = {}, body = '' }: TestRequest): HeldAsk {
  const { protocol, hostname: host, port, pathname, search } = new URL(url ?? 'https://api.example/');
  const secure = protocol === 'https:';
  const request = {
    secure,
    host,
    port: port === '' ? (secure ? 443 : 80) : Number(port),
    method,
    url: pathname + search,
    headers: Object.entries(headers),
    body: Buffer.from(body),
    added: null,
  };
  const digestOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
  return {
    id: randomBytes(8).toString('hex'),
    sandboxId,
    lifeId: newId('life', { bytes: (count) => randomBytes(count) }),
    rule: `ask 1: ${host}`,
    digest: digestOf(canonicalRequest(request)),
    ticket: null,
    request: shownRequest(request, digestOf(request.body)),
    heldUntil: new Date(Date.now() + 30_000).toISOString(),
  };
}
