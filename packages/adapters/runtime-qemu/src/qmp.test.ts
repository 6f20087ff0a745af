import { type Duplex, duplexPair } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Qmp } from './qmp.ts';

const GREETING = { QMP: { version: {}, capabilities: [] } };

/** A VMM that answers each command by what `answers` has for it; a command that it lacks is never answered. */
function fakeVmm(answers: Record<string, unknown> = {}): {
  client: Duplex;
  lastId(): string;
  say(text: string): void;
  close(): void;
} {
  const [client, server] = duplexPair();
  let lastId = '';
  const say = (text: string): void => void server.write(text);
  server.on('data', (chunk: Buffer) => {
    for (const line of chunk.toString().trim().split('\n')) {
      const { execute, id } = JSON.parse(line);
      lastId = id;
      const known = { qmp_capabilities: { return: {} }, ...answers }[execute as string];
      if (known) say(`${JSON.stringify({ ...known, id })}\n`);
    }
  });
  say(`${JSON.stringify(GREETING)}\n`);
  return { client, lastId: () => lastId, say, close: () => void server.end() };
}

it('answers each command by its own reply, whatever comes in between', async () => {
  const vmm = fakeVmm({ a: { return: { x: 1 } }, b: { return: 'two' } });
  const qmp = await Qmp.open(vmm.client);
  vmm.say('{"event":"RESUME","timestamp":{}}\n');
  expect(await Promise.all([qmp.execute('a'), qmp.execute('b')])).toEqual([{ x: 1 }, 'two']);
});

it('reads lines that are cut anywhere', async () => {
  const vmm = fakeVmm();
  const qmp = await Qmp.open(vmm.client);
  const answer = qmp.execute('slow');
  await setImmediate();
  for (const part of ['{"ret', 'urn": {"ok": true}, "id"', `: "${vmm.lastId()}"}`, '\n']) vmm.say(part);
  expect(await answer).toEqual({ ok: true });
});

it('drops what answers a command of another connection, and fails on a second answer to one of its own', async () => {
  const before = fakeVmm();
  const broken = await Qmp.open(before.client);
  await expect(broken.execute('late', undefined, 20)).rejects.toMatchObject({ name: 'QmpTimeout' });
  const vmm = fakeVmm({ b: { return: 'two' } });
  const qmp = await Qmp.open(vmm.client);
  const open = qmp.execute('b');
  vmm.say(`{"return": "late", "id": "${before.lastId()}"}\n`);
  expect(await open).toBe('two');
  const left = expect(qmp.execute('never')).rejects.toMatchObject({ name: 'QmpClosed' });
  vmm.say(`{"return": "again", "id": "${vmm.lastId().replace(/\d+$/, '2')}"}\n`);
  await left;
});

it('reports a refusal and takes further commands', async () => {
  const vmm = fakeVmm({ bad: { error: { class: 'GenericError', desc: 'no such thing' } }, good: { return: 1 } });
  const qmp = await Qmp.open(vmm.client);
  await expect(qmp.execute('bad')).rejects.toMatchObject({ name: 'QmpRefused', message: 'no such thing' });
  expect(await qmp.execute('good')).toBe(1);
});

it('hands out events until the wait is ended, by the event or by its signal', async () => {
  const vmm = fakeVmm();
  const qmp = await Qmp.open(vmm.client);
  const stopped = qmp.waitFor('a stop', ({ name }) => (name === 'STOP' ? name : undefined), AbortSignal.timeout(5000));
  vmm.say('{"event":"RESUME"}\n{"event":"STOP"}\n');
  expect(await stopped).toBe('STOP');
  await expect(qmp.waitFor('nothing', () => undefined, AbortSignal.timeout(10))).rejects.toThrow('nothing');
  expect(qmp.closed).toBe(false);
});

it('fails every open command and wait when the connection ends', async () => {
  const vmm = fakeVmm();
  const qmp = await Qmp.open(vmm.client);
  const outcomes = Promise.allSettled([
    qmp.execute('never'),
    qmp.execute('never'),
    qmp.waitFor('an event', () => undefined, AbortSignal.timeout(5000)),
  ]);
  vmm.close();
  for (const outcome of await outcomes) expect(outcome).toMatchObject({ reason: { name: 'QmpClosed' } });
  await expect(qmp.execute('more')).rejects.toMatchObject({ name: 'QmpClosed' });
});

it('closes the connection when a command is not answered in time', async () => {
  const qmp = await Qmp.open(fakeVmm().client);
  await expect(qmp.execute('never', undefined, 20)).rejects.toMatchObject({ name: 'QmpTimeout' });
  expect(qmp.closed).toBe(true);
});

it('gives up on a VMM that does not greet', async () => {
  const [client] = duplexPair();
  await expect(Qmp.open(client, 20)).rejects.toMatchObject({ name: 'QmpTimeout' });
  expect(client.destroyed).toBe(true);
});

it.each([
  ['text', 'hello\n'],
  ['a line without end', 'x'.repeat(1024 * 1024 + 1)],
  ['an answer to no command', '{"return": {}, "id": ""}\n'],
  ['an object of an unknown form', '{"surprise": 1}\n'],
])('ends the connection on %s', async (_name, text) => {
  const vmm = fakeVmm();
  const qmp = await Qmp.open(vmm.client);
  const open = expect(qmp.execute('never')).rejects.toMatchObject({ name: 'QmpClosed' });
  vmm.say(text);
  await open;
});

it('bounds the number of open commands', async () => {
  const qmp = await Qmp.open(fakeVmm().client);
  const open = Promise.allSettled(Array.from({ length: 64 }, () => qmp.execute('never')));
  await expect(qmp.execute('one more')).rejects.toMatchObject({ name: 'QmpRefused' });
  qmp.close();
  await open;
});
