import { expect, test } from 'vitest';
import { librariesOf } from './vmm.ts';

test('librariesOf reads the loader’s list, without what has no file', () => {
  const listed = [
    '\tlinux-vdso.so.1 (0x00007ffd)',
    '\tlibz.so.1 => /t/usr/lib/libz.so.1 (0x00007f01)',
    '\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)',
    '\tlibc.so.6 => /t/usr/lib/libc.so.6 (0x00007f03)',
  ].join('\n');
  expect(librariesOf(listed)).toEqual(['/t/usr/lib/libz.so.1', '/t/usr/lib/libc.so.6']);
});
