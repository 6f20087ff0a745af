/** E2B's code interpreter, unmodified, on the template that one command builds. It needs the package index, so it is tried where all is. */
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { type Context, Sandbox } from '@e2b/code-interpreter';
import { NotFoundError, TimeoutError } from 'e2b';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeWorld, type World } from './world.ts';

const BUILD_MS = 900_000;
const CLI = join(import.meta.dirname, '../../apps/cli/src/main.ts');

/** What all leaves by: it resolves names itself, so a mirror of the index at an address that is not public can answer for it. */
async function startProxy() {
  const server = createServer().on('connect', (request, socket: Socket, head) => {
    const [host = '', port] = (request.url ?? '').split(':');
    const out = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      out.write(head);
      out.pipe(socket).pipe(out);
    });
    out.on('error', () => socket.destroy());
    socket.on('error', () => out.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, port: (server.address() as AddressInfo).port };
}

export function e2bInterpreterCases(): void {
  let proxy: Awaited<ReturnType<typeof startProxy>>;
  let world: World;
  let options: { readonly apiUrl: string; readonly sandboxUrl: string; readonly apiKey: string };
  let sandbox: Sandbox;
  beforeAll(async () => {
    proxy = await startProxy();
    const upstreamProxy = { host: '127.0.0.1', port: proxy.port };
    world = await makeWorld(24, { gateway: { upstreamAuthorities: [], upstreamProxy } });
    const { baseUrl, apiKey } = world.connection;
    options = { apiUrl: baseUrl, sandboxUrl: baseUrl, apiKey };
    const env = { ...process.env, SPACE_URL: baseUrl, SPACE_API_KEY: apiKey };
    const building = promisify(execFile)(process.execPath, [CLI, 'templates', 'build', 'code-interpreter'], { env });
    expect((await building).stdout).toBe('code-interpreter-v1\n');
    sandbox = await Sandbox.create({ ...options, timeoutMs: BUILD_MS });
  }, BUILD_MS);
  afterAll(async () => {
    await sandbox?.kill();
    await world?.[Symbol.asyncDispose]();
    proxy?.server.close();
  });

  const textOf = async (code: string, more: { context?: Context; envs?: Record<string, string> } = {}) =>
    (await sandbox.runCode(code, more)).text;

  it('runs code in a context that remembers, and streams what it prints', async () => {
    expect(await textOf('x = 1; x')).toBe('1');
    expect(await textOf('x += 1; x')).toBe('2');
    const seen: string[] = [];
    const printing = await sandbox.runCode('import sys; print("one"); print("two", file=sys.stderr); "three"', {
      onStdout: ({ line }) => void seen.push(line),
    });
    expect(printing.logs).toEqual({ stdout: ['one\n'], stderr: ['two\n'] });
    expect([seen, printing.text, printing.executionCount]).toEqual([['one\n'], 'three', expect.any(Number)]);
    expect(await textOf('import os; os.getenv("A")', { envs: { A: 'given' } })).toBe('given');
    expect(await textOf('os.getenv("A")')).toBeUndefined();
  });

  it('gives results by their kind, and errors by their name', async () => {
    const code = 'from IPython.display import HTML, display; display(HTML("<b>1</b>")); {"a": 1}';
    const { results } = await sandbox.runCode(code);
    expect(results.map(({ html, text, isMainResult }) => [html, text, isMainResult])).toEqual([
      ['<b>1</b>', '<IPython.core.display.HTML object>', false],
      [undefined, "{'a': 1}", true],
    ]);
    const { error } = await sandbox.runCode('1 / 0');
    expect([error?.name, error?.value]).toEqual(['ZeroDivisionError', 'division by zero']);
    expect(stripVTControlCharacters(error?.traceback ?? '')).toContain('1 / 0');
  });

  it('has contexts of their own, which are listed, restarted and removed', async () => {
    const context = await sandbox.createCodeContext({ cwd: '/tmp' });
    expect(context).toMatchObject({ language: 'python', cwd: '/tmp' });
    expect(await textOf('import os; y = 1; os.getcwd()', { context })).toBe('/tmp');
    expect(await textOf('"y" in dir()')).toBe('False');
    expect((await sandbox.listCodeContexts()).map(({ id }) => id)).toContain(context.id);
    await sandbox.restartCodeContext(context);
    expect(await textOf('"y" in dir()', { context })).toBe('False');
    await sandbox.removeCodeContext(context);
    await expect(sandbox.runCode('1', { context })).rejects.toThrow(NotFoundError);
  });

  it('interrupts what nobody waits for, and goes on', async () => {
    await expect(sandbox.runCode('import time; time.sleep(600)', { timeoutMs: 2_000 })).rejects.toThrow(TimeoutError);
    expect(await textOf('"after"')).toBe('after');
  });

  it('is warm in each sandbox, and draws other numbers in each', async () => {
    const others = await Promise.all([1, 2].map(() => Sandbox.create({ ...options, timeoutMs: 300_000 })));
    try {
      const code = 'import random; random.random()';
      const numbers = await Promise.all(others.map(async (one) => (await one.runCode(code)).text));
      expect(new Set(numbers).size).toBe(2);
      const pids = await Promise.all(others.map(async (one) => (await one.runCode('import os; os.getpid()')).text));
      expect(new Set(pids).size).toBe(1);
    } finally {
      for (const one of others) await one.kill();
    }
  });
}
