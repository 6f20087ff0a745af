import { OPERATIONS, type SandboxStatus, SETTLED_STATES, statusOf } from '@space/core';
import type { ExpressionBuilder } from 'kysely';
import type { Tables } from './schema.ts';

/** A status is what `statusOf` says of a state: the states that have it are found by asking it of each. */
export function hasStatus(eb: ExpressionBuilder<Tables, 'sandboxes'>, status: SandboxStatus) {
  const states = SETTLED_STATES.flatMap((settled) =>
    [...OPERATIONS, null].map((operation) => ({ settled, operation })),
  ).filter((state) => statusOf(state) === status);
  return eb.or(
    states.map(({ settled, operation }) =>
      eb.and([
        eb('settled', '=', settled),
        operation === null ? eb('operation', 'is', null) : eb('operation', '=', operation),
      ]),
    ),
  );
}
