/** The agent's table of errnos and the host's meanings belong together: none is sent that means nothing here. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { errorOfCall } from '../src/errors.ts';
import { StatusError } from '../src/exchange.ts';

const AGENT_TABLE = join(import.meta.dirname, '../../../../guest/agent/src/errno.rs');
const STATUS_UNKNOWN = 2;
/** No call on files gives these. */
const OF_PROCESSES = ['ESRCH', 'ENOEXEC', 'ELIBBAD'];

const names = [...readFileSync(AGENT_TABLE, 'utf8').matchAll(/\(libc::(E\w+), "\1", Code::/g)]
  .map(([, name = '']) => name)
  .filter((name) => !OF_PROCESSES.includes(name));
const meaning = (name: string) => errorOfCall('file', new StatusError(STATUS_UNKNOWN, `${name}: open: as asked`)).code;

test('every errno of a file has a meaning of its own here', () => {
  expect(names.length).toBeGreaterThan(25);
  expect(names.filter((name) => name !== 'EIO' && meaning(name) === 'internal')).toEqual([]);
});

test.each([
  ['ENOENT', 'file_not_found'],
  ['EROFS', 'file_read_only'],
  ['EBUSY', 'file_busy'],
  ['ELOOP', 'file_symlink_loop'],
  ['ENOTDIR', 'file_wrong_type'],
  ['ENOTEMPTY', 'directory_not_empty'],
  ['EXDEV', 'file_other_device'],
  ['ENOSPC', 'guest_full'],
  ['ENOMEM', 'guest_exhausted'],
  ['EUCLEAN', 'file_unsupported'],
  ['EIO', 'internal'],
  ['EWHATEVER', 'internal'],
  ['constructor', 'internal'],
])('%s is %s, whatever the status says', (name, code) => {
  expect(meaning(name)).toBe(code);
});
