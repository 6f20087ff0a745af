/** The routes of archives. */
import { OPERATION, START, VM } from './error-groups.ts';
import { json, ndjson, noBody, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

const EXPORT_ERRORS = [
  ...OPERATION,
  'archive_unavailable',
  'snapshot_bad',
  'snapshot_failed',
  'limit_reached',
  'insufficient_space',
  ...VM,
  'timed_out',
] as const;

export const ARCHIVE_ROUTES = {
  exportSandbox: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/export',
    action: 'archive.export',
    summary: 'Bring a sandbox into an archive: its present, one of its snapshots, or its timeline',
    description:
      'Answers when all of it is durable. The sandbox goes on meanwhile, and may be paused or rewound; the snapshots that are ' +
      'being read cannot be deleted. An export that broke off is done again, and sends what is missing. The archive outlives ' +
      'the sandbox. It holds disk, memory and device state, and neither environment nor labels nor grants.',
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.exportBody),
    response: json(schemas.exported),
    status: 200,
    errors: EXPORT_ERRORS,
  },
  followExport: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/export/events',
    action: 'archive.export',
    summary: 'The same as export, with its progress while it lasts',
    description:
      'Ends with `exported`, or with `error`; a stream that ends otherwise was cut. Closing the connection gives the export up: what ' +
      'it has sent and no archive names is removed later.',
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.exportBody),
    response: ndjson(schemas.exportEvent, ['exported', 'error']),
    status: 200,
    errors: EXPORT_ERRORS,
  },
  moveSandbox: {
    method: 'POST',
    path: '/v1/sandboxes/{id}/move',
    action: 'archive.export',
    async: true,
    summary: 'Hand a sandbox over, to be taken up by another installation, or here again',
    description:
      'Exports it while it runs, pauses it, exports what has changed since, and marks it `moved`: it never runs here again, ' +
      'unless the move is undone. Only then can an import `as: move` take the archive up, which one installation can do; or this one ' +
      'undoes it. Repeated, the call tells the archive that there is. When it fails, the sandbox is paused as before; where its ' +
      'storage fails at the last step, it may stay `moved`, and the call can be repeated, or the move undone, once that is back. Its ' +
      'shares and schedules do not go along; of its secret bindings the names do, and the placeholders that its programs hold. There is no way to take up a sandbox whose host is dead but a copy of its last archive.',
    params: schemas.sandboxParams,
    query: nothing,
    body: json(schemas.moveBody),
    response: json(schemas.exported),
    status: 200,
    errors: [...EXPORT_ERRORS, 'move_taken'],
  },
  undoMove: {
    method: 'DELETE',
    path: '/v1/sandboxes/{id}/move',
    action: 'archive.import',
    summary: 'Undo the move of a sandbox that nobody has taken up: it is paused here, as it left',
    description:
      'Takes the move up for this installation, in the storage of archives, so that nobody else can; `move_taken` when somebody has.',
    params: schemas.sandboxParams,
    query: nothing,
    body: noBody,
    response: json(schemas.sandbox),
    status: 200,
    errors: [...OPERATION, 'archive_unavailable', 'archive_damaged', 'move_taken'],
  },
  listArchives: {
    method: 'GET',
    path: '/v1/archives',
    action: 'archive.read',
    summary: 'List the archives of the project in a place, newest first',
    description: 'At most 1000: where there are more, ask for those of one sandbox.',
    params: nothing,
    query: schemas.archivesQuery,
    body: noBody,
    response: json(schemas.archiveList),
    status: 200,
    errors: ['not_found', 'wrong_state', 'archive_unavailable'],
  },
  deleteArchive: {
    method: 'DELETE',
    path: '/v1/archives',
    action: 'archive.delete',
    summary: 'Delete an archive of the project',
    description:
      'It cannot be imported any more. What no other archive holds is removed from the storage after that, once nobody exports to ' +
      'or imports from it. The claim of a move stays.',
    params: nothing,
    query: schemas.archiveQuery,
    body: noBody,
    response: noBody,
    status: 204,
    errors: ['not_found', 'wrong_state', 'archive_unavailable'],
  },
  importSandbox: {
    method: 'POST',
    path: '/v1/sandboxes/import',
    action: 'archive.import',
    async: true,
    summary: 'Make a sandbox from an archive',
    description:
      'Answers when it runs. A copy has a new id, an identity of its own, and nothing that was granted to the sandbox ' +
      'that it came from. With `as: move` it is the sandbox itself, as it was handed over by a move: same id, hostname and generation, ' +
      'name (unless one is given), environment, labels, and those of its secret bindings that its project is granted here (`missingSecrets`: the others); that can be had by one installation. Every piece is checked against the digests that hang on the name of the archive. An archive of ' +
      'another project can be imported by an admin of who runs the installation. When its memory needs another VMM build or ' +
      'machine than this one, that is `snapshot_unfit`, and `boot` takes its disk alone.',
    params: nothing,
    query: nothing,
    body: json(schemas.importBody),
    response: json(schemas.sandbox),
    status: 201,
    errors: [
      'not_found',
      'archive_damaged',
      'archive_unsupported',
      'archive_unavailable',
      'size_impossible',
      'wrong_state',
      'operation_in_progress',
      'move_taken',
      'name_taken',
      'superseded',
      'link_lost',
      ...VM,
      ...START,
    ],
  },
} as const satisfies Record<string, Route>;
