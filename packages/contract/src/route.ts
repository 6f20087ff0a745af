/** What a route of the contract is made of, and the types that follow from it. */
import type { Action, ErrorCode } from '@space/core';
import { z } from 'zod';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A JSON body may be left out when every field of it may. */
export type RequestBody<S extends z.ZodType = z.ZodType> =
  | { readonly kind: 'none' }
  | { readonly kind: 'json'; readonly schema: S }
  /** A stream of bytes, of any length. */
  | { readonly kind: 'bytes' };

export type ResponseBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'json'; readonly schema: z.ZodType }
  | { readonly kind: 'bytes' }
  | { readonly kind: 'text'; readonly contentType: string }
  /** The connection itself, given over to another protocol. */
  | { readonly kind: 'upgrade'; readonly protocol: string }
  /** One event per line; an empty line is a sign of life. The stream never ends without one of the `last` events. */
  | { readonly kind: 'ndjson'; readonly event: z.ZodType; readonly last: readonly string[] };

/** Every route says who may call it: anybody, or who may do its action. One that says neither does not compile. */
export type Route = RouteFields & RouteAccess;

type RouteAccess =
  /** Without a key. */
  { readonly open: true; readonly action?: never } | { readonly open?: never; readonly action: Action };

interface RouteFields {
  readonly method: Method;
  /** With parameters as `{id}`. */
  readonly path: string;
  readonly summary: string;
  readonly description?: string;
  readonly params: z.ZodType;
  readonly query: z.ZodType;
  readonly body: RequestBody;
  readonly response: ResponseBody;
  readonly status: number;
  /** Whether it begins an operation, and can be answered with that (202) before it has ended. */
  readonly async?: true;
  /** A second status that carries the same response, e.g. 503 of a server that is not ready. */
  readonly otherStatus?: number;
  /** Beside those that any route can answer (`COMMON_ERRORS`). */
  readonly errors: readonly ErrorCode[];
}

/** Params, query and JSON body of a route as one parsed object; their fields never share a name. */
export type RouteInput<R extends Route> = Fields<z.output<R['params']>> &
  Fields<z.output<R['query']>> &
  (R['body'] extends { readonly kind: 'json'; readonly schema: infer S extends z.ZodType }
    ? Fields<z.output<S>>
    : unknown);

/** What a client sends: defaults may be left out. */
export type RouteRequest<R extends Route> = Fields<z.input<R['params']>> &
  Fields<z.input<R['query']>> &
  (R['body'] extends { readonly kind: 'json'; readonly schema: infer S extends z.ZodType }
    ? Fields<z.input<S>>
    : unknown);

/** An empty strict object forbids every field; as a part of a larger one it just adds none. */
type Fields<T> = string extends keyof T ? unknown : T;

export const nothing = z.strictObject({});
export const noBody = { kind: 'none' } as const;
export const text = (contentType: string) => ({ kind: 'text', contentType }) as const;
export const bytes = { kind: 'bytes' } as const;
export const json = <S extends z.ZodType>(schema: S) => ({ kind: 'json', schema }) as const;
export const ndjson = <S extends z.ZodType>(event: S, last: readonly string[]) =>
  ({ kind: 'ndjson', event, last }) as const;

/** Calls that change something can be made safe to repeat. An upload is so by itself. */
export function takesIdempotencyKey({ method, body, action }: Route): boolean {
  return method !== 'GET' && body.kind !== 'bytes' && action !== undefined;
}
