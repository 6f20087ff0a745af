import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
/** Every verb does what it says, in words for people and in JSON for programs, and its errors have a next step. */
import { Sandbox } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from './pty.ts';
import { World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(() => world[Symbol.asyncDispose]());

describe('sandboxes', () => {
  it('are created, listed, shown, paused, resumed and deleted', async () => {
    const args = ['--name', 'one', '--label', 'team=blue', '--memory', '256', '--pause-after', '2h', '--env', 'A=1'];
    const id = (await world.ok('create', ...args)).trim();
    expect(id).toMatch(/^sbx_/);
    expect(await world.ok('ls')).toMatch(new RegExp(`^ID .*\\n${id}  one +running +base +1 CPU, 256 MiB`));
    expect(await world.ok('get', 'one')).toMatch(/when idle +paused after 7200 s\n[\s\S]*label team +blue/);
    expect(await world.ok('pause', 'one')).toBe(`${id}  paused\n`);
    expect(await world.json('ls', '--status', 'paused')).toMatchObject([{ id, idle: { pauseAfterMs: 7_200_000 } }]);
    expect(await world.ok('exec', 'one', 'printenv A')).toBe('1\n');
    expect(await world.ok('pause', 'one')).toContain('paused');
    expect(await world.json('resume', 'one')).toMatchObject({ id, status: 'running' });
    expect(await world.json('rm', 'one')).toEqual({ id, deleted: true });
    expect(await world.json('ls')).toEqual([]);
  });

  it('are meant by id, name, or the beginning of either, when it is clear', async () => {
    const [a, b] = [(await world.ok('create', '-n', 'web-a')).trim(), (await world.ok('create', '-n', 'web-b')).trim()];
    for (const reference of [a, 'web-a', a.slice(0, 12), a.slice(4, 12)]) {
      expect((await world.json('get', reference)).id).toBe(a);
    }
    const { code, stderr } = await world.run(['rm', 'web']);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/"web" can mean 2 things: web-b .*web-a .*\n {2}Next: /)]);
    expect((await world.run(['rm', 'web-a', 'nobody'])).stderr).toContain('There is no sandbox "nobody".');
    // Nothing was done, since not all was clear.
    expect(await world.json('ls')).toHaveLength(2);
    await world.ok('rm', a, b);
  });
});

describe('archives', () => {
  it('are made of a sandbox, and make one', async () => {
    await world.ok('create', '-n', 'left');
    await world.ok('exec', 'left', 'echo kept > f');
    const archive = (await world.ok('export', 'left', '--timeline')).trim();
    expect(archive).toMatch(/^prj_[0-9a-z]{16}\/sbx_[0-9a-z]{16}\/[0-9a-f]{64}$/);
    expect(await world.json('export', 'left', '--base', archive)).toMatchObject({ location: 'default' });
    expect(await world.ok('archive', 'left')).toContain('none was made yet');
    expect(await world.ok('archive', 'left', '--every', '10m')).toContain('every 600 s, to default');
    expect(await world.json('archive', 'left', '--off')).toMatchObject({ archive: 'off' });
    expect((await world.run(['archive', 'left', '--off', '--every', '10m'])).stderr).toMatch(/ {2}Next: /);
    await world.ok('rm', 'left');
    const id = (await world.ok('import', archive, '-n', 'back', '--env', 'A=1')).trim();
    expect(await world.ok('exec', 'back', 'cat f; printenv A')).toBe('kept\n1\n');
    const moved = (await world.ok('move', 'back')).trim();
    expect(await world.json('get', 'back')).toMatchObject({ status: 'moved', moved: { archive: moved } });
    expect((await world.run(['exec', 'back', 'true'])).stderr).toContain('moved');
    expect(await world.ok('move', 'back', '--undo')).toContain('is paused here');
    const again = (await world.ok('move', 'back', '--no-timeline')).trim();
    expect((await world.ok('import', again, '--move')).trim()).toBe(id);
    expect((await world.run(['import', moved, '--move'])).stderr).toMatch(/moved?|here/);
    expect(await world.ok('archives', '--of', 'back')).toContain(moved);
    expect((await world.run(['archives', 'delete', moved])).code).toBe(0);
    expect(await world.ok('archives')).not.toContain(moved);
    expect((await world.run(['import', '../../etc/passwd'])).stderr).toMatch(/archive.*\n {2}Next: /);
    expect((await world.run(['export', 'back', '--to', 'nowhere'])).stderr).toContain('no place for archives');
    const terminal = world.onTerminal('export', 'back', '--timeline');
    expect(await terminal.ended).toMatchObject({ code: 0 });
    expect(terminal.screen).toMatch(/100 %.* sent/);
    await world.ok('rm', id);
  });
});

