/** The routes of archives. */
import { OPERATION, START, VM } from './error-groups.ts';
import { json, nothing, type Route } from './route.ts';
import * as schemas from './schemas/index.ts';

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
    errors: [
      ...OPERATION,
      'archive_unavailable',
      'snapshot_bad',
      'snapshot_failed',
      'limit_reached',
      'insufficient_space',
      ...VM,
      'timed_out',
    ],
  },
  importSandbox: {
    method: 'POST',
    path: '/v1/sandboxes/import',
    action: 'archive.import',
    async: true,
    summary: 'Make a sandbox from an archive',
    description:
      'Answers when it runs. It is a copy: it has a new id, an identity of its own, and nothing that was granted to the sandbox ' +
      'that it came from. Every piece is checked against the digests that hang on the name of the archive. An archive of ' +
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
      'name_taken',
      'superseded',
      'link_lost',
      ...VM,
      ...START,
    ],
  },
} as const satisfies Record<string, Route>;
