/** The file that the first start leaves: found by itself, weaker than the environment, and careful with its key. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Sandbox } from '../src/index.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'space-sdk-'));
  path = join(folder, 'config.json');
  for (const name of ['SPACE_URL', 'SPACE_API_KEY']) vi.stubEnv(name, undefined);
  vi.stubEnv('SPACE_CONFIG', path);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const write = (text: string, mode = 0o600) => {
  writeFileSync(path, text);
  chmodSync(path, mode);
};
const OURS = JSON.stringify({ url: 'http://127.0.0.1:7999/', apiKey: 'space_of_the_file' });

/** Where a call goes, and with which key. */
async function called(options = {}): Promise<string> {
  let seen = '';
  const fake = (async (url: string, init: RequestInit) => {
    seen = `${new URL(url).host} ${new Headers(init.headers).get('authorization')}`;
    return Response.json({ sandboxes: [], nextCursor: null });
  }) as typeof fetch;
  await Sandbox.list({ fetch: fake, ...options });
  return seen;
}

test('it says where to call, and as whom', async () => {
  write(OURS);
  expect(await called()).toBe('127.0.0.1:7999 Bearer space_of_the_file');
});

test('options and the environment are stronger', async () => {
  write(OURS);
  vi.stubEnv('SPACE_API_KEY', 'space_of_the_environment');
  expect(await called()).toBe('127.0.0.1:7999 Bearer space_of_the_environment');
  expect(await called({ apiKey: 'space_given', baseUrl: 'http://[::1]:1' })).toBe('[::1]:1 Bearer space_given');
});

test('its key goes to no other server', async () => {
  write(OURS);
  await expect(called({ baseUrl: 'http://127.0.0.1:8000' })).rejects.toMatchObject({ code: 'misused' });
  vi.stubEnv('SPACE_URL', 'https://elsewhere.example');
  await expect(called()).rejects.toThrow('There is no API key for https://elsewhere.example.');
});

test.each([0o644, 0o640, 0o604])('it is refused when others can read it (%o)', async (mode) => {
  write(OURS, mode);
  await expect(called()).rejects.toThrow(`chmod 600 '${path}'`);
});

test.each(['', 'not json', '{"url":"http://x"}', '[]'])('%j is told to be no configuration', async (text) => {
  write(text);
  await expect(called()).rejects.toThrow(/is not a configuration/);
});

test('without it, the next step is said', async () => {
  await expect(called()).rejects.toMatchObject({ code: 'misused', nextStep: expect.stringContaining('SPACE_API_KEY') });
});
