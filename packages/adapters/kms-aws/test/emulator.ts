/**
 * An emulator of AWS KMS, local-kms, started for the tests: a Go module, built once into the cache. Where there is no Go that can
 * build it, `findEmulator` says so, and what needs it is skipped by that reason.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const MODULE = 'github.com/nsmithuk/local-kms';
const VERSION = 'v0.0.0-20260228092603-2a5e92d09ab6';
const CACHE = join(process.env['SPACE_CACHE'] ?? '/var/cache/space', 'tests', `local-kms-${VERSION}`);
const PLACES: readonly string[] = ['go', '/usr/local/go/bin/go', '/usr/lib/go/bin/go'];
const BUILD_WITHIN_MS = 400_000;
const START_WITHIN_MS = 30_000;
export const REGION = 'eu-central-1';

const run = promisify(execFile);

export type FoundEmulator = { readonly program: string } | { readonly missing: string };

export async function findEmulator(): Promise<FoundEmulator> {
  const program = join(CACHE, 'local-kms');
  if (await exists(program)) return { program };
  const go = await findGo();
  if (go === null) return { missing: 'local-kms, an emulator of AWS KMS, is not built: there is no Go' };
  const draft = `${CACHE}.${process.pid}.draft`;
  try {
    await mkdir(draft, { recursive: true });
    await run(go, ['install', `${MODULE}@${VERSION}`], {
      env: { ...process.env, GOBIN: draft, GOFLAGS: '-mod=mod' },
      timeout: BUILD_WITHIN_MS,
    });
    // Another one may have been quicker.
    await rename(draft, CACHE).catch(() => access(program));
    return { program };
  } catch (thrown) {
    return {
      missing: `local-kms, an emulator of AWS KMS, is not built: ${String((thrown as Error).message).slice(0, 300)}`,
    };
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

export interface Emulator {
  readonly port: number;
  close(): Promise<void>;
}

export async function startEmulator(program: string): Promise<Emulator> {
  const folder = await mkdtemp(join(tmpdir(), 'space-local-kms-'));
  const port = await freePort();
  const env = { PORT: String(port), KMS_REGION: REGION, KMS_DATA_PATH: folder, KMS_SEED_PATH: join(folder, 'none') };
  const child = spawn(program, [], { env, stdio: 'ignore' });
  const close = async () => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilItAnswers(port, child);
  } catch (thrown) {
    await close();
    throw thrown;
  }
  return { port, close };
}

async function untilItAnswers(port: number, child: ChildProcess): Promise<void> {
  const until = performance.now() + START_WITHIN_MS;
  for (;;) {
    const asked = fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(2_000) });
    if (
      await asked.then(
        () => true,
        () => false,
      )
    )
      return;
    if (child.exitCode !== null) throw new Error(`the emulator ended with ${child.exitCode}`);
    if (performance.now() > until) throw new Error('the emulator does not answer');
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function findGo(): Promise<string | null> {
  for (const go of PLACES) {
    if (
      await run(go, ['version']).then(
        () => true,
        () => false,
      )
    )
      return go;
  }
  return null;
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
