/** What E2B's unmodified SDKs do inside a microVM: what fakes cannot show. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as newest from 'e2b';
import * as earlier from 'e2b-2-45';
import { beforeAll, expect, it } from 'vitest';

const execute = promisify(execFile);

const ROUNDS = process.env['SPACE_FULL'] === '1' ? 20 : 3;

const failureOf = (promise: Promise<unknown>): Promise<newest.CommandExitError> =>
  promise.then(
    () => expect.unreachable('it did not fail'),
    (error) => error,
  );

/** It comes from Python's own index, so it is tried only where all is. */
const PYTHON_SDK = 'e2b==2.63.0';

async function withPythonSdk(use: (python: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'space-e2b-python-'));
  try {
    await execute('python3', ['-m', 'venv', folder]);
    await execute(join(folder, 'bin/pip'), ['install', '--quiet', PYTHON_SDK]);
    await use(join(folder, 'bin/python'));
  } finally {
    await rm(folder, { recursive: true });
  }
}

export function e2bCases(given: () => newest.ConnectionOpts): void {
  let options: newest.ConnectionOpts;
  let sandbox: newest.Sandbox;
  beforeAll(async () => {
    options = { ...given(), validateApiKey: false };
    sandbox = await newest.Sandbox.create({ ...options, envs: { GIVEN: 'at create' } });
  });

  const stdoutOf = async (line: string, more: { user?: string; cwd?: string } = {}) =>
    (await sandbox.commands.run(line, more)).stdout.trim();

  it('runs commands as the user, with exit codes, output, directories and the environment', async () => {
    const result = await failureOf(
      sandbox.commands.run('id -un; pwd; echo $HOME $GIVEN $E2B_SANDBOX; echo err >&2; exit 3'),
    );
    expect(result).toMatchObject({
      exitCode: 3,
      stdout: 'user\n/home/user\n/home/user at create true\n',
      stderr: 'err\n',
    });
    expect(await stdoutOf('id -un; pwd', { user: 'root', cwd: '/tmp' })).toBe('root\n/tmp');
    expect(await failureOf(sandbox.commands.run('kill -TERM $$'))).toMatchObject({
      exitCode: -1,
      error: 'signal: terminated',
    });
    await expect(sandbox.commands.run('true', { cwd: '/none' })).rejects.toThrow("cwd '/none' does not exist");
    await expect(sandbox.commands.run('true', { user: 'nobody-here' })).rejects.toThrow(
      "invalid username: 'nobody-here'",
    );
  });

  it('leaves commands in the background alone, and kills them with all that they have started', async () => {
    const line = 'echo first; cat; sleep 1111 & sleep 1111';
    const envs = { OWN: 'mine' };
    const command = await sandbox.commands.run(line, { background: true, stdin: true, envs });
    await expect.poll(() => command.stdout).toBe('first\n');
    await command.disconnect();
    const connected = await sandbox.commands.connect(command.pid);
    await sandbox.commands.sendStdin(command.pid, 'second\n');
    await sandbox.commands.closeStdin(command.pid);
    await expect.poll(() => connected.stdout).toBe('second\n');
    await expect.poll(() => stdoutOf('pgrep -fxc "sleep 1111" || true')).toBe('2');
    expect(await sandbox.commands.list()).toContainEqual(expect.objectContaining({ pid: command.pid, envs }));
    expect(await sandbox.commands.kill(command.pid)).toBe(true);
    expect(await failureOf(connected.wait())).toMatchObject({ exitCode: -1, error: 'signal: killed' });
    expect(await stdoutOf('pgrep -fxc "sleep 1111" || true')).toBe('0');
    expect(await sandbox.commands.kill(command.pid)).toBe(false);
  });

  it('kills a command at its deadline, with all that it has started', async () => {
    const failed = await failureOf(sandbox.commands.run('sleep 2222 & sleep 2222', { timeoutMs: 1_000 }));
    expect(failed.constructor.name).toBe('TimeoutError');
    await expect.poll(() => stdoutOf('pgrep -fxc "sleep 2222" || true')).toBe('0');
  });

  it('gives a terminal, which is typed on and resized', async () => {
    let shown = '';
    const onData = (data: Uint8Array) => {
      shown += Buffer.from(data).toString();
    };
    const terminal = await sandbox.pty.create({ cols: 90, rows: 25, onData });
    const type = (line: string) => sandbox.pty.sendInput(terminal.pid, Buffer.from(`${line}\n`));
    await type('stty size; echo $TERM');
    await expect.poll(() => shown).toMatch(/25 90\r\nxterm-256color/);
    await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
    await type('stty size');
    await expect.poll(() => shown).toContain('30 100');
    await type('exit 5');
    expect(await failureOf(terminal.wait())).toMatchObject({ exitCode: 5 });
  });

  it('makes files that belong to the user wherever they lie, and tells what they are', async () => {
    const info = await sandbox.files.write('/srv/mine/a.txt', 'hello', { metadata: { by: 'me' } });
    expect(info).toEqual({ name: 'a.txt', type: 'file', path: '/srv/mine/a.txt', metadata: { by: 'me' } });
    expect(await stdoutOf('stat -c %U:%G:%a /srv/mine /srv/mine/a.txt')).toBe('user:user:755\nuser:user:644');
    expect(await sandbox.files.getInfo('/srv/mine/a.txt')).toMatchObject({
      owner: 'user',
      group: 'user',
      size: 5,
      permissions: '-rw-r--r--',
      metadata: { by: 'me' },
    });
    expect(await sandbox.files.getInfo('/bin')).toMatchObject({
      type: 'dir',
      symlinkTarget: '/usr/bin',
      owner: 'root',
    });
    expect((await sandbox.files.getInfo('/tmp')).permissions).toBe('dtrwxrwxrwx');
    expect(
      await stdoutOf(
        'getfattr --only-values -n user.e2b.by /srv/mine/a.txt 2>/dev/null || python3 -c \'import os; print(os.getxattr("/srv/mine/a.txt", "user.e2b.by").decode())\'',
      ),
    ).toBe('me');
    expect((await sandbox.files.rename('/srv/mine/a.txt', '~/b.txt')).metadata).toEqual({ by: 'me' });
  });

  it('carries files both ways whole, also compressed', async () => {
    const content = Buffer.alloc(8 * 1024 * 1024, 'SPACE! ');
    await sandbox.files.write('big.bin', new Blob([content]), { useOctetStream: true, gzip: true });
    const digest = createHash('sha256').update(content).digest('hex');
    expect((await stdoutOf('sha256sum < big.bin')).slice(0, 64)).toBe(digest);
    const read = await sandbox.files.read('big.bin', { format: 'bytes', gzip: true });
    expect(Buffer.from(read).equals(content)).toBe(true);
  });

  it('tells of changes', async () => {
    const seen: string[] = [];
    await sandbox.files.makeDir('watched/below');
    const onEvent = ({ type, name }: newest.FilesystemEvent) => void seen.push(`${type} ${name}`);
    const watch = await sandbox.files.watchDir('watched', onEvent, { recursive: true });
    await sandbox.files.write('watched/a', '1');
    await stdoutOf('cd watched; echo more >> a; mv a below/b; rm below/b');
    await expect
      .poll(() => seen)
      .toEqual(expect.arrayContaining(['create a', 'write a', 'rename a', 'create below/b', 'remove below/b']));
    await watch.stop();
  });

  it('uses git', async () => {
    const releases = [newest.Sandbox, earlier.Sandbox as unknown as typeof newest.Sandbox];
    for (const [at, release] of releases.entries()) {
      const { git, files } = await release.connect(sandbox.sandboxId, options);
      const folder = `/home/user/git-${at}`;
      const [repo, remote] = [`${folder}/repo`, `${folder}/remote.git`];
      await git.init(remote, { bare: true });
      await git.init(repo, { initialBranch: 'main' });
      await git.configureUser('A', 'a@example.org', { scope: 'local', path: repo });
      await git.setConfig('pull.rebase', 'true', { scope: 'local', path: repo });
      expect(await git.getConfig('pull.rebase', { scope: 'local', path: repo })).toBe('true');
      await files.write(`${repo}/file`, 'one');
      await git.add(repo);
      await git.commit(repo, 'one');
      await git.remoteAdd(repo, 'origin', remote);
      expect(await git.remoteGet(repo, 'origin')).toBe(remote);
      await git.push(repo, { remote: 'origin', branch: 'main' });
      await git.createBranch(repo, 'side');
      expect(await git.branches(repo)).toMatchObject({ currentBranch: 'side' });
      await git.checkoutBranch(repo, 'main');
      await git.deleteBranch(repo, 'side');
      await files.write(`${repo}/file`, 'changed');
      expect(await git.status(repo)).toMatchObject({ isClean: false });
      await git.restore(repo, { paths: ['file'] });
      await git.reset(repo, { mode: 'hard', target: 'HEAD' });
      await git.clone(remote, { path: `${folder}/clone`, branch: 'main' });
      await git.pull(`${folder}/clone`);
      expect(await files.read(`${folder}/clone/file`)).toBe('one');
      expect(await git.status(repo)).toMatchObject({ isClean: true });
      await git.dangerouslyAuthenticate({ username: `user-${at}`, password: 'word', host: 'git.example' });
      expect(await files.read('.git-credentials')).toContain(`https://user-${at}:word@git.example`);
    }
  });

  it('keeps a process, with its pid, over pauses', async () => {
    const command = await sandbox.commands.run('while sleep 0.1; do date +%s >> ticks; done', { background: true });
    await command.disconnect();
    for (let round = 0; round < ROUNDS; round++) {
      expect(await sandbox.pause()).toBe(true);
      sandbox = await newest.Sandbox.connect(sandbox.sandboxId, options);
      expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(command.pid);
    }
    expect(await sandbox.commands.kill(command.pid)).toBe(true);
  });

  it('serves the earlier release', async () => {
    const before = await earlier.Sandbox.connect(sandbox.sandboxId, options);
    expect((await before.commands.run('echo hello')).stdout).toBe('hello\n');
    await before.files.write('earlier.txt', 'text');
    expect(await before.files.read('earlier.txt')).toBe('text');
  });

  it.runIf(process.env['SPACE_FULL'] === '1')('serves the Python SDK', () =>
    withPythonSdk(async (python) => {
      const { apiUrl = '', sandboxUrl = '', apiKey = '' } = options;
      const e2b = { E2B_API_URL: apiUrl, E2B_SANDBOX_URL: sandboxUrl, E2B_API_KEY: apiKey };
      const env = { ...process.env, ...e2b, E2B_VALIDATE_API_KEY: 'false' };
      const { stdout } = await execute(python, [join(import.meta.dirname, 'e2b_client.py')], { env });
      expect(stdout).toBe('done\n');
    }),
  );

  it('tells a run that its sandbox was killed', async () => {
    const end = failureOf(sandbox.commands.run('sleep 1000'));
    await expect.poll(async () => (await sandbox.commands.list()).length).toBeGreaterThan(0);
    expect(await sandbox.kill()).toBe(true);
    const failed = await end;
    expect(failed.constructor.name).toBe('TimeoutError');
    expect(failed.message).toContain(
      'The sandbox was killed or reached its end of life while the request was in flight.',
    );
    expect(await sandbox.isRunning()).toBe(false);
  });
}
