/** The files of a guest, over a channel that the first use opens. */
import type { GuestFiles } from '@space/core';
import type { Channel } from './channel.ts';
import * as files from './files.ts';
import type { Limits } from './limits.ts';
import { watch } from './watch.ts';

type Traffic = () => Promise<{ readonly channel: Channel; readonly limits: Limits }>;

export function fileCalls(traffic: Traffic): GuestFiles {
  return {
    readFile: async (file, signal) => files.readFile(await traffic(), file, signal),
    writeFile: async (file, body, signal) => files.writeFile(await traffic(), file, body, signal),
    stat: async (file) => files.stat(await traffic(), file),
    async *list(directory) {
      yield* files.list(await traffic(), directory);
    },
    makeDirectory: async (directory) => files.makeDirectory(await traffic(), directory),
    moveFile: async (move) => files.moveFile(await traffic(), move),
    removeFile: async (file, signal) => files.removeFile(await traffic(), file, signal),
    setAttributes: async (attributes) => files.setAttributes(await traffic(), attributes),
    makeSymlink: async (link) => files.makeSymlink(await traffic(), link),
    xattrs: async (file) => files.xattrs(await traffic(), file),
    xattr: async (attribute) => files.xattr(await traffic(), attribute),
    setXattr: async (attribute, value) => files.setXattr(await traffic(), attribute, value),
    removeXattr: async (attribute) => files.removeXattr(await traffic(), attribute),
    async *watch(directory, signal) {
      yield* watch(await traffic(), directory, signal);
    },
  };
}
