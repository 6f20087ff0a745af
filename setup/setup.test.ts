/** Runs the functions of the set-up scripts with made-up machines: a faked os-release, and faked programs on PATH. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const setup = import.meta.dirname;
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'setup-'));
  mkdirSync(join(dir, 'bin'));
});
afterEach(() => rmSync(dir, { recursive: true }));

/** Puts a program on the PATH of `sh`. */
function fake(name: string, script: string): void {
  const path = join(dir, 'bin', name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

function sh(script: string, env: Record<string, string> = {}) {
  const all = `set -eu; for part in say machine packages; do . "${setup}/$part.sh"; done; ${script}`;
  const path = `${join(dir, 'bin')}:/usr/bin:/bin`;
  const result = spawnSync('/bin/sh', ['-c', all], { encoding: 'utf8', env: { PATH: path, ROOT: dir, ...env } });
  return { code: result.status, out: result.stdout, err: result.stderr };
}

describe('check_os', () => {
  const check = (release: string, architecture = 'amd64') => {
    writeFileSync(join(dir, 'os-release'), release);
    return sh(`check_os '${dir}/os-release' ${architecture}; echo "Debian $DEBIAN"`);
  };

  test.each(['12', '13'])('takes Debian %s', (version) => {
    const result = check(`PRETTY_NAME="Debian GNU/Linux"\nVERSION_ID="${version}"\nVERSION="x"\nID=debian\n`);
    expect(result).toMatchObject({ code: 0, out: `Debian ${version}\n` });
  });

  test('names another system, says why and what to do', () => {
    const result = check('ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n');
    expect(result.code).toBe(1);
    expect(result.err).toContain('This is ubuntu 24.04, not Debian 12 or 13.');
    expect(result.err).toMatch(/\n {2}Why: .+\n {2}Do: {2}Use a machine.+Debian 12/);
  });

  test('refuses an older Debian, and a system that does not say what it is', () => {
    expect(check('ID=debian\nVERSION_ID="11"\n').err).toContain('debian 11');
    expect(sh(`check_os '${dir}/none' amd64`).err).toContain('an unknown system');
  });

  test('refuses another architecture', () => {
    const result = check('ID=debian\nVERSION_ID="12"\n', 'arm64');
    expect(result.code).toBe(1);
    expect(result.err).toContain('This machine is arm64, not amd64.');
  });
});

describe('check_root', () => {
  test('is content with root, and with sudo that works', () => {
    expect(sh('PATH=/nowhere; check_root 0').code).toBe(0);
    fake('sudo', 'exit 0');
    expect(sh('check_root 1000').code).toBe(0);
  });

  test('says so when there is no sudo', () => {
    const result = sh('PATH=/nowhere; check_root 1000');
    expect(result.code).toBe(1);
    expect(result.err).toContain('You are not root, and there is no sudo.');
    expect(result.err).toContain('apt-get install sudo');
  });

  test('does not ask for a password where nobody can type it', () => {
    fake('sudo', 'exit 1');
    const result = sh('check_root 1000');
    expect(result.code).toBe(1);
    expect(result.err).toContain('sudo does not let you run commands');
  });
});

describe('check_disk', () => {
  const df = (kib: number) =>
    fake('df', `echo 'Filesystem 1024-blocks Used Available Capacity Mounted'; echo "/dev/x 9 9 ${kib} 1% $2"`);

  test('looks at the nearest folder that exists', () => {
    df(8 * 1024 * 1024);
    expect(sh(`check_disk '${dir}/not/yet/there' 6144; echo "$free in $place"`).out).toBe(`8192 in ${dir}\n`);
  });

  test('says how much is free, how much is needed, and how to use another disk', () => {
    df(100 * 1024);
    const result = sh(`check_disk '${dir}' 6144`);
    expect(result.code).toBe(1);
    expect(result.err).toContain('There are 100 MiB free');
    expect(result.err).toContain('6144 MiB are needed');
    expect(result.err).toContain('SPACE_CACHE');
  });
});

describe('packages', () => {
  test('missing_packages names what is not fully installed', () => {
    fake('dpkg-query', `printf 'installed:zstd half-installed:gcc '; exit 1`);
    expect(sh('missing_packages zstd gcc mmdebstrap').out).toBe('gcc mmdebstrap ');
  });

  test('what only the tests use is installed for them only', () => {
    fake('dpkg-query', 'exit 1');
    const wanted = (env: Record<string, string>) =>
      sh('DEBIAN=12; find_wanted; echo $WANTED', env).out.trim().split(' ');
    expect(wanted({})).not.toContain('zsh');
    expect(wanted({ SPACE_FOR_TESTS: '1' })).toEqual([...wanted({}), 'systemd', 'zsh']);
  });

  test.each([
    ['rustc 1.95.0 (59807616e 2026-04-14)', 0],
    ['rustc 1.85.1 (Debian)', 0],
    ['rustc 1.63.0 (Debian)', 1],
    ['no rust', 1],
  ])('rust_is_fit %j: %i', (version, code) => {
    expect(sh(`rust_is_fit '${version}'`).code).toBe(code);
  });
});

describe('as_root', () => {
  test('hands SPACE_* and PATH through sudo, values untouched, and nothing else', () => {
    fake('id', 'echo 1000');
    fake('sudo', `printf '%s\\n' "$@"`);
    const result = sh('as_root serve "two words"', { SPACE_CACHE: "/a b'$HOME", SPACE_X: '1', OTHER: 'x' });
    const lines = result.out.trimEnd().split('\n');
    expect(lines).toContain("SPACE_CACHE=/a b'$HOME");
    expect(lines).toContain('SPACE_X=1');
    expect(lines.at(0)).toBe('env');
    expect(lines.slice(-2)).toEqual(['serve', 'two words']);
    expect(result.out).not.toContain('OTHER');
    expect(result.out).toContain(`PATH=${dir}/bin`);
  });

  test('keeps the exit code of what it runs', () => {
    fake('id', 'echo 0');
    expect(sh('as_root sh -c "exit 7"').code).toBe(7);
    expect(sh('replace=exec as_root sh -c "exit 8"').code).toBe(8);
  });
});

describe('lock-matches', () => {
  const locked = (packages: Record<string, object>) => JSON.stringify({ packages });
  const matches = (wanted: Record<string, object>, installed: Record<string, object>) => {
    mkdirSync(join(dir, 'node_modules'), { recursive: true });
    writeFileSync(join(dir, 'package-lock.json'), locked({ '': {}, ...wanted }));
    writeFileSync(join(dir, 'node_modules/.package-lock.json'), locked(installed));
    return spawnSync(process.execPath, [join(setup, 'lock-matches.ts'), dir]).status === 0;
  };
  const zod = { 'node_modules/zod': { version: '4.0.0' } };

  test('accepts what the lock asks for, optional packages of other machines missing', () => {
    expect(matches({ ...zod, 'node_modules/x-darwin': { version: '1.0.0', optional: true } }, zod)).toBe(true);
  });

  test.each([
    ['a missing package', zod, {}],
    ['another version', zod, { 'node_modules/zod': { version: '3.0.0' } }],
    ['a package too many', {}, zod],
  ])('refuses %s', (_what, wanted, installed) => {
    expect(matches(wanted, installed)).toBe(false);
  });
});
