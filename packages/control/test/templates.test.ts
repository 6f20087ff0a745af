/** Templates that are built here, by the use-cases on a fake node: cancelled, left behind, limited, and tidied away. */
import type { Input } from '@space/contract';
import { AppError, DEFAULT_ORGANISATION, type SandboxId } from '@space/core';
import { FakeNode, type FakeProgram } from '@space/testkit';
import { describe, expect, it } from 'vitest';
import { NO_LEFTOVERS, World } from './test-world.ts';

type Recipe = Omit<Input<'startTemplateBuild'>, 'id'>;
type Step = Recipe['steps'][number];

const RUN = (command: string): Step => ({ type: 'run', command });
const recipe = (steps: readonly Step[], more: Partial<Recipe> = {}): Recipe => ({
  from: 'base',
  steps: [...steps],
  ...more,
});

class TemplateWorld extends World {
  async start(name: string, made: Recipe, size: Input<'requestTemplateBuild'>['size'] = {}) {
    const build = await this.control.requestTemplateBuild(this.caller(), { id: name, size, tags: ['default'] });
    return this.control.startTemplateBuild(this.caller(), { id: build.id, ...made });
  }

  look(id: Input<'getTemplateBuild'>['id']) {
    return this.control.getTemplateBuild(this.caller(), { id, offset: 0, limit: 100 });
  }

  async ended(id: Input<'getTemplateBuild'>['id']) {
    await expect.poll(async () => (await this.look(id)).endedAt, { timeout: 5_000 }).not.toBeNull();
    return this.look(id);
  }

  async build(name: string, made: Recipe, size: Input<'requestTemplateBuild'>['size'] = {}) {
    return this.ended((await this.start(name, made, size)).id);
  }
}

const LONG = recipe([RUN('echo one'), RUN('sleep 60')]);

