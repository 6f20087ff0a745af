/**
 * The catalogue of errors. Each code has one meaning, one HTTP status, one retry advice and one next step; an error is
 * thrown as `new AppError(code, context, { cause })` and reaches the user as RFC 9457 problem details. What is not in
 * this table is a bug and is reported as `internal`.
 */

/** `never`: the same call fails again. `later`: nothing was done; wait and repeat. `safe`: repeat at once. */
export type RetryAdvice = 'never' | 'later' | 'safe';

interface ErrorKind {
  readonly status: number;
  readonly retry: RetryAdvice;
  readonly title: string;
  readonly nextStep: string;
}

export const ERRORS = {
  bad_request: {
    status: 400,
    retry: 'never',
    title: 'The request is not valid',
    nextStep: 'Correct the field that the message names.',
  },
  unauthenticated: {
    status: 401,
    retry: 'never',
    title: 'No valid API key was given',
    nextStep:
      'Send "Authorization: Bearer <key>". The key was printed at the first start; "npm start -- --new-key" makes another.',
  },
  forbidden: {
    status: 403,
    retry: 'never',
    title: 'The key may not do that',
    nextStep: 'Use a key whose roles include it; an admin of the organisation can make one.',
  },
  too_many_attempts: {
    status: 429,
    retry: 'later',
    title: 'Too many attempts with keys that are not valid came from this address',
    nextStep: 'Correct the key, and wait a minute.',
  },
  not_found: {
    status: 404,
    retry: 'never',
    title: 'There is nothing by that name',
    nextStep: 'List what exists and check the id.',
  },
  template_unknown: {
    status: 400,
    retry: 'never',
    title: 'There is no such template',
    nextStep: 'GET /v1/templates lists the templates.',
  },
  size_impossible: {
    status: 400,
    retry: 'never',
    title: 'That size cannot be had here',
    nextStep: 'GET /v1/capabilities states the limits.',
  },
  wrong_state: {
    status: 409,
    retry: 'never',
    title: 'The sandbox is in a state that does not allow this',
    nextStep: 'Get the sandbox, look at its status, and resume or delete it.',
  },
  operation_in_progress: {
    status: 409,
    retry: 'later',
    title: 'Another operation on this sandbox is in progress',
    nextStep: 'Repeat the call in a moment.',
  },
  superseded: {
    status: 409,
    retry: 'never',
    title: 'A later operation took the place of this one',
    nextStep: 'Get the sandbox to see its present status.',
  },
  name_taken: {
    status: 409,
    retry: 'never',
    title: 'That name is in use',
    nextStep: 'Choose another name, or delete what holds it.',
  },
  last_admin: {
    status: 409,
    retry: 'never',
    title: 'It is the last key of an admin of the organisation',
    nextStep: 'Make another admin key first.',
  },
  project_not_empty: {
    status: 409,
    retry: 'never',
    title: 'The project holds sandboxes or snapshots',
    nextStep: 'Delete them first, or delete the project with force=true, which deletes them too.',
  },
  last_project: {
    status: 409,
    retry: 'never',
    title: 'It is the only project of the organisation',
    nextStep: 'Create another project first.',
  },
  idempotency_conflict: {
    status: 409,
    retry: 'never',
    title: 'The idempotency key was used for another call',
    nextStep: 'Use a new key for each call; repeat a call with its own key and the same input.',
  },
  already_started: {
    status: 409,
    retry: 'never',
    title: 'The command was started before, by the same call, and is not known any more',
    nextStep: 'It is not started again: a rewind took it away, or it ended long ago. Use a new key to start it anew.',
  },
  snapshot_in_use: {
    status: 409,
    retry: 'never',
    title: 'The snapshot is needed by its sandbox',
    nextStep: 'Resume or delete the sandbox first.',
  },
  snapshot_bad: {
    status: 409,
    retry: 'never',
    title: 'The snapshot failed its verification',
    nextStep: 'Use another snapshot; the message says what does not match.',
  },
  record_bad: {
    status: 409,
    retry: 'never',
    title: 'What the vault says of the sandbox cannot be read',
    nextStep:
      'Fork its latest snapshot, and delete it; or mend the file that the message names, and start the platform again.',
  },
  snapshot_unfit: {
    status: 409,
    retry: 'never',
    title: 'The snapshot needs something that this node does not have',
    nextStep: 'The message names what is missing; provide it.',
  },
  archive_damaged: {
    status: 409,
    retry: 'never',
    title: 'The archive is not what was exported',
    nextStep: 'Nothing of it was kept. Import another archive of the sandbox; the message says what does not match.',
  },
  archive_unsupported: {
    status: 409,
    retry: 'never',
    title: 'The archive has a format that this version does not know',
    nextStep: 'Import it with the version that made it, or a later one.',
  },
  archive_unavailable: {
    status: 503,
    retry: 'later',
    title: 'The storage of archives does not do what it was asked',
    nextStep: 'The message says what failed. Once that is mended, repeat the call: it goes on where it was.',
  },
  move_taken: {
    status: 409,
    retry: 'never',
    title: 'The move was taken up elsewhere, or undone',
    nextStep: 'The sandbox lives where that was done. Import the archive as a copy to have another one here.',
  },
  events_lost: {
    status: 410,
    retry: 'never',
    title: 'Events after that cursor are no longer kept',
    nextStep: 'Start without a cursor, and list what there is now.',
  },
  limit_reached: {
    status: 409,
    retry: 'later',
    title: 'A limit is reached',
    nextStep:
      'Pause or delete what is not needed; who runs the installation can raise limits of the organisation. GET /v1/limits ' +
      'shows them.',
  },
  insufficient_memory: {
    status: 503,
    retry: 'later',
    title: 'Not enough memory is free on the node',
    nextStep: 'Pause or delete other sandboxes, or ask for a smaller size.',
  },
  over_budget: {
    status: 503,
    retry: 'later',
    title: 'The snapshot would have held the sandbox up for longer than its budget',
    nextStep: 'It is tried again by itself, less often; a larger budget or a quieter host lets it succeed.',
  },
  insufficient_space: {
    status: 507,
    retry: 'later',
    title: 'Not enough space is free in the vault',
    nextStep: 'Delete snapshots or sandboxes, or enlarge the vault.',
  },
  out_of_space: {
    status: 507,
    retry: 'later',
    title: 'The sandbox stands still: its vault has no room for what it writes',
    nextStep: 'Delete snapshots or sandboxes, or enlarge the vault: it then goes on by itself, or at once by a resume.',
  },
  vm_lost: {
    status: 502,
    retry: 'later',
    title: 'The microVM ended unexpectedly',
    nextStep: 'Resume the sandbox: it goes on from its last point.',
  },
  vm_unresponsive: {
    status: 503,
    retry: 'later',
    title: 'The microVM does not answer, though its process is there',
    nextStep:
      'Repeat the call in a while; the host may be overloaded, or have stopped the process. Delete always works.',
  },
  agent_lost: {
    status: 502,
    retry: 'later',
    title: 'The agent in the sandbox does not answer',
    nextStep:
      'Repeat the call. If it never answers, root in the sandbox has shut it out: rewind the sandbox to an earlier snapshot ' +
      'with keepPresent: false, or delete it.',
  },
  link_lost: {
    status: 502,
    retry: 'safe',
    title: 'The connection to the sandbox was interrupted',
    nextStep:
      'Repeat the call. A command that was started runs on; attach to it by its process id. If it stays so, root in the ' +
      'sandbox has shut its agent out: rewind the sandbox to an earlier snapshot with keepPresent: false, or delete it.',
  },
  restore_failed: {
    status: 500,
    retry: 'later',
    title: 'The sandbox could not be brought back from its snapshot',
    nextStep: 'Nothing was lost. Repeat the call, or use another snapshot.',
  },
  boot_failed: {
    status: 500,
    retry: 'later',
    title: 'The template did not boot',
    nextStep: 'The message holds the end of its console. Run set-up again if the image is damaged.',
  },
  snapshot_failed: {
    status: 500,
    retry: 'later',
    title: 'The snapshot was not taken; the sandbox runs on',
    nextStep:
      'Repeat the call. If its processes cannot be made to stand still, end them; if its agent does not answer, rewind the ' +
      'sandbox to an earlier snapshot with keepPresent: false, or delete it.',
  },
  file_not_found: {
    status: 404,
    retry: 'never',
    title: 'There is no such file in the sandbox',
    nextStep: 'Check the path; a relative one starts at the home of the user.',
  },
  file_denied: {
    status: 403,
    retry: 'never',
    title: 'The user in the sandbox may not do that with this file',
    nextStep: 'Act as another user, e.g. "root", or change the permissions.',
  },
  file_wrong_type: {
    status: 409,
    retry: 'never',
    title: 'The path is not of the kind that this call needs',
    nextStep: 'Stat the path to see what it is.',
  },
  file_exists: {
    status: 409,
    retry: 'never',
    title: 'There is something by that name in the sandbox already',
    nextStep: 'Choose another name, allow it to be replaced, or remove it first.',
  },
  directory_not_empty: {
    status: 409,
    retry: 'never',
    title: 'The directory is not empty',
    nextStep: 'Remove it with `recursive`, or empty it first.',
  },
  file_read_only: {
    status: 409,
    retry: 'never',
    title: 'The file system there is read-only',
    nextStep: 'Write to another place, or mount it for writing as root of the sandbox.',
  },
  file_busy: {
    status: 409,
    retry: 'later',
    title: 'The file is in use in the sandbox',
    nextStep: 'End the program that runs from it, or unmount it, and repeat the call.',
  },
  file_symlink_loop: {
    status: 409,
    retry: 'never',
    title: 'The symbolic links of the path lead in a circle',
    nextStep: 'Stat the parts of the path without following links, and correct the one that is wrong.',
  },
  file_other_device: {
    status: 409,
    retry: 'never',
    title: 'The two paths are on different file systems',
    nextStep: 'Copy it with a command, e.g. "mv"; that is not atomic.',
  },
  file_unsupported: {
    status: 409,
    retry: 'never',
    title: 'The file system there cannot do that',
    nextStep: 'The message names what it lacks; use another place.',
  },
  attribute_not_found: {
    status: 404,
    retry: 'never',
    title: 'The file has no such extended attribute',
    nextStep: 'List the attributes of the file; a name includes its namespace, as in "user.note".',
  },
  digest_mismatch: {
    status: 400,
    retry: 'safe',
    title: 'The body is not what its digest says',
    nextStep: 'Nothing was changed. Send the whole body again, with its own SHA-256.',
  },
  guest_exhausted: {
    status: 503,
    retry: 'later',
    title: 'The sandbox has run out of memory, descriptors or another resource',
    nextStep: 'End programs or watches in the sandbox, then repeat the call; the message says what is missing.',
  },
  guest_full: {
    status: 507,
    retry: 'never',
    title: 'The disk of the sandbox is full',
    nextStep: 'Delete files in the sandbox.',
  },
  command_not_started: {
    status: 400,
    retry: 'never',
    title: 'The command could not be started',
    nextStep: 'Check the command, its directory and its user; the message says which is wrong.',
  },
  input_closed: {
    status: 409,
    retry: 'never',
    title: 'The process takes no input',
    nextStep: 'Start it with `stdin` or `pty`; one that has closed its input, or ended, takes no more.',
  },
  port_refused: {
    status: 502,
    retry: 'later',
    title: 'Nothing listens on that port in the sandbox',
    nextStep: 'Start the server in the sandbox, on 127.0.0.1, ::1 or all addresses, and repeat the call.',
  },
  port_broken: {
    status: 502,
    retry: 'later',
    title: 'What listens on that port did not answer as it should',
    nextStep: 'Look at the output of the server in the sandbox; what is not HTTP is reached by a forwarded port.',
  },
  port_busy: {
    status: 503,
    retry: 'later',
    title: 'Too many connections to the ports of the sandbox are open',
    nextStep: 'Close connections that are not needed, then repeat the call.',
  },
  payload_too_large: {
    status: 413,
    retry: 'never',
    title: 'The request body is too large',
    nextStep: 'Files go through PUT /v1/sandboxes/{id}/files, which has no limit.',
  },
  timed_out: {
    status: 504,
    retry: 'later',
    title: 'It took too long',
    nextStep: 'Look at the state of the sandbox, then repeat the call.',
  },
  unavailable: {
    status: 503,
    retry: 'later',
    title: 'The platform is not ready',
    nextStep: 'Repeat the call in a few seconds; GET /readyz says what is missing.',
  },
  egress_refused: {
    status: 403,
    retry: 'never',
    title: 'The sandbox may not reach that',
    nextStep: 'The message names the rule and whom to ask; `network` of the sandbox says what it may reach.',
  },
  egress_failed: {
    status: 502,
    retry: 'later',
    title: 'What the sandbox may reach did not answer as it should',
    nextStep: 'The message says what failed: its name, its address, its certificate, or the connection.',
  },
  approval_pending: {
    status: 503,
    retry: 'later',
    title: 'A reviewer has to approve that request first, and none has decided yet',
    nextStep: 'Nothing was sent. Send the same request again: it goes through once it is approved.',
  },
  approval_denied: {
    status: 403,
    retry: 'never',
    title: 'A reviewer has to approve that request, and it was not approved',
    nextStep: 'Nothing was sent. Do without it, or ask a reviewer of the organisation.',
  },
  approval_ended: {
    status: 409,
    retry: 'never',
    title: 'The approval does not wait for a decision any more',
    nextStep: 'Get it (GET /v1/approvals/{id}); its state says what became of it.',
  },
  secret_unavailable: {
    status: 503,
    retry: 'later',
    title: 'The secret for that request cannot be had now',
    nextStep: 'Repeat the request in a few seconds; whoever holds the keys of the organisation can look at the source.',
  },
  secret_not_granted: {
    status: 403,
    retry: 'never',
    title: 'The project may not use that secret binding',
    nextStep: 'GET /v1/secret-bindings lists those that it may use; an admin or a key holder can grant it.',
  },
  network_too_wide: {
    status: 403,
    retry: 'never',
    title: 'The organisation does not allow that much network',
    nextStep: 'Ask for less, or have an admin change the constraints of the organisation (GET /v1/network).',
  },
  vault_closed: {
    status: 503,
    retry: 'later',
    title: 'The vault is closed',
    nextStep: 'Repeat the call: what needs the vault opens it; the message says why it is closed.',
  },
  vault_revoked: {
    status: 403,
    retry: 'never',
    title: 'The key of the vault is revoked, so nothing in it can be read',
    nextStep:
      'Nothing was destroyed. A key holder of the organisation can reinstate the vault (or enable its key where that is ' +
      'kept); everything is back then.',
  },
  vault_key_wrong: {
    status: 409,
    retry: 'never',
    title: 'The key does not fit the vault',
    nextStep: 'Give the vault the key that it was made with, or the record of it from a backup of the database.',
  },
  vault_damaged: {
    status: 409,
    retry: 'never',
    title: 'The container of the vault is damaged',
    nextStep: 'The message says what cannot be read; a copy of its header is kept beside it.',
  },
  vault_in_use: {
    status: 409,
    retry: 'never',
    title: 'The vault holds something that is in use',
    nextStep: 'Pause, move or delete what the message names, and repeat the call.',
  },
  vault_busy: {
    status: 409,
    retry: 'later',
    title: 'The vault is open elsewhere',
    nextStep: 'Close it there first; two nodes never open one vault.',
  },
  kms_unavailable: {
    status: 503,
    retry: 'later',
    title: 'The KMS that keeps the key of the vault does not answer',
    nextStep: 'Repeat the call in a while. Nothing is revoked: what runs goes on, and nothing is destroyed.',
  },
  kms_refused: {
    status: 403,
    retry: 'never',
    title: 'The KMS does not let the key of the vault be used',
    nextStep: 'Where the key is kept, enable it and allow the platform to use it; the message says what was refused.',
  },
  node_unavailable: {
    status: 503,
    retry: 'later',
    title: 'The node that runs the sandbox does not answer',
    nextStep: 'Repeat the call in a few seconds; sandboxes run on meanwhile. GET /readyz says when the node is back.',
  },
  internal: {
    status: 500,
    retry: 'later',
    title: 'Something went wrong inside the platform',
    nextStep: 'Repeat the call; if it fails again, report it with the time and the request id.',
  },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERRORS;

/** What says that a vault is not open, and cannot be opened now: nothing was done then. */
export const SHUT_CODES = [
  'vault_closed',
  'vault_revoked',
  'vault_busy',
  'vault_key_wrong',
  'vault_damaged',
  'kms_unavailable',
  'kms_refused',
] as const satisfies readonly ErrorCode[];

export interface AppErrorContext {
  /** What went wrong this time, one sentence with the values that matter. */
  readonly detail: string;
  /** Machine-readable extras, shown to the user; never tenant content or secrets. */
  readonly facts?: Readonly<Record<string, string | number | boolean>>;
}

export class AppError extends Error {
  override readonly name = 'AppError';
  readonly code: ErrorCode;
  readonly facts: Readonly<Record<string, string | number | boolean>>;

  constructor(code: ErrorCode, context: AppErrorContext | string, options?: ErrorOptions) {
    super(typeof context === 'string' ? context : context.detail, options);
    this.code = code;
    this.facts = typeof context === 'string' ? {} : (context.facts ?? {});
  }

  get kind(): ErrorKind {
    return ERRORS[this.code];
  }
}

/** Any thrown value as an `AppError`: itself, or `internal` with the cause chained. */
export function asAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  return new AppError('internal', thrown instanceof Error ? thrown.message : String(thrown), { cause: thrown });
}

/** A case that the types rule out. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
