/** What every adapter of the records does about templates that are built here. */
import {
  type BuildId,
  DEFAULT_NETWORK_POLICY,
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  DEFAULT_SIZE,
  DEFAULT_VAULT,
  FIRST_STATE,
  newId,
  type SnapshotId,
} from '@space/core';
import { seededChance } from '@space/testkit';
import { beforeEach, describe, expect, it } from 'vitest';
import type { RecordedSnapshot, Records } from '../src/records.ts';
import type { BuildEnd, RecordedBuild } from '../src/template-records.ts';

const chance = seededChance(Date.now());
const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1_000);
const hash = (letter: string) => letter.repeat(64);
const projectId = DEFAULT_PROJECT;

function newTemplate(name: string) {
  return { id: newId('template', chance), projectId, name, createdAt: at(0), updatedAt: at(0) };
}

function newBuild(changes: Partial<RecordedBuild> = {}): RecordedBuild {
  return {
    id: newId('build', chance),
    templateId: newId('template', chance),
    projectId,
    status: 'waiting',
    askedSize: {},
    size: null,
    tags: ['default'],
    recipe: null,
    state: null,
    failure: null,
    snapshotId: null,
    cachedSteps: 0,
    askedBy: newId('apiKey', chance),
    createdAt: at(0),
    endedAt: null,
    ...changes,
  };
}

const RECIPE = { from: 'base', steps: [{ type: 'run', command: 'true' }] } as const;
const READY: BuildEnd = {
  status: 'ready',
  failure: null,
  snapshotId: null,
  state: FIRST_STATE,
  size: DEFAULT_SIZE,
  cachedSteps: 1,
  at: at(9),
};