describe('points', () => {
  it('are taken, listed, forked from and gone back to', async () => {
    await world.ok('create', '-n', 'src');
    await world.ok('exec', 'src', 'echo one > f');
    const point = (await world.ok('snapshot', 'src', '--note', 'first', '--name', 'golden')).trim();
    await world.ok('exec', 'src', 'echo two > f');
    const kept = (await world.ok('rewind', 'src', point.slice(0, 12))).trim();
    expect(await world.ok('exec', 'src', 'cat f')).toBe('one\n');
    expect(await world.ok('timeline', 'src')).toMatch(
      new RegExp(`\\n {3}${kept} .*rewind.*\\n\\*  ${point}  golden +snapshot .* first\\n`),
    );
    expect((await world.run(['rewind', 'src'])).code).toBe(2);
    await world.ok('rewind', 'src', '--at', '0s');
    await world.ok('rewind', 'src', point);
    const copies = (await world.ok('fork', 'src', '-n', '2', '--from', kept)).trim().split('\n');
    expect(copies).toHaveLength(2);
    expect(await world.ok('exec', copies[1] ?? '', 'cat f')).toBe('two\n');
    await world.ok('rm', 'src', ...copies);
    expect(await world.ok('snapshots')).toContain('golden');
    await world.ok('create', '-n', 'again', '-s', 'gold');
    expect(await world.ok('exec', 'again', 'cat f')).toBe('one\n');
    await world.ok('rm', 'again');
    await world.ok('snapshots', 'rm', 'golden');
    expect(await world.json('snapshots')).toEqual([]);
  });

  it('are pinned, named and noted later, and that is taken away again', async () => {
    await world.ok('create', '-n', 'later');
    const point = (await world.ok('snapshot', 'later')).trim();
    const row = async () => (await world.ok('timeline', 'later')).split('\n').find((line) => line.includes(point));
    expect(await world.ok('snapshots', 'unpin', point)).toBe(`${point}\n`);
    expect(await row()).toContain('by policy');
    expect(await world.json('snapshots', 'pin', point)).toMatchObject({ id: point, pinned: true });
    await world.ok('snapshots', 'note', point, 'before the move');
    expect(await row()).toMatch(/pinned .* before the move$/);
    await world.ok('snapshots', 'name', point, 'milestone');
    expect(await row()).toMatch(/ milestone .*by name/);
    await world.ok('snapshots', 'note', 'mile');
    expect(await world.json('snapshots', 'name', 'milestone')).toMatchObject({ id: point, name: null, note: null });
    expect(await world.json('snapshots')).toEqual([]);
    await world.ok('rm', 'later');
  });
});

