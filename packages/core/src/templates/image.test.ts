import { describe, expect, it } from 'vitest';
import { imageKey, parseImageState } from './image.ts';

describe('an image', () => {
  it('says who runs commands, where and with what, or nothing that is used', () => {
    const state = { user: 'root', cwd: '/', env: { PATH: '/bin' } };
    expect(parseImageState(JSON.stringify(state))).toEqual(state);
    for (const text of [
      '',
      '[]',
      JSON.stringify({ ...state, cwd: 'relative' }),
      JSON.stringify({ ...state, user: '' }),
    ]) {
      expect(parseImageState(text)).toBeUndefined();
    }
  });

  it('has a key by what it is and what it is put on', () => {
    const keys = [
      imageKey('one', { archive: 'a' }),
      imageKey('two', { archive: 'a' }),
      imageKey('one', { archive: 'b' }),
    ];
    expect(new Set(keys).size).toBe(3);
    expect(imageKey('one', { archive: 'a' })).toBe(keys[0]);
  });
});