describe('a build', () => {
  it('leaves its template, and no sandbox', async () => {
    const world = new TemplateWorld();
    const size = { vcpus: 2, memoryMib: 1024 };
    const build = await world.build('one', recipe([RUN('echo hello > /home/user/hello')]), size);
    expect(build).toMatchObject({ status: 'ready', size: { ...size, diskMib: 8192 }, failure: null });
    expect(world.node.sandboxIds()).toEqual([]);
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
    const sandbox = await world.create({ template: 'one' });
    expect(sandbox.size).toMatchObject(size);
    expect(await world.exec(sandbox.id, 'cat /home/user/hello')).toBe('hello');
    await expect(world.create({ template: 'one', size: { vcpus: 1 } })).rejects.toMatchObject({
      code: 'size_impossible',
    });
    await expect(world.create({ template: 'two' })).rejects.toMatchObject({ code: 'template_unknown' });
    const bigger = await world.build('two', { ...recipe([]), from: 'one' }, { memoryMib: 2048 });
    expect(bigger.failure).toMatchObject({ step: 'base', message: expect.stringContaining('memoryMib 1024') });
  });

  it('counts as nothing that the organisation has', async () => {
    const world = new TemplateWorld();
    const { tenants } = world.records;
    await world.control.setLimits(world.caller(), { id: DEFAULT_ORGANISATION, sandboxes: 0, running: 0, snapshots: 0 });
    expect((await world.build('one', recipe([RUN('true')]))).status).toBe('ready');
    expect(await tenants.usage(DEFAULT_ORGANISATION)).toMatchObject({ sandboxes: 0, running: 0, snapshots: 0 });
    await expect(world.create({ template: 'one' })).rejects.toMatchObject({ code: 'limit_reached' });
  });

  it('is in a sandbox that nobody sees', async () => {
    const world = new TemplateWorld();
    const { id, templateId } = await world.start('one', LONG);
    await expect.poll(() => world.node.sandboxIds()).toHaveLength(1);
    const [sandboxId = '' as SandboxId] = world.node.sandboxIds();
    expect((await world.control.listSandboxes(world.caller(), { limit: 10 })).sandboxes).toEqual([]);
    await expect(world.get(sandboxId)).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.exec(sandboxId, 'true')).rejects.toMatchObject({ code: 'not_found' });
    await world.control.deleteTemplate(world.caller(), { id: templateId });
    await expect(world.look(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(world.node.sandboxIds()).toEqual([]);
    expect(world.node.pointIds()).toEqual(await readyPoints(world));
  });

  it('that its process left is failed by the next one, its sandbox deleted, and what it kept is taken up', async () => {
    const world = new TemplateWorld();
    const left = await world.start('one', LONG);
    await expect
      .poll(async () => (await world.look(left.id)).log.map(({ message }) => message))
      .toContain('RUN sleep 60');
    const { node, records } = world;
    const next = new TemplateWorld({ node, records });
    await next.control.start();
    expect(await next.look(left.id)).toMatchObject({
      status: 'failed',
      failure: { message: expect.stringContaining('stopped') },
    });
    expect(node.sandboxIds()).toEqual([]);
    const again = await next.build('one', recipe([RUN('echo one'), RUN('echo two')]));
    expect(again).toMatchObject({ status: 'ready', cachedSteps: 1 });
    await next.control.close();
  });

  it('ends with the platform that is stopped', async () => {
    const world = new TemplateWorld();
    const { id } = await world.start('one', LONG);
    await expect.poll(() => world.node.sandboxIds()).toHaveLength(1);
    await world.control.close();
    expect(world.node.sandboxIds()).toEqual([]);
    expect(await world.records.templates.findBuild(id)).toMatchObject({ status: 'failed' });
  });

  it('fails where its sandbox is lost, and says so', async () => {
    const world = new TemplateWorld();
    const { id } = await world.start('one', LONG);
    await expect.poll(async () => (await world.look(id)).log.map(({ message }) => message)).toContain('RUN sleep 60');
    const [sandboxId] = world.node.sandboxIds();
    if (sandboxId !== undefined) world.node.crash(sandboxId);
    expect(await world.ended(id)).toMatchObject({ status: 'failed', failure: { step: '2' } });
    expect(world.node.sandboxIds()).toEqual([]);
  });

  it('is not started twice, nor with what is not there', async () => {
    const world = new TemplateWorld();
    const { id } = await world.start('one', recipe([]));
    const start = (build: typeof id, made: Recipe) =>
      world.control.startTemplateBuild(world.caller(), { id: build, ...made });
    await expect(start(id, recipe([]))).rejects.toMatchObject({ code: 'wrong_state' });
    const waiting = await world.control.requestTemplateBuild(world.caller(), { id: 'two', tags: [] });
    await expect(start(waiting.id, { ...recipe([]), from: 'none' })).rejects.toMatchObject({
      code: 'template_unknown',
    });
    expect((await world.look(waiting.id)).status).toBe('waiting');
    await expect(world.control.requestTemplateBuild(world.caller(), { id: 'base', tags: [] })).rejects.toMatchObject({
      code: 'name_taken',
    });
  });

  it('has a log that ends', async () => {
    const world = new TemplateWorld();
    const noise = Array.from({ length: 6_000 }, (_, at) => `line ${at}`).join('\n');
    const build = await world.build('one', recipe([RUN(`echo "${noise}"`)]));
    expect(build.status).toBe('ready');
    const all = await world.records.templates.readLog(build.id, 0, 10_000);
    expect(all).toHaveLength(5_000);
    expect(all.at(-1)?.message).toBe('The log is full: what follows is not kept.');
  });
});

describe('what is kept of builds', () => {
  it('goes with the template, but for what other templates start from', async () => {
    const world = new TemplateWorld();
    await world.build('one', recipe([RUN('echo 1 > /home/user/one')]));
    await world.build('two', { ...recipe([RUN('echo 2 > /home/user/two')]), from: 'one' });
    await world.control.deleteTemplate(world.caller(), { id: 'one' });
    const sandbox = await world.create({ template: 'two' });
    expect(await world.exec(sandbox.id, 'cat one two')).toBe('1\n2');
    await world.remove(sandbox.id);
    await world.control.deleteTemplate(world.caller(), { id: 'two' });
    expect(world.node.pointIds()).toEqual(await readyPoints(world));
    expect(await world.leftovers()).toEqual(NO_LEFTOVERS);
  });

  it('is never shown as a snapshot', async () => {
    const world = new TemplateWorld();
    const { snapshotId } = await world.build('one', recipe([RUN('true')]));
    const { snapshots } = await world.control.listSnapshots(world.caller(), { limit: 10 });
    expect(snapshots).toEqual([]);
    const asked = world.control.getSnapshot(world.caller(), { id: snapshotId ?? '' });
    await expect(asked).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.create({ snapshot: snapshotId ?? '' })).rejects.toMatchObject({ code: 'not_found' });
  });

  it('is nothing of an archive whose upload breaks off', async () => {
    const world = new TemplateWorld();
    const parts: string[] = [];
    const { addPart } = world.records.templates;
    world.records.templates.addPart = (upload, ...rest) => {
      parts.push(upload);
      return addPart.call(world.records.templates, upload, ...rest);
    };
    const hash = 'a'.repeat(64);
    async function* broken() {
      yield new Uint8Array(3 * 1024 * 1024);
      throw new AppError('link_lost', 'The client has gone.');
    }
    const caller = world.caller();
    await expect(world.control.putTemplateFile(caller, { hash }, broken())).rejects.toMatchObject({
      code: 'link_lost',
    });
    expect(parts).toHaveLength(3);
    expect(await world.records.templates.readPart(parts[0] ?? '', 0)).toBeNull();
    expect((await world.control.getTemplateFile(caller, { hash })).present).toBe(false);
  });

  it('is of its project alone', async () => {
    const world = new TemplateWorld();
    await world.build('one', recipe([RUN('true')]));
    const project = await world.control.createProject(world.caller(), { name: 'second' });
    const caller = { ...world.caller(), projectId: project.id };
    await expect(world.control.getTemplate(caller, { id: 'one' })).rejects.toMatchObject({ code: 'not_found' });
    await expect(world.control.createSandbox(caller, { template: 'one' })).rejects.toMatchObject({
      code: 'template_unknown',
    });
    expect((await world.control.listTemplates(caller, {})).built).toEqual([]);
    expect((await world.control.listTemplates(world.caller(), {})).built).toMatchObject([
      { name: 'one', tags: [{ tag: 'default' }] },
    ]);
  });
});