describe('what a sandbox did', () => {
  it('is told, and followed', async () => {
    const id = (await world.ok('create', '-n', 'told')).trim();
    await world.ok('pause', 'told');
    expect(await world.ok('logs', 'told')).toMatch(/create +succeeded.*\n.*pause +succeeded/);
    expect(await world.ok('logs', 'told', '--console')).toBe('');
    expect(await world.ok('exec', 'told', 'true')).toBe('');
    expect(await world.ok('logs', 'told', '--console')).toMatch(
      /^\[ {4}0\.000000\] \\u\{1b\}\[31mfake\\u\{1b\}\[0m guest of lif_\w+\n$/,
    );
    await world.ok('pause', 'told');
    const following = world.start(['logs', 'told', '--follow', '--json', '-n', '1']);
    let text = '';
    following.stdout.on('data', (bytes: Buffer) => {
      text += bytes;
    });
    await until(() => text.includes('\n'));
    await world.ok('resume', 'told');
    await until(() => text.includes('sandbox.running'));
    const lines = text.split('\n');
    following.kill('SIGKILL');
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ kind: 'pause', sandboxId: id });
    expect(await world.json('top')).toMatchObject([{ id, status: 'running', now: { memoryBytes: 2 ** 26 } }]);
    await world.ok('rm', 'told');
  });
});

