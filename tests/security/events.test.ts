/** The stream of events over HTTP. */
import { expect, it } from 'vitest';
import { World } from './world.ts';

interface Event {
  readonly type: string;
  readonly cursor: string;
  readonly kind?: string;
}

const linesOf = (text: string): Event[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

async function eventsOf(world: World, key: string, query = ''): Promise<Event[]> {
  const [open, ...events] = linesOf((await world.call(key, 'GET', `/v1/events?follow=false${query}`)).text);
  expect(open?.type).toBe('open');
  return events;
}

it('tells what happened, and goes on from a cursor', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  await world.ask(key, 'POST', '/v1/sandboxes', { name: 'one' });
  const before = await eventsOf(world, key);
  expect(before.map(({ kind, type }) => kind ?? type)).toEqual([
    'sandbox.created',
    'sandbox.running',
    'operation.ended',
    'end',
  ]);
  await world.ask(key, 'POST', '/v1/sandboxes/one/snapshots', {});
  await world.ask(key, 'DELETE', '/v1/sandboxes/one');
  const after = await eventsOf(world, key, `&after=${before.at(-2)?.cursor}`);
  expect(after.map(({ kind, type }) => kind ?? type)).toEqual([
    'snapshot.taken',
    'operation.ended',
    'sandbox.deleted',
    'operation.ended',
    'snapshot.deleted',
    'end',
  ]);
});

it('begins with what happens from now on, when that is asked for, and says where that is', async () => {
  await using world = await World.start();
  const key = world.operatorKey;
  await world.ask(key, 'POST', '/v1/sandboxes', { name: 'one' });
  const { text } = await world.call(key, 'GET', '/v1/events?after=latest&follow=false');
  const [open, ...rest] = linesOf(text);
  expect(rest.map(({ type }) => type)).toEqual(['end']);
  await world.ask(key, 'POST', '/v1/sandboxes/one/snapshots', {});
  const since = await eventsOf(world, key, `&after=${open?.cursor}`);
  expect(since.map(({ kind, type }) => kind ?? type)).toEqual(['snapshot.taken', 'operation.ended', 'end']);
});

it('is followed by so many at most; who only reads what there is does not count', async () => {
  await using world = await World.start();
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${world.operatorKey}` };
  const follow = () => fetch(`${world.url}/v1/events`, { headers, signal: stop.signal });
  const followers = await Promise.all(Array.from({ length: 100 }, follow));
  expect(new Set(followers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await (await follow()).json()).toMatchObject({ code: 'unavailable' });
  expect(await eventsOf(world, world.operatorKey)).toMatchObject([{ type: 'end' }]);
  stop.abort();
});

it('is followed, and ends when the key is revoked', async () => {
  await using world = await World.start();
  const viewer = await world.ask(world.operatorKey, 'POST', '/v1/keys', { roles: ['viewer'] });
  const headers = { authorization: `Bearer ${viewer.secretKey}` };
  const following = fetch(`${world.url}/v1/events`, { headers }).then((response) => response.text());
  await world.ask(world.operatorKey, 'POST', '/v1/sandboxes', { name: 'one' });
  await new Promise((resolve) => setTimeout(resolve, 600));
  await world.ask(world.operatorKey, 'DELETE', `/v1/keys/${viewer.id}`);
  const events = linesOf(await following);
  expect(events[1]?.kind).toBe('sandbox.created');
  expect(events.at(-1)).toMatchObject({ type: 'error', problem: { code: 'unauthenticated' } });
  // A viewer may not list keys, and is not told of them.
  expect(events.some(({ kind }) => kind === 'key.revoked')).toBe(false);
  expect((await eventsOf(world, world.operatorKey)).some(({ kind }) => kind === 'key.revoked')).toBe(true);
});

it.each(['&after=x', '&after=1', '&after=-1-1', "&after=1-1'", '&follow=no', `&after=${'9'.repeat(30)}-1`])(
  'refuses %s',
  async (query) => {
    await using world = await World.start();
    const path = `/v1/events?${query.slice(1)}`;
    expect((await world.call(world.operatorKey, 'GET', path)).status).toBe(400);
  },
);
