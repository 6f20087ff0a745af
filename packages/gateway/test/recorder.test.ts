/** Records that nobody takes for long: who is loud loses its own, and what is lost is counted. */
import { appendFile, mkdtemp, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EgressPosition, EgressRecords, OrganisationId, SandboxId } from '@space/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type NewRecord, Recorder } from '../src/recorder.ts';
import { FileSpool, type Spool } from '../src/spool.ts';
import { ORGANISATION } from './world.ts';

const OTHER = 'org_0000000000000009' as OrganisationId;
const MAX_KEPT = 20_000;

const recordOf = (sandboxId: SandboxId, path: string) => ({
  sandboxId,
  lifeId: 'lif_0000000000000001' as NewRecord['lifeId'],
  at: new Date(0).toISOString(),
  ...{ protocol: 'http' as const, host: 'a.example', port: 443, method: 'GET', path, calls: null, secret: null },
  ...{ approval: null, rule: 'internet', outcome: 'allowed' as const, status: 200 },
  ...{ sentBytes: 1, receivedBytes: 2, durationMs: 3 },
});

const LOUD = 'sbx_0000000000000001' as SandboxId;
const QUIET = 'sbx_0000000000000002' as SandboxId;
const ELSEWHERE = 'sbx_0000000000000003' as SandboxId;

const NO_SPOOL: Spool = {
  ...{ stream: 'one', earlier: null, taken: 0, next: 1, left: [] },
  ...{ add: () => undefined, shrink: () => undefined, close: () => undefined },
};

function takeAll(recorder: Recorder, from: EgressPosition | null = null) {
  const all = [];
  for (let behind = from; ; ) {
    const { records, ...position } = recorder.take(behind);
    if (records.length === 0) return all;
    all.push(...records);
    behind = position;
  }
}

