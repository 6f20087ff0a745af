/** Templates, as E2B's own SDKs, unmodified, build and use them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SDKS, World } from './world.ts';

let world: World;
let folder: string;
const names: string[] = [];
let made = 0;

beforeAll(async () => {
  world = await World.start();
});
afterAll(() => world[Symbol.asyncDispose]());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'template-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
  for (const name of names.splice(0)) await world.call('DELETE', `/templates/${name}`);
});

function newName(): string {
  const name = `template-${++made}`;
  names.push(name);
  return name;
}

describe.each(SDKS)('the SDK %s', (version, { Template, Sandbox, ...sdk }) => {
  const options = (more: object = {}) => ({ ...world.options, ...more });
  const run = async (template: string, command: string) => {
    const sandbox = await Sandbox.create(template, world.options);
    try {
      return (await sandbox.commands.run(command)).stdout;
    } finally {
      await sandbox.kill();
    }
  };

  it('builds one by steps, and sandboxes made from it have what these have made', async () => {
    const name = newName();
    await writeFile(join(folder, 'greeting.txt'), 'hello\n');
    const template = Template({ fileContextPath: folder })
      .fromBaseImage()
      .copy('greeting.txt', '/home/user/here.txt')
      .setEnvs({ WHO: 'me' })
      .setWorkdir('/opt/work')
      .runCmd(['echo $WHO > who.txt', 'pwd > where.txt'], { user: 'root' })
      .setUser('user')
      .setStartCmd('echo started > /home/user/started', 'test -e /home/user/started');
    const logs: string[] = [];
    const built = await Template.build(
      template,
      name,
      options({ onBuildLogs: ({ message }: { message: string }) => logs.push(message) }),
    );
    expect(built).toMatchObject({ name, alias: name, tags: ['default'] });
    expect(logs.join('\n')).toContain('COPY greeting.txt /home/user/here.txt');
    expect(await run(name, 'cat /home/user/here.txt /opt/work/who.txt /opt/work/where.txt /home/user/started')).toBe(
      'hello\nme\n/opt/work\nstarted\n',
    );
    expect(await run(`${name}:default`, 'cat /home/user/here.txt')).toBe('hello\n');
    expect(await run(built.templateId, 'cat /home/user/here.txt')).toBe('hello\n');
  });

  it('runs again only what is otherwise than before', async () => {
    const name = newName();
    const steps = (last: string) => Template().fromBaseImage().runCmd('echo one >> /home/user/runs').runCmd(last);
    const logsOf = async (template: ReturnType<typeof steps>, more: object = {}) => {
      const logs: string[] = [];
      const onBuildLogs = ({ message }: { message: string }) => logs.push(message);
      await Template.build(template, name, options({ onBuildLogs, ...more }));
      return logs.filter((message) => /^(CACHED )?RUN /.test(message));
    };
    const [one, two, three] = [
      'echo one >> /home/user/runs',
      'echo two >> /home/user/runs',
      'echo 3 >> /home/user/runs',
    ];
    expect(await logsOf(steps(two))).toEqual([`RUN ${one}`, `RUN ${two}`]);
    expect(await logsOf(steps(two))).toEqual([`CACHED RUN ${one}`, `CACHED RUN ${two}`]);
    expect(await logsOf(steps(three))).toEqual([`CACHED RUN ${one}`, `RUN ${three}`]);
    expect(await run(name, 'cat /home/user/runs')).toBe('one\n3\n');
    expect(await logsOf(steps(two), { skipCache: true })).toEqual([`RUN ${one}`, `RUN ${two}`]);
    const forced = Template().fromBaseImage().runCmd(one).skipCache().runCmd(two);
    expect(await logsOf(forced as ReturnType<typeof steps>)).toEqual([`CACHED RUN ${one}`, `RUN ${two}`]);
  });

  it('builds from one that was built, with its files and what was said in it', async () => {
    const [first, second] = [newName(), newName()];
    await Template.build(
      Template().fromBaseImage().setEnvs({ A: '1' }).runCmd('echo first > /home/user/a'),
      first,
      options(),
    );
    const next = Template().fromTemplate(first).runCmd('echo $A > /home/user/b');
    await Template.build(next, `${second}:v1`, options());
    expect(await run(`${second}:v1`, 'cat /home/user/a /home/user/b')).toBe('first\n1\n');
    await expect(Sandbox.create(second, world.options)).rejects.toThrow(
      `404: tag 'default' does not exist for template '${second}'`,
    );
  });

  it('tells which step failed, and what it said', async () => {
    const name = newName();
    const template = Template().fromBaseImage().runCmd('echo fine').runCmd('echo broken >&2; exit 3');
    const failing = Template.build(template, name, options());
    await expect(failing).rejects.toThrow("failed to run command 'echo broken >&2; exit 3': exit status 3: broken");
    const stack = await failing.catch((error: Error) => `${error.stack}`);
    expect(stack).toContain('templates.test.ts');
    await expect(
      Template.build(Template().fromBaseImage().setUser('root123').runCmd('whoami'), name, options()),
    ).rejects.toThrow("failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'");
    await expect(Sandbox.create(name, world.options)).rejects.toThrow(/404/);
  });

  it('follows a build in the background', async () => {
    const name = newName();
    const template = Template().fromBaseImage().runCmd('echo something').runCmd('sleep 1');
    const info = await Template.buildInBackground(template, name, options());
    expect((await Template.getBuildStatus(info, { ...options(), logsOffset: 0 })).status).toBe('building');
    await expect
      .poll(async () => (await Template.getBuildStatus(info, { ...options(), logsOffset: 0 })).status, {
        timeout: 10_000,
      })
      .toBe('ready');
    const all = await Template.getBuildStatus(info, { ...options(), logsOffset: 0 });
    expect(all.logEntries.map(({ message }) => message)).toContain('something');
    const rest = await Template.getBuildStatus(info, { ...options(), logsOffset: all.logEntries.length });
    expect(rest.logEntries).toEqual([]);
  });

  it('says whether there is one, and names builds by tags', async () => {
    const name = newName();
    expect(await Template.exists(name, options())).toBe(false);
    const built = await Template.build(
      Template().fromBaseImage().runCmd('echo 1 > /home/user/v'),
      `${name}:v1`,
      options({ tags: ['one'] }),
    );
    expect(built.tags).toEqual(['v1', 'one']);
    await Template.build(Template().fromBaseImage().runCmd('echo 2 > /home/user/v'), `${name}:v2`, options());
    expect(await Template.exists(name, options())).toBe(true);
    expect(await Template.aliasExists('base', options())).toBe(true);
    expect(await Template.assignTags(`${name}:v1`, ['production', 'stable'], options())).toEqual({
      buildId: built.buildId,
      tags: ['production', 'stable'],
    });
    const tags = async () => (await Template.getTags(name, options())).map(({ tag }) => tag);
    expect(await tags()).toEqual(['one', 'production', 'stable', 'v1', 'v2']);
    expect(await run(`${name}:production`, 'cat /home/user/v')).toBe('1\n');
    await Template.assignTags(`${name}:v2`, 'production', options());
    expect(await run(`${name}:production`, 'cat /home/user/v')).toBe('2\n');
    await Template.removeTags(name, ['stable', 'one'], options());
    expect(await tags()).toEqual(['production', 'v1', 'v2']);
    await expect(Template.removeTags(name, 'stable', options())).rejects.toThrow(
      `404: tag 'stable' does not exist for template '${name}'`,
    );
    await expect(Template.getTags('no-such', options())).rejects.toThrow("404: template 'no-such' not found");
  });

  it('copies folders and patterns, and brings each archive once', async () => {
    const name = newName();
    await mkdir(join(folder, 'src', 'deep'), { recursive: true });
    // The archives of one SDK are there for the other, too.
    await writeFile(join(folder, 'src', 'version'), version);
    await writeFile(join(folder, `${version}.md`), '');
    await writeFile(join(folder, 'src', 'a.txt'), 'a\n');
    await writeFile(join(folder, 'src', 'deep', 'b.txt'), 'b\n');
    await writeFile(join(folder, 'c.md'), 'c\n');
    await writeFile(join(folder, 'd.md'), 'd\n');
    const template = () =>
      Template({ fileContextPath: folder }).fromBaseImage().copy('src', '/srv/app').copy('*.md', '/srv/docs/');
    const uploads: string[] = [];
    const onBuildLogs = ({ message }: { message: string }) => void (/pload/.test(message) && uploads.push(message));
    await Template.build(template(), name, options({ onBuildLogs }));
    expect(await run(name, 'cat /srv/app/a.txt /srv/app/deep/b.txt /srv/docs/c.md /srv/docs/d.md')).toBe(
      'a\nb\nc\nd\n',
    );
    await Template.build(template(), name, options({ onBuildLogs }));
    expect(uploads.toSorted()).toEqual([
      'All file uploads completed',
      'All file uploads completed',
      "Skipping upload of '*.md', already cached",
      "Skipping upload of 'src', already cached",
      "Uploaded '*.md'",
      "Uploaded 'src'",
    ]);
  });

  it('gives sandboxes its name, and commands the directory that it ends in, also in copies', async () => {
    const name = newName();
    await Template.build(Template().fromBaseImage().setWorkdir('/srv/app').runCmd('true'), name, options());
    const sandbox = await Sandbox.create(name, world.options);
    expect((await sandbox.getInfo()).templateId).toBe(name);
    expect((await sandbox.commands.run('pwd')).stdout).toBe('/srv/app\n');
    expect((await sandbox.commands.run('pwd', { cwd: '/home' })).stdout).toBe('/home\n');
    const { snapshotId } = await sandbox.createSnapshot();
    await sandbox.kill();
    const copy = await Sandbox.create(snapshotId, world.options);
    expect((await copy.commands.run('pwd')).stdout).toBe('/srv/app\n');
    await copy.kill();
    await Sandbox.deleteSnapshot(snapshotId, world.options);
  });

  it('is refused by name what is not here', async () => {
    const name = newName();
    const build = (template: Parameters<typeof Template.build>[0]) => Template.build(template, name, options());
    await expect(build(Template().fromPythonImage('3.12'))).rejects.toThrow(
      /Building from the image python:3.12 is not supported/,
    );
    await expect(build(Template().fromTemplate('no-such'))).rejects.toThrow("404: template 'no-such' not found");
    await expect(Template.build(Template().fromBaseImage(), 'base', options())).rejects.toThrow(/409/);
    await expect(Template.build(Template().fromBaseImage(), 'Not A Name', options())).rejects.toThrow(/400/);
    const { BuildError } = sdk;
    await expect(Template.build(Template().fromBaseImage(), name, options({ memoryMB: 7 }))).rejects.toThrow(
      BuildError,
    );
  });
});

describe('links of uploads', () => {
  const hash = 'a'.repeat(64);

  it('are good for one archive of the project, and for nobody else', async () => {
    const name = newName();
    const { body } = await world.call('POST', '/v3/templates', { name });
    const { status, body: link } = await world.call('GET', `/templates/${body.templateID}/files/${hash}`);
    expect([status, link.present]).toEqual([201, false]);
    const put = (url: string, bytes: string) => fetch(url, { method: 'PUT', body: bytes });
    expect((await put(link.url.replace(hash, 'b'.repeat(64)), 'other')).status).toBe(403);
    expect((await put(`${link.url.slice(0, -1)}_`, 'other')).status).toBe(403);
    expect((await put(link.url, 'content')).status).toBe(200);
    expect((await world.call('GET', `/templates/${name}/files/${hash}`)).body.present).toBe(true);
    expect((await world.call('GET', `/templates/no-such/files/${hash}`)).status).toBe(404);
    expect((await world.call('GET', `/templates/${name}/files/none`)).status).toBe(400);
  });

  it('lead to nothing that a build has not asked for', async () => {
    const name = newName();
    const { body: build } = await world.call('POST', '/v3/templates', { name });
    const at = `/v2/templates/${build.templateID}/builds/${build.buildID}`;
    const copy = { type: 'COPY', args: ['a', '/a'], filesHash: 'c'.repeat(64) };
    expect((await world.call('POST', at, { fromTemplate: 'base', steps: [copy] })).status).toBe(202);
    const status = async () =>
      (await world.call('GET', `/templates/${build.templateID}/builds/${build.buildID}/status`)).body;
    await expect.poll(async () => (await status()).status, { timeout: 10_000 }).toBe('error');
    expect((await status()).reason).toMatchObject({ step: '1', message: expect.stringContaining('are not there') });
    expect((await world.call('POST', at, { fromTemplate: 'base' })).status).toBe(409);
    expect((await world.call('POST', at, { fromTemplate: 'base', other: 1 })).status).toBe(400);
  });
});
