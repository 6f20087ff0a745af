/**
 * The contract: which calls exist, what they take and answer, and how errors look. Declared once, as zod schemas in a
 * route table; the server, the OpenAPI document and the clients' types follow from it. Every object is strict: a field
 * or query parameter that is not declared is refused, so that what is accepted is honoured.
 */
export * from './guest-bytes.ts';
export * from './limits.ts';
export * from './openapi.ts';
export * from './problem.ts';
export * from './problem-codes.ts';
export { type Method, type RequestBody, type ResponseBody, type Route, takesIdempotencyKey } from './route.ts';
export * from './routes.ts';
export { SHELL_ARGV } from './schemas/exec.ts';
export * as schemas from './schemas/index.ts';
export * from './signals.ts';
export * from './types.ts';
export * from './use-cases.ts';