it('keeps those of other sandboxes and organisations from one that is loud, and counts what that one has lost', () => {
  const recorder = new Recorder(NO_SPOOL);
  const told = 2 * MAX_KEPT;
  recorder.add(recordOf(QUIET, '/first'), ORGANISATION);
  for (let i = 0; i < 500; i++) recorder.add(recordOf(ELSEWHERE, `/${i}`), OTHER);
  for (let i = 0; i < told; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
  recorder.add(recordOf(QUIET, '/last'), ORGANISATION);
  const all = takeAll(recorder);
  const of = (id: SandboxId) => all.filter(({ sandboxId }) => sandboxId === id);
  expect(of(QUIET)).toMatchObject([
    { path: '/first', lostBefore: 0 },
    { path: '/last', lostBefore: 0 },
  ]);
  expect(of(ELSEWHERE).map(({ path }) => path)).toEqual(Array.from({ length: 500 }, (_, i) => `/${i}`));
  expect(of(LOUD).at(-1)).toMatchObject({ path: `/${told - 1}` });
  expect(of(LOUD).length + of(LOUD).reduce((sum, { lostBefore }) => sum + lostBefore, 0)).toBe(told);
  expect(all.length).toBeGreaterThan(MAX_KEPT - 200);
  expect(all.length).toBeLessThanOrEqual(MAX_KEPT);
});

it('takes from who has the most, so that two that are loud have about the same', () => {
  const recorder = new Recorder(NO_SPOOL);
  for (let i = 0; i < 2 * MAX_KEPT; i++) recorder.add(recordOf(LOUD, '/'), ORGANISATION);
  for (let i = 0; i < MAX_KEPT; i++) recorder.add(recordOf(ELSEWHERE, '/'), OTHER);
  const mine = takeAll(recorder).filter(({ sandboxId }) => sandboxId === LOUD);
  expect(Math.abs(mine.length - MAX_KEPT / 2)).toBeLessThan(200);
});

it('gives again what was not said to have arrived, and forgets what was', () => {
  const recorder = new Recorder(NO_SPOOL);
  for (let i = 0; i < 1_500; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
  const first = recorder.take(null);
  expect(recorder.take(null)).toEqual(first);
  const second = recorder.take(first);
  expect([first.records.length, second.records.length]).toEqual([1_000, 500]);
  expect(recorder.take(second)).toEqual({ ...second, records: [] });
  expect(recorder.take(null).records).toEqual([]);
});

describe('records that a gateway leaves behind', () => {
  let folder: string;
  const open = (boot = 'boot') => new Recorder(new FileSpool(join(folder, 'own/records.spool'), boot));
  const pathsOf = ({ records }: EgressRecords) => records.map(({ path }) => path);
  /** Its turn of the event loop is over; then its process is. */
  const dies = () => new Promise((resolve) => setImmediate(resolve));
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'space-spool-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('are given by the next one, each once', async () => {
    const recorder = open();
    for (let i = 0; i < 3; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
    const taken = recorder.take(null);
    recorder.add(recordOf(QUIET, '/3'), ORGANISATION);
    await dies();
    const next = open();
    expect(pathsOf(next.take(taken))).toEqual(['/3']);
    next.add(recordOf(LOUD, '/4'), ORGANISATION);
    await dies();
    const last = open().take(taken);
    expect(pathsOf(last)).toEqual(['/3', '/4']);
    expect(last.instance).toBe(taken.instance);
    expect(pathsOf(open().take(last))).toEqual([]);
  });

  it('that it gave away and had not written are not mixed up with those of the next one', async () => {
    const recorder = open();
    await dies();
    recorder.add(recordOf(LOUD, '/given'), ORGANISATION);
    const taken = recorder.take(null);
    const next = open();
    next.add(recordOf(LOUD, '/new'), ORGANISATION);
    expect(pathsOf(next.take(taken))).toEqual(['/new']);
  });

  it('are of another stream after another boot of the machine, and still given once', async () => {
    const recorder = open();
    recorder.add(recordOf(LOUD, '/0'), ORGANISATION);
    const taken = recorder.take(null);
    recorder.add(recordOf(LOUD, '/1'), ORGANISATION);
    await dies();
    const after = open('another boot').take(taken);
    expect(after.instance).not.toBe(taken.instance);
    expect(pathsOf(after)).toEqual(['/1']);
  });

  it('are read up to where its process died in writing', async () => {
    const recorder = open();
    for (let i = 0; i < 2; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
    await dies();
    await appendFile(join(folder, 'own/records.spool'), '{"number":3,"organisationId":nu');
    expect(pathsOf(open().take(null))).toEqual(['/0', '/1']);
    await writeFile(join(folder, 'own/records.spool'), 'nonsense');
    expect(pathsOf(open().take(null))).toEqual([]);
  });

  it('are written when it is closed, and hold no file open after that', async () => {
    const spool = new FileSpool(join(folder, 'records'));
    const recorder = new Recorder(spool);
    recorder.add(recordOf(LOUD, '/last'), ORGANISATION);
    spool.close();
    recorder.take(recorder.take(null));
    const opened = await Promise.all(
      (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
    );
    expect(opened.filter((path) => path.startsWith(folder))).toEqual([]);
    expect(new FileSpool(join(folder, 'records')).left).toMatchObject([{ record: { path: '/last' } }]);
  });

  it('take no space once they are taken', async () => {
    const recorder = open();
    for (let i = 0; i < 5_000; i++) recorder.add(recordOf(LOUD, `/${i}`), ORGANISATION);
    await dies();
    const size = async () => (await stat(join(folder, 'own/records.spool'))).size;
    expect(await size()).toBeGreaterThan(1_000_000);
    expect(takeAll(recorder)).toHaveLength(5_000);
    recorder.take({ ...recorder.take(null), next: Number.MAX_SAFE_INTEGER });
    expect(await size()).toBeLessThan(1_000);
    recorder.add(recordOf(LOUD, '/after'), ORGANISATION);
    await dies();
    expect(pathsOf(open().take(null))).toEqual(['/after']);
  });

  it('are kept in memory alone where they cannot be written', async () => {
    await writeFile(join(folder, 'own'), 'a file in the place of the folder');
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
    const recorder = open();
    recorder.add(recordOf(LOUD, '/0'), ORGANISATION);
    await dies();
    expect(pathsOf(recorder.take(null))).toEqual(['/0']);
    expect(warned).toHaveBeenCalledOnce();
    warned.mockRestore();
  });
});

it('counts those of a sandbox of which none is kept in its next one', () => {
  const recorder = new Recorder(NO_SPOOL);
  for (let i = 0; i <= MAX_KEPT; i++)
    recorder.add(recordOf(`sbx_${String(i).padStart(16, '0')}` as SandboxId, '/'), ORGANISATION);
  const first = 'sbx_0000000000000000' as SandboxId;
  recorder.add(recordOf(first, '/'), ORGANISATION);
  expect(takeAll(recorder).find(({ sandboxId }) => sandboxId === first)).toMatchObject({ lostBefore: 1 });
});
