/**
 * What went wrong with PostgreSQL, in the catalogue's words: trouble with the connection or the server is `unavailable`
 * (the outcome of that call is unknown); a name that is in use is `name_taken`; anything else is a bug.
 */
import { AppError } from '@space/core';

/** SQLSTATE classes: connection, insufficient resources (disk full, too many connections), operator intervention. */
const UNAVAILABLE_CLASSES = ['08', '53', '57'];
/** A transaction that lost to another one: lock_not_available, serialization_failure, deadlock_detected. */
const UNAVAILABLE_STATES = ['55P03', '40001', '40P01'];
const UNIQUE_VIOLATION = '23505';
const NODE_ERRORS = /^E(CONNREFUSED|CONNRESET|PIPE|NOENT|ACCES|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN)$|^ENOTFOUND$/;
/** What `pg` says without a code. */
const PG_MESSAGES =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|not queryable|Query read timeout|connection is closed|Cannot use a pool after calling end/i;

interface DatabaseError {
  readonly code?: unknown;
  readonly constraint?: unknown;
  readonly detail?: unknown;
  readonly message: string;
}

export async function translated<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    throw translate(thrown);
  }
}

export function translate(thrown: unknown): Error {
  if (thrown instanceof AppError) return thrown;
  if (!(thrown instanceof Error)) return new AppError('internal', String(thrown), { cause: thrown });
  const { code, message, constraint, detail } = thrown as DatabaseError;
  if (isUnavailable(code, message)) {
    return new AppError('unavailable', 'The database does not answer.', { cause: thrown });
  }
  if (code === UNIQUE_VIOLATION && typeof constraint === 'string' && constraint.endsWith('_name_unique')) {
    const name = nameIn(detail);
    const facts = name === undefined ? {} : { name };
    return new AppError(
      'name_taken',
      { detail: `The name${name === undefined ? '' : ` "${name}"`} is in use.`, facts },
      { cause: thrown },
    );
  }
  return thrown;
}

/** From PostgreSQL's own words: `Key (project_id, name)=(prj_…, web) already exists.` No name has a parenthesis. */
function nameIn(detail: unknown): string | undefined {
  return typeof detail === 'string' ? /=\((?:[^()]*, )?([^(),]+)\) already exists/.exec(detail)?.[1] : undefined;
}

function isUnavailable(code: unknown, message: string): boolean {
  if (typeof code !== 'string') return PG_MESSAGES.test(message);
  if (NODE_ERRORS.test(code) || UNAVAILABLE_STATES.includes(code)) return true;
  return /^[0-9A-Z]{5}$/.test(code) && UNAVAILABLE_CLASSES.includes(code.slice(0, 2));
}
