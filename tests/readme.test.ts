/** The program in the README is the one in examples/, which runs for real in the whole-system tests. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const read = (path: string) => readFileSync(join(import.meta.dirname, '..', path), 'utf8');

it('shows the program of examples/first.ts', () => {
  expect(/```ts\n([\s\S]*?)```/.exec(read('README.md'))?.[1]).toBe(read('examples/first.ts'));
});
