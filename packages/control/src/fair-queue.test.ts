import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';

/** Takes what may be tried first and fits, until nothing does. */
function drain(queue: FairQueue<string, string>, fits: (item: string) => boolean = () => true): string[] {
  const taken: string[] = [];
  for (;;) {
    const item = queue.candidates().find(fits);
    if (item === undefined) return taken;
    queue.take(item);
    taken.push(item);
  }
}

describe('a fair queue', () => {
  it('lets groups take turns, and is first come, first served within one', () => {
    const queue = new FairQueue<string, string>();
    for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.add(item.charAt(0), item);
    expect(drain(queue)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
    expect(queue.size).toBe(0);
  });

  it('however many of others come first, the n-th of a group waits for n turns of each of them at most', () => {
    const flood = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(flood, fc.nat(5), (others, own) => {
        const queue = new FairQueue<string, string>();
        for (const [index, group] of others.entries()) queue.add(group, `${group}${index}`);
        for (let index = 0; index <= own; index++) queue.add('z', `z${index}`);
        const order = drain(queue);
        for (let index = 0; index <= own; index++) {
          const before = order.slice(0, order.indexOf(`z${index}`)).filter((item) => !item.startsWith('z'));
          for (const group of ['a', 'b', 'c']) {
            expect(before.filter((item) => item.startsWith(group)).length).toBeLessThanOrEqual(index + 1);
          }
        }
        expect(order).toHaveLength(others.length + own + 1);
      }),
    );
  });

  it('passes over what does not fit, and waits for it once it was passed over too often', () => {
    const queue = new FairQueue<string, string>();
    queue.add('large', 'large');
    for (let index = 0; index < 20; index++) queue.add('small', `small${index}`);
    const taken = drain(queue, (item) => item !== 'large');
    expect(taken).toHaveLength(8);
    expect(queue.candidates()).toEqual(['large']);
    expect(drain(queue)[0]).toBe('large');
  });

  it('forgets who leaves it', () => {
    const queue = new FairQueue<string, string>();
    for (const item of ['a1', 'a2', 'b1']) queue.add(item.charAt(0), item);
    queue.remove('a1');
    queue.remove('b1');
    queue.remove('never there');
    expect(queue.size).toBe(1);
    expect(drain(queue)).toEqual(['a2']);
  });
});
