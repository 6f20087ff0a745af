/** Who calls: the one place where a request gets its principal. */
import type { IncomingHttpHeaders } from 'node:http';
import { PROJECT_HEADER_NAME } from '@space/contract';
import { AppError, type Principal, type ProjectId } from '@space/core';
import type { FailedAttempts } from './failed-attempts.ts';

export interface Identity {
  readonly principal: Principal;
  /** The project that the request means. */
  readonly projectId: ProjectId;
}

/**
 * The holder of a key, or null when there is no such key. `project` is what the request names (an id or a name); throws
 * `not_found` when the key does not reach it.
 */
export type Authenticate = (token: string, project?: string) => Identity | null | Promise<Identity | null>;

/** An id or a name, and nothing else. */
const PROJECT = /^[a-z][a-z0-9_-]{0,62}$/;

const BEARER = /^Bearer ([\x21-\x7e]{1,512})$/i;

/** A key as a request has it. */
export interface Credentials {
  /** Undefined: none that could be one. */
  readonly token: string | undefined;
  /** What to say then. */
  readonly lacking: string;
  readonly project: string | undefined;
}

export function bearerCredentials(headers: IncomingHttpHeaders): Credentials {
  const { authorization } = headers;
  return {
    token: BEARER.exec(authorization ?? '')?.[1],
    lacking:
      authorization === undefined
        ? 'The request has no Authorization header.'
        : 'Authorization must be "Bearer <key>".',
    project: projectIn(headers),
  };
}

export async function identify(
  { token, lacking, project }: Credentials,
  address: string,
  authenticate: Authenticate,
  attempts: FailedAttempts,
): Promise<Identity> {
  attempts.check(address, token);
  if (token === undefined) {
    attempts.failed(address);
    throw new AppError('unauthenticated', lacking);
  }
  const identity = await authenticate(token, project);
  if (identity === null) {
    attempts.failed(address);
    throw new AppError('unauthenticated', 'The key is not known.');
  }
  attempts.succeeded(token);
  return identity;
}

export function projectIn(headers: IncomingHttpHeaders): string | undefined {
  const project = headers[PROJECT_HEADER_NAME.toLowerCase()];
  if (project === undefined || (typeof project === 'string' && PROJECT.test(project))) return project;
  throw new AppError('bad_request', `${PROJECT_HEADER_NAME} must be the id or the name of one project.`);
}
