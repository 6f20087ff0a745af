/** How the routes of files are answered. */
import { givenBytes, toldBytes } from '@space/contract';
import type { FileStatus } from '@space/core';
import type { Answers } from './answers.ts';
import type { Call } from './call.ts';
import { toFileEntry, toListedEntry, toWatchWireEvent } from './file-wire.ts';
import { receiveFile, sendFile, sendHead } from './files.ts';
import { sendEvents } from './ndjson.ts';

type FileRoute =
  | 'readFile'
  | 'headFile'
  | 'writeFile'
  | 'removeFile'
  | 'setFileAttributes'
  | 'statFile'
  | 'listFiles'
  | 'makeDirectory'
  | 'moveFile'
  | 'makeSymlink'
  | 'listXattrs'
  | 'getXattr'
  | 'setXattr'
  | 'removeXattr'
  | 'watchFiles';

export const FILE_ANSWERS: Pick<Answers, FileRoute> = {
  readFile: async (call) => {
    await sendFile(call);
    return 'streamed';
  },
  headFile: async (call) => {
    await sendHead(call);
    return 'streamed';
  },
  writeFile: async (call) => ({ body: await receiveFile(call) }),
  removeFile: async ({ useCases, caller, input }) => ({ body: { removed: await useCases.removeFile(caller, input) } }),
  setFileAttributes: async (call) => entry(call, await call.useCases.setFileAttributes(call.caller, call.input)),
  statFile: async (call) => entry(call, await call.useCases.statFile(call.caller, call.input)),
  listFiles: async (call) => {
    await sendEvents('listFiles', call, listingOf(call));
    return 'streamed';
  },
  makeDirectory: async (call) => entry(call, await call.useCases.makeDirectory(call.caller, call.input)),
  moveFile: async ({ useCases, caller, input }) => {
    await useCases.moveFile(caller, input);
    return {};
  },
  makeSymlink: async (call) => entry(call, await call.useCases.makeSymlink(call.caller, call.input)),
  listXattrs: async ({ useCases, caller, input }) => {
    const names = (await useCases.listXattrs(caller, input)).map(toldBytes);
    return { body: { attributes: names.map(([name, nameBase64]) => ({ name, nameBase64 })) } };
  },
  getXattr: async ({ useCases, caller, input }) => {
    const value = await useCases.getXattr(caller, input);
    return { body: { value: Buffer.from(value).toString('base64') } };
  },
  setXattr: async ({ useCases, caller, input }) => {
    await useCases.setXattr(caller, input);
    return {};
  },
  removeXattr: async ({ useCases, caller, input }) => {
    await useCases.removeXattr(caller, input);
    return {};
  },
  watchFiles: async (call) => {
    await sendEvents('watchFiles', call, changesOf(call));
    return 'streamed';
  },
};

function entry(
  { input }: { readonly input: { readonly path?: string; readonly pathBase64?: Uint8Array } },
  status: FileStatus,
) {
  return { body: toFileEntry(status, givenBytes(input.path, input.pathBase64)) };
}

async function* listingOf({ useCases, caller, input }: Call<'listFiles'>) {
  for await (const listed of useCases.listFiles(caller, input)) {
    yield { type: 'entry', entry: toListedEntry(listed) } as const;
  }
  yield { type: 'end' } as const;
}

async function* changesOf({ useCases, caller, input }: Call<'watchFiles'>) {
  for await (const event of useCases.watchFiles(caller, input)) yield toWatchWireEvent(event);
}
