/** The fake file system does what the real agent does. */
import { describe } from 'vitest';
import { FakeFiles } from './fake-files.ts';
import { changeCases, FilesWorld, watchCases, xattrCases } from './guest-suite/changes.ts';

const withFiles = (run: (world: FilesWorld) => Promise<void>) => async () => {
  await run(new FilesWorld({ files: new FakeFiles(), user: 'user', directory: '/home/user' }));
};

describe('changes', () => changeCases(withFiles));
describe('extended attributes', () => xattrCases(withFiles));
describe('watches', () => watchCases(withFiles));
