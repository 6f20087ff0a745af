/** The script of copy steps, run by the bash and tar of this machine in a folder of its own. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { COPY_NAME, COPY_SCRIPT } from './copy-script.ts';

let folder: string;
let out: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'copy-'));
  out = join(folder, 'out');
  const from = join(folder, 'from');
  mkdirSync(join(from, 'src', 'deep'), { recursive: true });
  writeFileSync(join(from, 'src', 'a.txt'), 'a');
  writeFileSync(join(from, 'src', '.hidden'), 'h');
  writeFileSync(join(from, 'src', 'deep', 'b.txt'), 'b');
  writeFileSync(join(from, "it's; here.md"), 'odd');
  writeFileSync(join(from, 'c.md'), 'c');
  symlinkSync('c.md', join(from, 'link'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function copy(pattern: string, target: string, { owner = '', mode = '' } = {}) {
  const archive = join(folder, 'files.tar.gz');
  execFileSync('tar', ['-C', join(folder, 'from'), '-czf', archive, '.']);
  const args = ['-c', COPY_SCRIPT, COPY_NAME, archive, pattern, target, owner, mode];
  const { status, stderr } = spawnSync('/bin/bash', args, { encoding: 'utf8' });
  return { status, stderr: stderr.trim(), isArchiveGone: !readdirSync(folder).includes('files.tar.gz') };
}

const text = (...path: string[]) => readFileSync(join(out, ...path), 'utf8');
const names = (...path: string[]) => readdirSync(join(out, ...path)).toSorted();

describe('a copy step', () => {
  it('makes a file of a file, or puts it into a directory', () => {
    expect(copy('c.md', join(out, 'one', 'd.md'))).toEqual({ status: 0, stderr: '', isArchiveGone: true });
    expect(text('one', 'd.md')).toBe('c');
    copy('./c.md', `${join(out, 'two')}/`);
    expect(text('two', 'c.md')).toBe('c');
    mkdirSync(join(out, 'three'));
    copy('c.md', join(out, 'three'));
    expect(text('three', 'c.md')).toBe('c');
    copy('c.md', join(out, 'one', 'd.md'));
    expect(names('one')).toEqual(['d.md']);
  });

  it('copies what is in a directory, into one that may be there', () => {
    copy('src', out);
    expect(names()).toEqual(['.hidden', 'a.txt', 'deep']);
    copy('src/', join(out, 'again'));
    expect(text('again', 'deep', 'b.txt')).toBe('b');
    writeFileSync(join(out, 'own'), 'stays');
    writeFileSync(join(out, 'a.txt'), 'old');
    copy('src', out);
    expect([text('own'), text('a.txt')]).toEqual(['stays', 'a']);
    copy('.', join(out, 'all'));
    expect(names('all')).toEqual(['c.md', "it's; here.md", 'link', 'src']);
  });

  it('takes patterns, and names as they are', () => {
    copy('*.md', join(out, 'docs'));
    expect(names('docs')).toEqual(['c.md', "it's; here.md"]);
    copy("it's; here.md", join(out, 'one.md'));
    expect(text('one.md')).toBe('odd');
    copy('src/**/*.txt', join(out, 'texts'));
    expect(names('texts')).toEqual(['a.txt', 'b.txt']);
    copy('link', join(out, 'links', 'l'));
    expect(lstatSync(join(out, 'links', 'l')).isSymbolicLink()).toBe(true);
  });

  it('gives what it makes the mode and the owner that are asked for', () => {
    const owner = process.getuid?.() === 0 ? '12345' : '';
    copy('src', join(out, 'new', 'place'), { mode: '0750', owner });
    const { mode, uid } = lstatSync(join(out, 'new', 'place', 'a.txt'));
    expect(mode & 0o777).toBe(0o750);
    if (owner !== '') {
      expect(uid).toBe(12_345);
      for (const made of [join(out, 'new', 'place', 'deep'), join(out, 'new', 'place'), join(out, 'new'), out]) {
        expect(lstatSync(made).uid, made).toBe(12_345);
      }
    }
  });

  it('fails when there is nothing to copy', () => {
    const missing = copy('no-such*', out);
    expect(missing).toMatchObject({ status: 66, stderr: "no files found for 'no-such*'" });
    expect(missing.isArchiveGone).toBe(true);
    expect(copy('$(touch x)', out).status).toBe(66);
  });
});
