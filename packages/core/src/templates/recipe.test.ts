import { describe, expect, it } from 'vitest';
import { type BuildStep, FIRST_STATE, layersOf, type Recipe } from './recipe.ts';

const BASE = { key: 'base', state: FIRST_STATE };
const RUN = (command: string, more: Partial<BuildStep> = {}) => ({ type: 'run', command, ...more }) as BuildStep;
const recipe = (steps: readonly BuildStep[], more: Partial<Recipe> = {}): Recipe => ({ from: 'base', steps, ...more });
const keysOf = (made: Recipe, base = BASE) => layersOf(made, base).map(({ key }) => key);

describe('layers of a recipe', () => {
  it('are those that change files, and the end', () => {
    const steps: BuildStep[] = [
      { type: 'env', values: { A: '1' } },
      RUN('one'),
      { type: 'user', name: 'root' },
      { type: 'copy', files: 'f', from: 'a', to: '/b' },
    ];
    const layers = layersOf(recipe(steps, { start: 'serve' }), BASE);
    expect(layers.map(({ step, number }) => [step.type, number])).toEqual([
      ['run', 2],
      ['copy', 4],
      ['finish', 5],
    ]);
    expect(layers.map(({ state }) => [state.user, state.env])).toEqual([
      ['user', { A: '1' }],
      ['root', { A: '1' }],
      ['root', { A: '1' }],
    ]);
  });

  it('have keys that follow from all that came before, and from nothing else', () => {
    const one = keysOf(recipe([RUN('a'), RUN('b')]));
    expect(keysOf(recipe([RUN('a'), RUN('b')]))).toEqual(one);
    const other = keysOf(recipe([RUN('a'), RUN('c')]));
    expect(other[0]).toBe(one[0]);
    expect(other[1]).not.toBe(one[1]);
    expect(other[2]).not.toBe(one[2]);
    expect(keysOf(recipe([{ type: 'env', values: { A: '1' } }, RUN('a'), RUN('b')]))[0]).not.toBe(one[0]);
    expect(keysOf(recipe([RUN('a'), RUN('b')]), { ...BASE, key: 'another' })[0]).not.toBe(one[0]);
    const forced = layersOf(recipe([RUN('a'), RUN('b', { force: true })]), BASE);
    expect(forced.map(({ key }) => key)).toEqual(one);
    expect(forced.map(({ isForced }) => isForced)).toEqual([false, true, true]);
  });

  it('run where and with what the steps before have said', () => {
    const steps: BuildStep[] = [
      { type: 'workdir', path: 'app' },
      { type: 'env', values: { ROOT: '/opt' } },
      { type: 'env', values: { ROOT: '/srv', BIN: '$ROOT/bin:$' } },
      { type: 'env', values: { BIN: `$${'{BIN}'}$UNKNOWN` } },
      { type: 'workdir', path: 'src' },
      RUN('make'),
    ];
    expect(layersOf(recipe(steps), BASE)[0]?.state).toEqual({
      user: 'user',
      cwd: '/home/user/app/src',
      env: { ROOT: '/srv', BIN: '/opt/bin:$$UNKNOWN' },
    });
  });
});