/** What templates of the installation keep. */
async function readyPoints(world: World) {
  const points = await Promise.all(world.node.pointIds().map((id) => world.records.findSnapshot(id)));
  return world.node.pointIds().filter((_, at) => points[at] === null);
}

describe('an image of containers', () => {
  const HASH = 'a'.repeat(64);
  const STATE = { user: 'root', cwd: '/srv', env: { A: '1' } };
  /** What the script that opens images leaves, or the reason that it gives. */
  const opening = (said: string, code = 0): FakeProgram => {
    return async ({ files, print }, [path = '']) => {
      const { body } = await files.readFile({ path });
      print(`${Buffer.concat(await Array.fromAsync(body)).toString()}\n`, 'stderr');
      await files.makeDirectory({ path: '/run/space', parents: true });
      await files.writeFile({ path: '/run/space/image.json' }, bytesOf(said));
      return code;
    };
  };
  async function* bytesOf(text: string) {
    yield Buffer.from(text);
  }
  const worldWith = (program: FakeProgram) =>
    new TemplateWorld({ node: new FakeNode({ programs: { 'space-template-image': program } }) });
  const made = () => recipe([RUN('pwd')], { from: { archive: HASH } });
  const bring = (world: TemplateWorld) =>
    world.control.putTemplateFile(world.caller(), { hash: HASH }, bytesOf('the archive'));

  it('is opened once, and what it says holds for steps and sandboxes', async () => {
    const world = worldWith(opening(JSON.stringify(STATE)));
    await expect(world.start('one', made())).rejects.toMatchObject({ code: 'not_found' });
    await bring(world);
    const build = await world.build('one', made());
    expect(build).toMatchObject({ status: 'ready', cachedSteps: 0 });
    expect(build.log.map(({ message }) => message)).toContain('the archive');
    const again = await world.build('one', made());
    expect(again).toMatchObject({ status: 'ready', cachedSteps: 2 });
    expect(again.log[0]?.message).toBe('CACHED FROM archive aaaaaaaaaaaa');
    expect((await world.records.templates.findBuild(again.id))?.state).toEqual(STATE);
    expect(world.node.sandboxIds()).toEqual([]);
    const forced = await world.build('one', { ...made(), force: true });
    expect(forced.log.map(({ message }) => message)).toContain('the archive');
  });

  it('that cannot be used fails the build with its reason, and leaves nothing', async () => {
    for (const program of [opening('', 65), opening('{"user":""}')]) {
      const world = worldWith(program);
      await bring(world);
      const { failure } = await world.build('one', made());
      expect(failure).toMatchObject({
        step: 'base',
        message: expect.stringMatching(/^the archive$|^what the image says/),
      });
      expect(world.node.sandboxIds()).toEqual([]);
      expect(world.node.pointIds()).toEqual([]);
    }
  });
});
