/**
 * What a client relies on, as cases that hold on microVMs and on the platform in memory that users test with
 * (`@space/testing`): the commands are those that a fake guest has, and no case looks behind the API.
 */
import {
  type CreateOptions,
  createKey,
  deleteSnapshot,
  type ExecEvent,
  events,
  getCapabilities,
  listKeys,
  listSnapshots,
  listTemplates,
  operations,
  revokeKey,
  Sandbox,
} from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

interface ClientWorld {
  readonly connection: { readonly baseUrl: string; readonly apiKey: string };
}

/** `world` is asked for when the first case runs. */
export function clientCases(world: () => ClientWorld): void {
  const connection = () => world().connection;
  const create = (options: CreateOptions = {}) => Sandbox.create({ ...connection(), ...options });
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await create({ name: 'shared', env: { GREETING: 'hello' }, metadata: { team: 'blue' } });
  });
  afterAll(() => sandbox.delete());

  describe('a sandbox', () => {
    it('is found by id and by name, listed, told apart by status, and can be deleted twice', async () => {
      const one = await create({ name: 'one' });
      expect((await Sandbox.connect('one', connection())).id).toBe(one.id);
      expect((await Sandbox.list(connection())).map(({ id }) => id)).toEqual([one.id, sandbox.id]);
      await one.pause();
      expect((await Sandbox.list({ ...connection(), status: 'paused' })).map(({ id }) => id)).toEqual([one.id]);
      await one.delete();
      await one.delete();
      await expect(Sandbox.connect(one.id, connection())).rejects.toMatchObject({ code: 'not_found', status: 404 });
    });

    it('keeps what it was given', async () => {
      expect(sandbox.fields).toMatchObject({ name: 'shared', status: 'running', metadata: { team: 'blue' } });
      expect(await sandbox.env()).toEqual({ GREETING: 'hello' });
      await sandbox.update({ idle: { pauseAfterMs: null } });
      expect((await sandbox.refresh()).fields.idle).toEqual({ pauseAfterMs: null });
    });

    it.each([
      ['a template that is not there', { template: 'nope' }, 'template_unknown'],
      ['an impossible size', { size: { memoryMib: 100 } }, 'size_impossible'],
      ['a name that is no name', { name: 'Not A Name' }, 'bad_request'],
      ['a name that is taken', { name: 'shared' }, 'name_taken'],
    ] as const)('with %s is refused by code, with a next step', async (_, options, code) => {
      await expect(create(options)).rejects.toMatchObject({ code, nextStep: expect.stringMatching(/.{10}/) });
    });

    it('has a console, as long as it runs', async () => {
      expect(await sandbox.console()).not.toBeNull();
    });

    it('wakes by use, and keeps its files', async () => {
      await sandbox.files.write('kept', 'over a pause');
      await sandbox.pause();
      expect((await sandbox.refresh()).status).toBe('paused');
      expect((await sandbox.run('cat kept')).stdout).toBe('over a pause');
      expect((await sandbox.refresh()).status).toBe('running');
    });
  });

  describe('a command', () => {
    it('has its output, its environment, its directory and its exit code', async () => {
      const line = 'echo $GREETING; echo oh no >&2; pwd; exit 7';
      expect(await sandbox.run(line, { cwd: '/tmp' })).toMatchObject({
        exitCode: 7,
        stdout: 'hello\n/tmp\n',
        stderr: 'oh no\n',
      });
      expect((await sandbox.run(['printenv', 'A'], { env: { A: 'b c' } })).stdout).toBe('b c\n');
      expect((await sandbox.run('nonsense')).exitCode).toBe(127);
      await expect(sandbox.run(['/no/such/program'])).rejects.toMatchObject({ code: 'command_not_started' });
    });

    it('is given input, as text or bytes, and sees its end', async () => {
      const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index & 255);
      const { stdoutBytes } = await sandbox.run('cat', { stdin: bytes });
      expect(Buffer.compare(stdoutBytes, bytes)).toBe(0);
      expect((await sandbox.run(['cat'])).stdout).toBe('');
    });

    it('runs on when nobody waits, is listed, attached to from any position, and killed', async () => {
      const { processId } = await sandbox.start('echo one; echo two; sleep 1000');
      expect(await readUntil(sandbox.attach(processId), 'two\n')).toBe('one\ntwo\n');
      expect(await readUntil(sandbox.attach(processId, { stdoutOffset: 4 }), 'two\n')).toBe('two\n');
      expect((await sandbox.processes()).map((each) => each.processId)).toContain(processId);
      await sandbox.kill(processId);
      const all = await Array.fromAsync(sandbox.attach(processId));
      expect(all.at(-1)).toMatchObject({ type: 'exited', exitCode: null, signal: 'SIGKILL', timedOut: false });
      expect((await sandbox.processes()).map((each) => each.processId)).not.toContain(processId);
    });

    it('is killed when its time has passed', async () => {
      expect(await sandbox.run('sleep 1000', { timeoutMs: 300 })).toMatchObject({ exitCode: null, timedOut: true });
    });

    it('is left by an aborted signal, with its reason', async () => {
      const reason = new Error('enough');
      const waiting = sandbox.run('sleep 2', { signal: AbortSignal.timeout(200) });
      await expect(waiting).rejects.toMatchObject({ name: 'TimeoutError' });
      await expect(sandbox.run('echo', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    });
  });

  describe('files', () => {
    it('go both ways byte for byte, and are those that commands see', async () => {
      const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7) & 255);
      const { sizeBytes } = await sandbox.files.write('deep/er/data.bin', bytes);
      expect(sizeBytes).toBe(bytes.length);
      expect(Buffer.compare(await sandbox.files.readBytes('deep/er/data.bin'), bytes)).toBe(0);
      expect((await sandbox.files.list('deep')).map(({ name }) => name)).toEqual(['er']);
      await sandbox.run('echo from a command > made');
      expect(await sandbox.files.read('made')).toBe('from a command\n');
      await sandbox.files.write('given', 'to a command');
      expect((await sandbox.run('cat given')).stdout).toBe('to a command');
    });

    it('that are missing, or directories, are told apart', async () => {
      await expect(sandbox.files.read('nothing')).rejects.toMatchObject({ code: 'file_not_found' });
      await expect(sandbox.files.read('/home')).rejects.toMatchObject({ code: 'file_wrong_type' });
      const write = sandbox.files.write('made', 'x', { ifAbsent: true });
      await expect(write).rejects.toMatchObject({ code: 'file_exists' });
    });
  });

  describe('a point', () => {
    it('is gone back to, which can be undone, and stands in the timeline', async () => {
      await using one = await create();
      await one.update({ snapshots: { everyMs: 'off' } });
      await one.files.write('f', 'one');
      const point = await one.snapshot({ note: 'before' });
      await one.files.write('f', 'two');
      const kept = await one.rewind(point);
      expect(await one.files.read('f')).toBe('one');
      expect((await one.timeline()).snapshots.map(({ id, cause }) => [id, cause])).toEqual([
        [kept?.id, 'rewind'],
        [point.id, 'snapshot'],
      ]);
      if (kept === null) throw new Error('the present was not kept');
      await one.rewind(kept);
      expect(await one.files.read('f')).toBe('two');
      expect(one.fields.generation).toBe(3);
    });

    it('is forked into copies that share nothing', async () => {
      await using one = await create();
      await one.files.write('f', 'one');
      const copies = await one.fork(2);
      await Promise.all(copies.map((copy, index) => copy.run(`echo ${index} > f`)));
      expect(await Promise.all(copies.map((copy) => copy.files.read('f')))).toEqual(['0\n', '1\n']);
      expect(await one.files.read('f')).toBe('one');
      for (const copy of copies) await copy.delete();
    });

    it('with a name outlives its sandbox, and others are created from it', async () => {
      const one = await create();
      await one.files.write('f', 'named');
      const { id } = await one.snapshot({ name: 'golden' });
      await one.delete();
      expect((await listSnapshots(connection())).map(({ name }) => name)).toEqual(['golden']);
      await using copy = await create({ snapshot: 'golden' });
      expect(await copy.files.read('f')).toBe('named');
      await copy.delete();
      await deleteSnapshot(id, connection());
      expect(await listSnapshots(connection())).toEqual([]);
    });
  });

  describe('the platform', () => {
    it('tells what it can do, and what it did', async () => {
      expect((await listTemplates(connection())).map(({ name }) => name)).toContain('base');
      expect((await getCapabilities(connection())).limits.forkCount.min).toBe(1);
      const done: string[] = [];
      for await (const { kind, state } of operations({ ...connection(), sandboxId: sandbox.id })) {
        if (state === 'succeeded') done.unshift(kind);
      }
      expect(done.slice(0, 3)).toEqual(['create', 'pause', 'resume']);
      const kinds = [];
      for await (const { kind } of events({ ...connection(), follow: false })) kinds.push(kind);
      expect(kinds[0]).toBe('sandbox.created');
    });

    it('makes keys, which do what their roles may, until they are revoked', async () => {
      const { id, secretKey } = await createKey({ ...connection(), roles: ['viewer'], name: 'looks-on' });
      if (secretKey === null) throw new Error('no secret');
      const viewer = { ...connection(), apiKey: secretKey };
      expect((await Sandbox.list(viewer)).map(({ name }) => name)).toEqual(['shared']);
      await expect(Sandbox.create(viewer)).rejects.toMatchObject({ code: 'forbidden', status: 403 });
      await revokeKey(id, connection());
      await expect(Sandbox.list(viewer)).rejects.toMatchObject({ code: 'unauthenticated' });
      const [key] = (await listKeys(connection())).filter((each) => each.id === id);
      expect(key?.revokedAt).not.toBeNull();
    });
  });
}

async function readUntil(stream: AsyncIterable<ExecEvent>, text: string): Promise<string> {
  let seen = '';
  for await (const event of stream) {
    if (event.type === 'stdout') seen += Buffer.from(event.data).toString();
    if (seen.endsWith(text)) break;
  }
  return seen;
}
