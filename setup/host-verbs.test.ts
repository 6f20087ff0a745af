/** `space down`, `doctor` and `uninstall`, on made-up folders: nothing of this machine is touched. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const SPACE = join(import.meta.dirname, '../space');
const BOOT = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'host-verbs-'));
  mkdirSync(join(dir, 'data/vaults'), { recursive: true });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function space(...args: string[]) {
  const env = { PATH: process.env['PATH'], HOME: dir, SPACE_DATA: join(dir, 'data'), SPACE_CACHE: join(dir, 'cache') };
  const { status, stdout, stderr } = spawnSync(SPACE, args, {
    encoding: 'utf8',
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return { code: status, out: stdout, err: stderr };
}

/** A process that can be told from all others, as the platform tells itself. */
function platform(script: string) {
  const child = spawn('/bin/sh', ['-c', script]);
  const start = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19];
  writeFileSync(join(dir, 'data/running'), `${child.pid} ${start} ${BOOT} http://127.0.0.1:7070\n`);
  return { child, start };
}

describe('up', () => {
  it('prints its help, without setting anything up', () => {
    const { code, out, err } = space('up', '--help');
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^Usage: space up [\s\S]* --archive NAME=PLACE [\s\S]*clear text\.\n$/);
    expect(existsSync(join(dir, 'cache'))).toBe(false);
  });

  it.each([
    [['--lisen', '127.0.0.1:1'], 'there is no option "--lisen"'],
    [['--lisen=127.0.0.1:1'], 'there is no option "--lisen"'],
    [['--memory', 'much'], '--memory is "much"'],
    [['--listen', 'nowhere'], 'it must be HOST:PORT'],
    [['--data', 'relative'], 'it must be an absolute path'],
  ])('refuses %j before it sets up', (args, text) => {
    expect(space('up', ...args)).toMatchObject({ code: 2, err: expect.stringContaining(text) });
    expect(existsSync(join(dir, 'cache'))).toBe(false);
  });

  it('says that a platform runs on the data folder already', () => {
    const { child } = platform('sleep 60');
    const text = `SPACE runs here already: it serves http://127.0.0.1:7070 (process ${child.pid}, data folder ${dir}/data)`;
    for (const args of [[], ['--data', join(dir, 'data')], [`--data=${join(dir, 'data')}`]]) {
      expect(space('up', ...args)).toMatchObject({ code: 1, err: expect.stringContaining(text) });
    }
    expect(existsSync(join(dir, 'cache'))).toBe(false);
    child.kill('SIGKILL');
  });
});

describe('down', () => {
  it('interrupts the platform, and returns when it is gone', () => {
    const { child } = platform('trap "exit 0" INT; while :; do sleep 0.05; done');
    expect(space('down')).toMatchObject({ code: 0, out: expect.stringContaining(`stopping process ${child.pid}`) });
    expect(space('down').out).toContain('does not run');
  });

  it('signals no process that only has the pid of a platform that was', async () => {
    const { child } = platform('sleep 60');
    for (const line of [`${child.pid} 1 ${BOOT} url`, `${child.pid} 1 00000000-0000 url`, 'nonsense', '']) {
      writeFileSync(join(dir, 'data/running'), line);
      expect(space('down')).toMatchObject({ code: 0, out: expect.stringContaining('does not run') });
    }
    expect(child.exitCode).toBeNull();
    child.kill('SIGKILL');
  });
});

describe('doctor', () => {
  it('tells each requirement with its state and remedy, and changes nothing', () => {
    const { code, out } = space('doctor', '--json');
    const rows = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const missing = rows.filter(({ state }) => state === 'missing');
    expect(code).toBe(missing.length === 0 ? 0 : 1);
    expect(rows.map(({ requirement }) => requirement)).toEqual(
      expect.arrayContaining([
        'Debian 12 or 13, amd64',
        'root, or sudo',
        'disk space',
        'Debian packages',
        'KVM',
        'the platform',
      ]),
    );
    for (const row of rows) {
      expect(['ok', 'later', 'note', 'missing']).toContain(row.state);
      if (row.state === 'missing' || row.state === 'later') expect(row.remedy).toMatch(/.{10}/);
    }
    expect(existsSync(join(dir, 'cache'))).toBe(false);
  });

  it('tells where a platform runs', () => {
    const { child } = platform('sleep 60');
    expect(space('doctor').out).toContain(`serves http://127.0.0.1:7070 (process ${child.pid}`);
    child.kill('SIGKILL');
  });
});

describe('uninstall', () => {
  it.each([
    [['--data', '/'], 'is not a folder of the platform'],
    [['--data', '/usr/lib/x'], 'is not a folder of the platform'],
    [['--data', 'relative'], 'is not an absolute path'],
    [[], 'Nobody is there to be asked'],
  ])('refuses %j and removes nothing', (args, why) => {
    const { code, err } = space('uninstall', ...args);
    expect([code, err]).toEqual([1, expect.stringContaining(why)]);
    expect(existsSync(join(dir, 'data/vaults'))).toBe(true);
  });

  it.each([
    ['http://127.0.0.1:7070', false],
    ['https://space.example.com', true],
  ])('with a client configuration that names %s, lets it be: %j', (url, stays) => {
    mkdirSync(join(dir, '.config/space'), { recursive: true });
    writeFileSync(join(dir, '.config/space/config.json'), JSON.stringify({ url, apiKey: 'k' }));
    writeFileSync(join(dir, 'data/url'), 'http://127.0.0.1:7070\n');
    const { out } = space('uninstall');
    const config = join(dir, '.config/space/config.json');
    expect(out.includes(`${config} stays`)).toBe(stays);
    expect(new RegExp(`^  ${config} `, 'm').test(out)).toBe(!stays);
  });

  it('refuses a folder that is not one of the platform, even when told yes', () => {
    mkdirSync(join(dir, 'photos'));
    expect(space('uninstall', '--yes', '--data', join(dir, 'photos')).err).toContain(
      'does not look like a data folder',
    );
    expect(existsSync(join(dir, 'photos'))).toBe(true);
  });
});

it('what makes no sense is refused with the next step', () => {
  for (const verb of ['down', 'doctor', 'uninstall']) {
    expect(space(verb, '--nonsense')).toMatchObject({
      code: 2,
      err: expect.stringContaining('Next: Run the same with --help.'),
    });
    expect(space(verb, '--help')).toMatchObject({ code: 0, out: expect.stringContaining('Usage: space') });
  }
});