describe('the platform', () => {
  it('tells its templates and what it can do', async () => {
    expect(await world.ok('templates')).toContain('base');
    expect(await world.ok('capabilities')).toContain('guest code  tcg: nothing runs here');
  });

  it('makes, lists and revokes keys, and shows a secret once', async () => {
    const secret = (await world.ok('keys', 'create', '--role', 'viewer', '--role', 'auditor', '--name', 'ci')).trim();
    const env = { SPACE_API_KEY: secret };
    expect((await world.run(['ls'], { env })).code).toBe(0);
    expect((await world.run(['create'], { env })).stderr).toMatch(/\(forbidden, req_/);
    const listed = await world.ok('keys');
    expect(listed).toContain('viewer,auditor');
    expect(listed).not.toContain(secret);
    const { id } = (await world.json('keys')).find(({ name }: { name: string }) => name === 'ci');
    await world.ok('keys', 'revoke', id);
    expect((await world.run(['ls'], { env })).stderr).toContain('unauthenticated');
  });
});

describe('the audit', () => {
  it('is listed, checked and taken away, by who may', async () => {
    await world.ok('keys', 'create', '--role', 'viewer', '--name', 'audited');
    expect(await world.ok('audit')).toMatch(/key_\w+ +createKey +key_\w+ +ok\n/);
    // Links follow within a second or two.
    await expect
      .poll(() => world.ok('audit', 'verify'), { timeout: 10_000 })
      .toMatch(/^calls: 1 to \d+, whole, [0-9a-f]{64}\n/);
    const lines = (await world.ok('audit', 'export', '--chain', 'calls')).trim().split('\n');
    const [anchor, ...links] = lines.map((line) => JSON.parse(line));
    expect(anchor).toMatchObject({ type: 'anchor', chain: 'calls', number: 0 });
    expect(links.map(({ number }) => number)).toEqual(links.map((_, index) => index + 1));
    expect(await world.ok('egress', '--all')).toBe('');
    expect((await world.run(['egress'])).code).toBe(2);
    expect((await world.run(['egress', 'some', '--follow'])).code).toBe(2);
    // What was taken away is checked without any server; a head shows what else was written anew.
    const offline = { env: { SPACE_URL: 'http://127.0.0.1:9' } };
    const folder = await mkdtemp(join(tmpdir(), 'space-audit-'));
    const [file, heads] = [join(folder, 'audit.jsonl'), join(folder, 'heads.jsonl')];
    await writeFile(heads, await world.ok('audit', 'head'));
    await writeFile(file, await world.ok('audit', 'export'));
    const whole = await world.run(['audit', 'verify', file, '--head', heads], offline);
    expect(whole).toMatchObject({ code: 0, stderr: '' });
    expect(`${whole.stdout}`).toMatch(
      /^calls of org_0{16}: 1 to \d+, whole, [0-9a-f]{64}\n {2}agrees with the head \d+/,
    );
    const text = await readFile(file, 'utf8');
    const tampered = await world.run(['audit', 'verify', '-'], {
      ...offline,
      stdin: text.replace('"outcome":"ok"', '"outcome":"no"'),
    });
    expect(tampered).toMatchObject({ code: 1, stderr: expect.stringContaining('audit_broken') });
    expect(`${tampered.stdout}`).toMatch(/BROKEN at \d+ \(line \d+\): It is not what was linked/);
    await writeFile(
      heads,
      (await readFile(heads, 'utf8')).replace(/"digest":"./, '"digest":"f').replace(/"digest":"f./, '"digest":"00'),
    );
    expect((await world.run(['audit', 'verify', '--head', heads])).stderr).toContain('audit_broken');
    expect((await world.run(['audit', 'verify', join(folder, 'none')])).stderr).toContain('no such file');
    await rm(folder, { recursive: true });
    const secret = (await world.ok('keys', 'create', '--role', 'developer')).trim();
    expect((await world.run(['audit', 'verify'], { env: { SPACE_API_KEY: secret } })).stderr).toContain('forbidden');
  });
});

describe('schedules', () => {
  it('are listed, with their next time and their command', async () => {
    const sandbox = await Sandbox.create({ ...world.platform.connection, name: 'early' });
    const { id, nextRunAt } = await sandbox.schedules.create({ cron: '0 8 * * MON', exec: ['./report', '\x1b[2J'] });
    await sandbox.schedules.create({ cron: '@daily', timeZone: 'Europe/Berlin', enabled: false });
    const listed = await world.ok('schedules', 'early');
    expect(listed).toContain(`${id}  0 8 * * MON  UTC            ${nextRunAt}  -     ./report \\u{1b}[2J\n`);
    expect(listed).toMatch(/@daily +Europe\/Berlin +disabled +- +-\n$/);
    expect(await world.json('schedules', 'early')).toMatchObject([{ id }, { enabled: false }]);
    await world.ok('rm', 'early');
  });

  it('are made and deleted', async () => {
    await world.ok('create', '-n', 'early');
    const zoned = ['--time-zone', 'Europe/Berlin', 'early', '0 8 * * MON', './report', '--all'];
    const id = (await world.ok('schedules', 'create', ...zoned)).trim();
    const [line, wake] = [
      JSON.parse(await world.ok('schedules', 'create', '--json', 'early', '@daily', 'a | b')),
      JSON.parse(await world.ok('schedules', 'create', '--json', 'early', '@hourly')),
    ];
    expect(await world.json('schedules', 'early')).toMatchObject([
      { id, timeZone: 'Europe/Berlin', exec: { argv: ['./report', '--all'] } },
      { id: line.id, exec: { command: 'a | b' } },
      { id: wake.id, timeZone: 'UTC', exec: null },
    ]);
    expect((await world.run(['schedules', 'create', 'early', 'soon'])).stderr).toMatch(/bad_request[\s\S]*Next: /);
    expect(await world.ok('schedules', 'rm', 'early', id, line.id)).toBe(`${id}\n${line.id}\n`);
    expect(await world.json('schedules', 'early')).toMatchObject([{ id: wake.id }]);
    await world.ok('rm', 'early');
  });
});

describe('errors', () => {
  it.each([
    [['get', 'nobody'], 1, 'not_found'],
    [['create', '-n', 'Not A Name'], 1, 'bad_request'],
    [['create', '--memory', 'much'], 2, 'bad_usage'],
    [['create', '--pause-after', '1s'], 2, 'bad_usage'],
    [['exec'], 2, 'bad_usage'],
    [['nonsense'], 2, 'bad_usage'],
    [['ls', '--url', 'http://127.0.0.1:9'], 1, 'unreachable'],
    [['keys', 'revoke', 'none', '--url', 'http://127.0.0.1:9'], 1, 'unreachable'],
    [['ports', 'url', 'nobody', '80'], 1, 'not_found'],
    [['ports', 'share', 'nobody', '0'], 2, 'bad_usage'],
    [['cp', 'a', 'b'], 2, 'bad_usage'],
    [['ls', '--url', 'nowhere'], 1, 'misused'],
    [['help', 'nonsense'], 2, 'bad_usage'],
  ])('of %j have an exit code, and one shape in JSON', async (args, code, name) => {
    const ran = await world.run([...args, '--json']);
    expect([ran.code, ran.stdout.toString()]).toEqual([code, '']);
    const { error } = JSON.parse(ran.stderr);
    expect(error.code).toBe(name);
    expect(Object.keys(error).sort()).toEqual(['code', 'detail', 'facts', 'nextStep', 'requestId', 'retry', 'status']);
    expect(error.nextStep).toMatch(/.{8}/);
    const words = await world.run(args);
    expect([words.code, words.stderr]).toEqual([code, expect.stringMatching(/^space: .*\n {2}Next: .*\n$/)]);
  });
});

describe('a next step', () => {
  const toldOf = async (args: readonly string[], env: Record<string, string> = {}) =>
    (await world.run(args, { env })).stderr;

  it('leads on from a wrong verb, option or label', async () => {
    expect(await toldOf(['secrets', 'wipe', 'x'])).toMatch(
      /no `space secrets wipe`.*\n {2}Next: There are: space secrets set/,
    );
    expect(await toldOf(['ports', 'box', 'share'])).toContain('space ports share');
    expect(await toldOf(['create', '--label', 'foo'])).toContain('NAME=VALUE');
    expect(await toldOf(['exec', 'box', '--json'])).toContain('space exec --json … box COMMAND');
    expect(await toldOf(['create', '--vcpus', '0'])).toMatch(/^space: size.vcpus must be more than 0, and is 0/);
  });

  it('leads on from a key, a place or a time that is not there', async () => {
    expect(await toldOf(['ls'], { SPACE_API_KEY: 'space_wrong' })).toContain('space up --new-key');
    await world.ok('create', '-n', 'box');
    expect(await toldOf(['archives', '--in', 'nowhere'])).toContain('space up --archive');
    const point = (await world.ok('snapshot', 'box')).trim();
    expect(await toldOf(['rewind', 'box', '--at', '3d'])).toMatch(new RegExp(`space timeline box.*oldest is ${point}`));
    await world.ok('exec', 'box', '--', 'true');
    const missing = await world.run(['exec', 'box', 'no-such', 'program']);
    expect(missing).toMatchObject({ code: 127, stderr: expect.stringContaining('There is no program "no-such"') });
    await world.ok('move', 'box');
    expect(await toldOf(['exec', 'box', 'true'])).toContain('space move SANDBOX --undo');
    await world.ok('rm', 'box');
  });
});

describe('help', () => {
  it('is there for groups and their verbs, however it is asked for', async () => {
    expect(await world.ok('help', 'keys', 'create')).toBe(await world.ok('keys', 'create', '--help'));
    expect(await world.ok('conformance')).toContain('egress');
    expect(await world.ok('approvals')).toMatch(/^ID +STATE/);
    expect((await world.run([])).stdout.toString()).toContain('On this machine:');
  });

  it('deletes by either word', async () => {
    for (const group of ['secrets', 'snapshots', 'keys', 'bindings', 'archives', '']) {
      const text = await world.ok(...[group, 'rm', '--help'].filter(Boolean));
      expect(text, group).toBe(await world.ok(...[group, 'delete', '--help'].filter(Boolean)));
    }
  });
});

describe('text from a sandbox', () => {
  it('does nothing to a terminal, in words or in JSON', async () => {
    const evil = '\x1b]0;owned\x07\x1b[2J\u202etxt.exe\u009b31m\u200b\r\n';
    const sandbox = await Sandbox.create({ ...world.platform.connection, name: 'evil', metadata: { [evil]: evil } });
    await sandbox.snapshot({ note: evil });
    for (const args of [
      ['get', 'evil'],
      ['timeline', 'evil'],
      ['ls'],
      ['get', 'evil', '--json'],
      ['timeline', 'evil', '--json'],
    ]) {
      const text = await world.ok(...args);
      expect(text.replaceAll('\n', ''), args.join(' ')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
    }
    expect((await world.json('get', 'evil')).metadata).toEqual({ [evil]: evil });
    await world.ok('rm', 'evil');
  });
});
