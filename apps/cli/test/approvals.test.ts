/** What waits for a reviewer, from the command line. */
import { once } from 'node:events';
import { createKey, Sandbox } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { World } from './world.ts';

let world: World;
let reviewer: string;
let id: string;

beforeAll(async () => {
  world = await World.start();
  const { secretKey } = await createKey({ ...world.platform.connection, roles: ['reviewer'] });
  reviewer = secretKey ?? '';
  ({ id } = await Sandbox.create({ ...world.platform.connection, name: 'box' }));
});
afterAll(() => world[Symbol.asyncDispose]());

const asReviewer = (...args: string[]) => world.run(args, { env: { SPACE_API_KEY: reviewer } });

/** As soon as it waits. */
async function waiting(): Promise<string> {
  for (;;) {
    const [one] = await world.json('approvals', 'ls');
    if (one !== undefined) return one.id;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('approvals', () => {
  it('are listed, shown with nothing hidden and no secret in it, and approved by a reviewer only', async () => {
    const decided = world.platform.holdRequest(id, {
      method: 'POST',
      url: 'https://api.example/pay?to=me',
      headers: { Authorization: 'Bearer hunter2hunter2', 'X-Note': 'a\u202eb' },
      body: '{"cents": 1, "password": "hunter2"}\n\u001b[2J',
    });
    const approval = await waiting();
    expect(await world.ok('approvals', 'ls')).toMatch(
      new RegExp(`${approval}  pending .*POST https://api.example/pay`),
    );
    const shown = await world.ok('approvals', 'show', approval.slice(4, 12));
    expect(shown).toContain('POST https://api.example/pay?to=me\n');
    expect(shown).toContain('authorization: ⟨masked, 21 characters⟩\n');
    expect(shown).toContain('x-note: a⟨U+202E⟩b\n');
    expect(shown).toContain('{"cents": 1, "password": "⟨masked, 7 characters⟩"}\n⟨U+001B⟩[2J\n');
    expect(shown).not.toContain('hunter2');
    expect(await world.run(['approvals', 'approve', approval])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('approval.decide'),
    });
    const approved = await asReviewer('approvals', 'approve', approval, '--reason', 'fine', '--json');
    expect(JSON.parse(approved.stdout.toString())).toMatchObject({ state: 'approved', reason: 'fine' });
    expect(await decided).toBe('let_go');
    expect((await asReviewer('approvals', 'deny', approval)).stderr).toContain('Nobody decides it any more');
    expect(await world.json('approvals', 'ls')).toEqual([]);
    expect(await world.json('approvals', 'ls', '--all', '--sandbox', 'box')).toMatchObject([{ id: approval }]);
  });

  it('are told to an address that an admin sets', async () => {
    const url = 'https://hooks.example/space';
    expect((await world.run(['approvals', 'webhook'])).stderr).toContain('has no webhook');
    expect(await world.ok('approvals', 'webhook', url)).toMatch(/^whsec_.+\n$/);
    expect(await world.ok('approvals', 'webhook')).toBe(`url     ${url}\n`);
    expect((await world.run(['approvals', 'webhook', 'http://hooks.example/'])).code).toBe(1);
    expect((await asReviewer('approvals', 'webhook', url)).stderr).toContain('network.manage');
    await world.ok('approvals', 'webhook', '--off');
    expect((await world.run(['approvals', 'webhook'])).code).toBe(1);
  });

  it('are followed as they come, and denied', async () => {
    const child = world.start(['approvals', 'ls', '--follow', '--json'], { SPACE_API_KEY: reviewer });
    const line = once(child.stdout, 'data');
    const decided = world.platform.holdRequest(id, { method: 'DELETE' });
    const { id: approval, request } = JSON.parse(String((await line)[0]));
    expect(request).toMatchObject({ method: 'DELETE', host: 'api.example' });
    expect((await asReviewer('approvals', 'deny', approval)).code).toBe(0);
    expect(await decided).toBe('refused');
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    await ended;
  });
});