export function templatesSuite(suite: string, open: () => Promise<Records>): void {
  describe(`templates: ${suite}`, () => {
    let records: Records;
    beforeEach(async () => {
      records = await open();
    });
    const request = (name: string, changes: Partial<RecordedBuild> = {}, max = 10) =>
      records.templates.request(newTemplate(name), newBuild(changes), max);
    const ready = async (build: RecordedBuild, changes: Partial<BuildEnd> = {}) => {
      await records.templates.startBuild(build.id, RECIPE);
      return records.templates.endBuild(build.id, { ...READY, ...changes });
    };

    it('are found by id and name, hold their builds, and are so many', async () => {
      const first = await request('one', { createdAt: at(1) });
      const second = await request('one', { createdAt: at(2) });
      expect(second.templateId).toBe(first.templateId);
      const found = await records.templates.findTemplate(projectId, 'one');
      expect(found).toMatchObject({ id: first.templateId, name: 'one', updatedAt: at(2) });
      expect(await records.templates.findTemplate(projectId, first.templateId)).toEqual(found);
      expect(await records.templates.findTemplate(newId('project', chance), 'one')).toBeNull();
      expect(await records.templates.buildsOf(first.templateId)).toEqual([second, first]);
      expect(await records.templates.findBuild(first.id)).toEqual(first);
      await request('two', {}, 2);
      await request('one', {}, 2);
      await expect(request('three', {}, 2)).rejects.toMatchObject({ code: 'limit_reached' });
      expect((await records.templates.listTemplates(projectId)).map(({ name }) => name)).toEqual(['one', 'two']);
    });

    it('are built once: a build begins once, ends once, and then has its tags', async () => {
      const build = await request('one', { tags: ['a', 'b'] });
      expect(await records.templates.unfinished()).toEqual([build]);
      expect(await records.templates.startBuild(build.id, RECIPE)).toEqual({
        ...build,
        status: 'building',
        recipe: RECIPE,
      });
      expect(await records.templates.startBuild(build.id, RECIPE)).toBeNull();
      expect(await records.templates.tagsOf(build.templateId)).toEqual([]);
      const ended = await records.templates.endBuild(build.id, READY);
      expect(ended).toMatchObject({ status: 'ready', state: FIRST_STATE, size: DEFAULT_SIZE, endedAt: at(9) });
      expect(await records.templates.endBuild(build.id, { ...READY, status: 'failed' })).toBeNull();
      expect(await records.templates.unfinished()).toEqual([]);
      const own = { templateId: build.templateId, buildId: build.id, createdAt: at(9) };
      expect(await records.templates.tagsOf(build.templateId)).toEqual([
        { ...own, tag: 'a' },
        { ...own, tag: 'b' },
      ]);
      const failed = await request('one', { tags: ['a'] });
      const failure = { step: '1', message: 'broken' };
      await ready(failed, { status: 'failed', failure, state: null, size: null });
      expect(await records.templates.findBuild(failed.id)).toMatchObject({ status: 'failed', failure });
      expect(await records.templates.tagsOf(build.templateId)).toHaveLength(2);
    });

    it('have tags that name one build each, and builds that a tag names stay', async () => {
      const [first, second] = [await request('one'), await request('one')];
      for (const build of [first, second]) await ready(build);
      const tagged = async () =>
        Object.fromEntries(
          (await records.templates.tagsOf(first.templateId)).map(({ tag, buildId }) => [tag, buildId]),
        );
      expect(await tagged()).toEqual({ default: second.id });
      await records.templates.setTags(first.templateId, first.id, ['v1', 'old'], at(10));
      expect(await tagged()).toEqual({ default: second.id, old: first.id, v1: first.id });
      await records.templates.dropBuild(first.id);
      expect(await records.templates.findBuild(first.id)).not.toBeNull();
      for (const tag of ['v1', 'old']) expect(await records.templates.dropTag(first.templateId, tag)).toBe(true);
      expect(await records.templates.dropTag(first.templateId, 'v1')).toBe(false);
      await records.templates.dropBuild(first.id);
      expect(await records.templates.findBuild(first.id)).toBeNull();
    });

    it('keep what was said in order, and only of builds that are there', async () => {
      const { id } = await request('one');
      const entry = (message: string) => ({ at: at(1), level: 'info', message, step: '1' }) as const;
      await records.templates.appendLog(id, ['a', 'b', 'c'].map(entry));
      await records.templates.appendLog(id, [{ ...entry('d'), step: null }]);
      expect(await records.templates.readLog(id, 0, 2)).toEqual(['a', 'b'].map(entry));
      expect((await records.templates.readLog(id, 2, 10)).map(({ message }) => message)).toEqual(['c', 'd']);
      await records.templates.dropBuild(id);
      await records.templates.appendLog(id, [entry('late')]);
      expect(await records.templates.readLog(id, 0, 10)).toEqual([]);
    });

    it('have layers by key, of which the newest stay', async () => {
      const { templateId } = await request('one');
      const put = (key: string, usedAt: Date, snapshotId: SnapshotId = newId('snapshot', chance)) =>
        records.templates.putLayer({ projectId, key, templateId, snapshotId, state: null, usedAt });
      for (const [index, key] of ['a', 'b', 'c'].entries()) await put(key, at(index));
      const other = newId('snapshot', chance);
      await put('b', at(1), other);
      expect(await records.templates.findLayer(projectId, 'b')).toEqual({
        projectId,
        key: 'b',
        templateId,
        snapshotId: other,
        state: null,
        usedAt: at(1),
      });
      const image = { projectId, key: 'image', templateId, snapshotId: other, state: FIRST_STATE, usedAt: at(0) };
      await records.templates.putLayer(image);
      expect(await records.templates.findLayer(projectId, 'image')).toEqual(image);
      expect(await records.templates.findLayer(newId('project', chance), 'b')).toBeNull();
      await records.templates.useLayers(projectId, ['a'], at(5));
      await records.templates.dropLayers(2, at(0));
      const kept = async () => {
        const found = await Promise.all(['a', 'b', 'c'].map((key) => records.templates.findLayer(projectId, key)));
        return found.filter((one) => one !== null).map(({ key }) => key);
      };
      expect(await kept()).toEqual(['a', 'c']);
      await records.templates.dropLayers(2, at(5));
      expect(await kept()).toEqual(['a']);
      await records.templates.deleteTemplate(templateId);
      expect(await kept()).toEqual([]);
      await put('d', at(9));
      expect(await records.templates.findLayer(projectId, 'd')).toBeNull();
    });

    it('keep archives until they have not been used for long, in all so many bytes', async () => {
      const { templates } = records;
      const bring = async (upload: string, letter: string, texts: readonly string[], used = at(0)) => {
        for (const [number, text] of texts.entries()) await templates.addPart(upload, number, Buffer.from(text), used);
        const sizeBytes = texts.join('').length;
        await templates.publishFile({ projectId, hash: hash(letter), sizeBytes, upload }, used, 10);
      };
      await bring('one', 'a', ['1234', '56']);
      const found = await templates.findFile(projectId, hash('a'));
      expect(found).toEqual({ projectId, hash: hash('a'), sizeBytes: 6, upload: 'one' });
      expect(Buffer.from((await templates.readPart('one', 1)) ?? []).toString()).toBe('56');
      expect(await templates.readPart('one', 2)).toBeNull();
      await expect(bring('two', 'b', ['123456'])).rejects.toMatchObject({ code: 'limit_reached' });
      expect(await templates.findFile(projectId, hash('b'))).toBeNull();
      await templates.addPart('left', 0, Buffer.from('1'), at(99));
      await templates.dropUpload('left');
      expect(await templates.readPart('left', 0)).toBeNull();
      await bring('three', 'a', ['1234567890']);
      expect((await templates.findFile(projectId, hash('a')))?.upload).toBe('three');
      await templates.useFile(projectId, hash('a'), at(60));
      await templates.dropFiles(at(30));
      for (const upload of ['one', 'two']) expect(await templates.readPart(upload, 0), upload).toBeNull();
      expect(await templates.readPart('three', 0)).not.toBeNull();
      await templates.dropFiles(at(61));
      expect(await templates.findFile(projectId, hash('a'))).toBeNull();
      expect(await templates.readPart('three', 0)).toBeNull();
    });

    it('are built in sandboxes, and kept as points, that users neither see nor count', async () => {
      const usage = () => records.tenants.usage(DEFAULT_ORGANISATION);
      const before = await usage();
      const sandboxId = newId('sandbox', chance);
      const operationId = newId('operation', chance);
      await records.addSandboxes([
        {
          ...{
            id: sandboxId,
            projectId,
            name: '.build-one',
            template: 'base',
            size: DEFAULT_SIZE,
            vault: DEFAULT_VAULT,
          },
          ...{
            env: {},
            metadata: {},
            pauseAfterMs: null,
            wakeAt: null,
            expiry: null,
            snapshotPolicy: {},
            forkedFrom: null,
          },
          ...{ network: DEFAULT_NETWORK_POLICY, arrival: null, by: null, operationId, at: at(0) },
        },
      ]);
      const end = { sandboxId, outcome: 'ok', errorCode: null, timings: null, dropped: [], doomed: [] } as const;
      const started = await records.endOperation({
        ...{ ...end, operationId, epoch: 1, settled: 'running', changes: {}, points: [], at: at(1) },
      });
      if (started === null) throw new Error('it runs');
      const layer = pointOf(sandboxId, '.layer-one');
      const taking = newId('operation', chance);
      const begun = {
        operationId: taking,
        operation: 'snapshot',
        input: {},
        taking: layer,
        by: null,
        at: at(2),
      } as const;
      await records.beginOperation({ seen: started, ...begun });
      const point = { ...layer, state: 'good' } as const;
      await records.endOperation({
        ...{ ...end, operationId: taking, epoch: 2, settled: 'running', changes: {}, points: [point], at: at(3) },
      });
      expect((await records.listSandboxes({ projectId, limit: 10 })).items).toEqual([]);
      expect((await records.listSnapshots({ projectId, limit: 10 })).items).toEqual([]);
      expect((await records.listSnapshots({ projectId, alsoPlatforms: true, limit: 10 })).items).toHaveLength(1);
      expect(await usage()).toEqual(before);
      expect(await records.templates.buildSandboxes()).toEqual([sandboxId]);
      expect(await events(records)).toEqual([]);
      expect(await records.templates.strayPoints(at(2))).toEqual([]);
      expect(await records.templates.strayPoints(at(100))).toEqual([layer.id]);
      const build: { id: BuildId } = await request('one');
      await ready(build as RecordedBuild, { snapshotId: layer.id });
      expect(await records.templates.strayPoints(at(100))).toEqual([]);
    });
  });
}

async function events(records: Records) {
  return records.events.list({ after: null, projectId, organisationId: null, limit: 10 });
}

function pointOf(sandboxId: RecordedSnapshot['sandboxId'], name: string): RecordedSnapshot {
  return {
    ...{ id: newId('snapshot', chance), sandboxId, projectId, name, note: null, cause: 'snapshot', kind: 'memory' },
    ...{ degraded: null, pinned: true, timeMs: at(2).getTime(), parent: null, generation: 1, template: 'base' },
    ...{ size: DEFAULT_SIZE, vault: DEFAULT_VAULT, state: 'taking', badReason: null, checkedAt: null },
    ...{ takenAt: at(2), timings: null, changed: null },
  };
}
