/** The routes of files in a sandbox. What each promises to have changed is durable when it answers. */
import type { ErrorCode } from '@space/core';
import { USE, WAKES } from './error-groups.ts';
import { bytes, json, ndjson, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

/** Of every call with a path. */
const FILE = [
  ...USE,
  'file_not_found',
  'file_denied',
  'file_wrong_type',
  'file_symlink_loop',
  'guest_exhausted',
] as const satisfies readonly ErrorCode[];

/** Of every call that changes something. */
const CHANGE = [
  ...FILE,
  'file_read_only',
  'file_busy',
  'file_unsupported',
  'guest_full',
] as const satisfies readonly ErrorCode[];

const PATHS =
  'Paths are bytes: one that is UTF-8 is given and told as `path`, any other as `pathBase64`, and so for every name. ';

export const FILE_ROUTES = {
  readFile: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/files',
    action: 'sandbox.use',
    summary: 'Read a file',
    description:
      'Headers: Content-Length (absent when the length is not known beforehand, as in /proc), X-Space-File-Size, ' +
      'X-Space-File-Mode (octal), X-Space-File-Uid, X-Space-File-Gid, Last-Modified. A part is asked for by a Range ' +
      'header of one range (answered with 206), or by offset and length. A body that is cut short was interrupted: the ' +
      `connection is then broken off. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.readFileQuery,
    body: noBody,
    response: bytes,
    status: 200,
    errors: FILE,
  },
  headFile: {
    method: 'HEAD',
    path: '/v1/sandboxes/{id}/files',
    action: 'sandbox.use',
    summary: 'The headers of a file, without its bytes',
    description: `Those of a GET without a range; Content-Length is the size. An error has no body here. ${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.filePathQuery,
    body: noBody,
    response: noBody,
    status: 200,
    errors: FILE,
  },
  writeFile: {
    method: 'PUT',
    path: '/v1/sandboxes/{id}/files',
    action: 'sandbox.use',
    summary: 'Write a file',
    description:
      'Replaces the file atomically; when it answers, the file is complete, durable and owned by the user. Missing ' +
      'directories are made. A symbolic link to a file is itself replaced. The body is streamed and has no ' +
      `limit but the disk. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.writeFileQuery,
    body: bytes,
    response: json(schemas.writtenFile),
    status: 200,
    errors: [...CHANGE, 'file_exists', 'digest_mismatch'],
  },
  removeFile: {
    method: 'DELETE',
    path: '/v1/sandboxes/{id}/files',
    action: 'sandbox.use',
    summary: 'Remove a file, a link or a directory',
    description:
      'The entry itself, never what a link points to. When it fails midway, what was removed is gone; closing the ' +
      `connection ends it where it is. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.removeFileQuery,
    body: noBody,
    response: json(schemas.removedFiles),
    status: 200,
    errors: [...CHANGE, 'directory_not_empty'],
  },
  setFileAttributes: {
    method: 'PATCH',
    path: '/v1/sandboxes/{id}/files',
    action: 'sandbox.use',
    summary: 'Change owner, group and mode of a file',
    description:
      'Owner and group first, which clears the set-id bits as Linux does, then the mode; when the mode cannot be set, ' +
      `the owner may have changed. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.fileAttributesBody),
    response: json(schemas.fileEntry),
    status: 200,
    errors: CHANGE,
  },
  statFile: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/files/stat',
    action: 'sandbox.use',
    summary: 'What a path is',
    description: `${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.statFileQuery,
    body: noBody,
    response: json(schemas.fileEntry),
    status: 200,
    errors: FILE,
  },
  listFiles: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/files/list',
    action: 'sandbox.use',
    summary: 'Stream the entries of a directory, to a depth',
    description:
      'In byte order of their names, each directory before what is in it. Symbolic links are not followed. ' +
      `${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.listFilesQuery,
    body: noBody,
    response: ndjson(schemas.listEvent, ['end', 'error']),
    status: 200,
    errors: FILE,
  },
  makeDirectory: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/files/directories',
    action: 'sandbox.use',
    summary: 'Make a directory',
    description: `${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.makeDirectoryBody),
    response: json(schemas.fileEntry),
    status: 200,
    errors: [...CHANGE, 'file_exists'],
  },
  moveFile: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/files/move',
    action: 'sandbox.use',
    summary: 'Move or rename a file, a link or a directory',
    description: `Atomic, within one file system; of a link itself. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.moveFileBody),
    response: noBody,
    status: 204,
    errors: [...CHANGE, 'file_exists', 'directory_not_empty', 'file_other_device'],
  },
  makeSymlink: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/files/symlinks',
    action: 'sandbox.use',
    summary: 'Make a symbolic link',
    description: `${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.makeSymlinkBody),
    response: json(schemas.fileEntry),
    status: 200,
    errors: [...CHANGE, 'file_exists'],
  },
  listXattrs: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/files/xattrs',
    action: 'sandbox.use',
    summary: 'The names of the extended attributes of a file',
    description: `Those that the user may see, in byte order. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.statFileQuery,
    body: noBody,
    response: json(schemas.xattrList),
    status: 200,
    errors: [...FILE, 'file_unsupported'],
  },
  getXattr: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/files/xattr',
    action: 'sandbox.use',
    summary: 'The value of an extended attribute',
    description: `${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.xattrQuery,
    body: noBody,
    response: json(schemas.xattrValue),
    status: 200,
    errors: [...FILE, 'file_unsupported', 'attribute_not_found'],
  },
  setXattr: {
    method: 'PUT',
    path: '/v1/sandboxes/{id}/files/xattr',
    action: 'sandbox.use',
    summary: 'Set an extended attribute',
    description: `Of the namespace \`user\` with the rights of the user to the file; of others, as root. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.setXattrBody),
    response: noBody,
    status: 204,
    errors: CHANGE,
  },
  removeXattr: {
    method: 'DELETE',
    path: '/v1/sandboxes/{id}/files/xattr',
    action: 'sandbox.use',
    summary: 'Remove an extended attribute',
    description: `${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.xattrQuery,
    body: noBody,
    response: noBody,
    status: 204,
    errors: [...CHANGE, 'attribute_not_found'],
  },
  watchFiles: {
    method: 'GET',
    path: '/v1/sandboxes/{id}/files/watch',
    action: 'sandbox.use',
    summary: 'Stream the changes below a directory',
    description:
      'From `ready` on, with paths relative to the directory. It ends only with `error`: that of the life when the ' +
      'sandbox is paused or rewound, `file_not_found` when the directory is gone. Directories that the user may not ' +
      'read are not watched. What is found in a new directory may be told twice. A file that this API writes is ' +
      `moved into its place. ${PATHS}${WAKES}`,
    params: schemas.sandboxParams,
    query: schemas.watchFilesQuery,
    body: noBody,
    response: ndjson(schemas.watchEvent, ['error']),
    status: 200,
    errors: [...FILE, 'file_unsupported'],
  },
} as const satisfies Readonly<Record<string, Route>>;
