/**
 * `Prefer: respond-async` (RFC 7240): a call that begins an operation is answered with 202 and that operation as soon as it
 * has begun; the operation goes on. What is answered without one, errors included, is answered as without the header.
 */
import { PREFER_HEADER_NAME, type Route, type RouteName } from '@space/contract';
import type { OperationId } from '@space/core';
import type { Answer } from './answers.ts';
import type { Call } from './call.ts';

export function prefersAsync(route: Route, { request }: Call<RouteName>): boolean {
  const header = request.headers[PREFER_HEADER_NAME.toLowerCase()];
  const preferences = typeof header === 'string' ? header.split(',') : (header ?? []);
  return route.async === true && preferences.some((one) => one.trim().toLowerCase() === 'respond-async');
}

export async function answerAsync<N extends RouteName>(
  call: Call<N>,
  answer: (call: Call<N>) => Promise<Answer>,
): Promise<Answer> {
  const begun = Promise.withResolvers<OperationId>();
  const whole = answer({ ...call, caller: { ...call.caller, onOperation: begun.resolve } });
  // Once the operation is answered with, its end is told by the operation alone.
  whole.catch(() => undefined);
  const first = await Promise.race([begun.promise.then((id) => ({ id })), whole.then((answered) => ({ answered }))]);
  if ('answered' in first) return first.answered;
  const body = await call.useCases.getOperation(call.caller, { id: first.id, wait: 0 });
  call.response.setHeader('location', `/v1/operations/${first.id}`);
  call.response.setHeader('preference-applied', 'respond-async');
  return { body, status: 202 };
}
