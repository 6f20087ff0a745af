/** One request on its way into a sandbox: whom it is for, as whom it acts there, and when nobody waits for it any longer. */
import { Code, ConnectError, createContextKey, type HandlerContext } from '@connectrpc/connect';
import type { Caller, UseCases } from '@space/contract';
import type { SandboxId } from '@space/core';

/** Whom a request is for, as the front door has found it. The request has shown that it may reach into that sandbox. */
export interface EnvdTarget {
  /** The authority that the request has; its signal aborts when the client has gone, or the server closes. */
  readonly caller: Caller;
  readonly sandboxId: SandboxId;
  /** As the SDKs write it. */
  readonly e2bSandboxId: string;
  readonly template: string;
  /** Who programs run as where a request names nobody. */
  readonly defaultUser: string;
  /** Where programs run that say nothing of it; null: in their user's home. */
  readonly defaultCwd: string | null;
  /** The environment that the sandbox was made with. */
  readonly env: Readonly<Record<string, string>>;
}

export interface EnvdCall {
  readonly useCases: UseCases;
  readonly target: EnvdTarget;
  readonly sandboxId: SandboxId;
  /** For use-cases: its signal aborts when the request has ended, for whatever reason. */
  readonly caller: Caller;
  /** A user of the sandbox; who that is, only the sandbox knows. */
  readonly user: string;
  /** Breaks the connection off, so that the client looks whether the sandbox still lives. */
  reset(): void;
}

export const CALL = createContextKey<EnvdCall | undefined>(undefined);

export function callOf({ values }: Pick<HandlerContext, 'values'>): EnvdCall {
  const call = values.get(CALL);
  if (call === undefined) throw new Error('a request reached a service without its call');
  return call;
}

/** The same call, which also ends at the deadline that the client has set. */
export function withDeadline(call: EnvdCall, { signal }: Pick<HandlerContext, 'signal'>): EnvdCall {
  return { ...call, caller: { ...call.caller, signal: AbortSignal.any([call.caller.signal, signal]) } };
}

const USER = /^([a-z_][a-z0-9_-]{0,31}|0|[1-9][0-9]{0,8})$/;

/** The user that the request names, where it names one. */
export function namedUser(authorization: string | undefined): string | undefined {
  const [scheme, credentials] = authorization?.split(' ') ?? [];
  if (scheme?.toLowerCase() !== 'basic' || credentials === undefined) return undefined;
  return Buffer.from(credentials, 'base64').toString('utf8').split(':', 1)[0] || undefined;
}

/** Throws for what cannot be the name of a user. */
export function checkUser(user: string): string {
  if (!USER.test(user)) throw invalidUser(user);
  return user;
}

export function invalidUser(user: string): ConnectError {
  return new ConnectError(`invalid username: '${user.slice(0, 64)}'`, Code.Unauthenticated);
}
