import { chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { writeClientConfig } from './client-config.ts';
import { tellRunning, tellStopped } from './running-file.ts';

const CONFIG = { url: 'http://127.0.0.1:7070', apiKey: 'space_secret' };

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'space-home-'));
});
afterEach(() => rm(home, { recursive: true }));

it('is written for the owner of the home, and for nobody else to read', async () => {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(home, 4321, 4321);
  const path = join(home, '.config/space/config.json');
  expect(await writeClientConfig(path, CONFIG)).toBe('written');
  expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(CONFIG);
  const uid = isRoot ? 4321 : process.getuid?.();
  expect(await stat(path)).toMatchObject({ uid, mode: 0o100600 });
  expect(await stat(join(home, '.config'))).toMatchObject({ uid, mode: 0o40700 });
});

it('is renewed for the same server, and left alone when it names another', async () => {
  const path = join(home, 'config.json');
  await writeClientConfig(path, CONFIG);
  expect(await writeClientConfig(path, { ...CONFIG, apiKey: 'space_newer' })).toBe('written');
  expect(JSON.parse(await readFile(path, 'utf8')).apiKey).toBe('space_newer');
  expect(await writeClientConfig(path, { ...CONFIG, url: 'https://other' })).toBe('names another server');
  await writeFile(path, 'not ours');
  expect(await writeClientConfig(path, CONFIG)).toBe('names another server');
  expect(await readFile(path, 'utf8')).toBe('not ours');
});

it('a running platform is told by pid, start time and boot', async () => {
  await tellRunning(home, CONFIG.url);
  const [pid, startTime, boot, url] = (await readFile(join(home, 'running'), 'utf8')).trim().split(' ');
  expect([pid, url]).toEqual([`${process.pid}`, CONFIG.url]);
  expect((await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[19]).toBe(startTime);
  expect(boot).toMatch(/^[0-9a-f-]{36}$/);
  await tellStopped(home);
  await expect(stat(join(home, 'running'))).rejects.toThrow('ENOENT');
  expect(await readFile(join(home, 'url'), 'utf8')).toBe(`${CONFIG.url}\n`);
});
