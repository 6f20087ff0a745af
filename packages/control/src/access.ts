/**
 * How a request reaches one sandbox without an API key: by the token of that sandbox, or by nothing where its ports are public.
 *
 * A token reaches into its sandbox alone, and acts for the key that asked for it last: with the roles that this key has now, in the
 * audit under its name, and no longer than it is good. It is made at first asking, stays the same while that key asks, and goes with
 * the sandbox; another key is given another one, so that whose key was revoked is not let in by who asks next. A fork does not copy it,
 * nor a move take it along.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Caller } from '@space/contract';
import {
  AppError,
  authorise,
  hasVm,
  type PortConnection,
  type SandboxId,
  type SandboxStatus,
  statusOf,
} from '@space/core';
import { type Identity, identityOf } from './api-keys.ts';
import type { RecordedReach } from './face-records.ts';
import type { LifecycleUseCases, Machinery } from './lifecycle-use-cases.ts';
import type { PortUseCases } from './port-use-cases.ts';
import type { RecordedSandbox, SandboxAccess } from './records.ts';
import { digestOf, newSecret } from './secrets.ts';

const PREFIX = 'spacebox_';

/** A sandbox as who comes without an API key finds it. It is told of nothing before it has shown the token. */
export interface Reach {
  readonly status: SandboxStatus;
  /** It does not run, and a use does not begin to. */
  readonly asleep: boolean;
  readonly wakeOnUse: boolean;
  /** It is paused, and boots when it goes on. */
  readonly keptFilesOnly: boolean;
  readonly template: string;
  readonly env: Readonly<Record<string, string>>;
  readonly publicPorts: boolean;
  /** As whom and where what says neither runs; null: as `user`, in the user's home. */
  readonly defaults: { readonly user: string | null; readonly cwd: string | null };
  /** For proofs that are made from it; null: nobody has asked for one. */
  readonly token: string | null;
  /** Whom its token acts for; null: that key is no longer good, or does not reach it. */
  readonly identity: Identity | null;
  /** As a share does, where its ports are public. */
  connectPublic(port: number, signal: AbortSignal): Promise<PortConnection>;
}

export class Access {
  readonly #machinery: Machinery;
  readonly #sandboxes: LifecycleUseCases;
  readonly #portUses: PortUseCases;

  constructor(machinery: Machinery, sandboxes: LifecycleUseCases, portUses: PortUseCases) {
    this.#machinery = machinery;
    this.#sandboxes = sandboxes;
    this.#portUses = portUses;
  }

  /** The token of the sandbox, for the caller's key; one that another key had ends. Throws `forbidden` to who may not use it. */
  async tokenFor(caller: Pick<Caller, 'principal' | 'projectId'>, reference: string): Promise<string> {
    const { principal, projectId } = caller;
    const resource = { kind: 'project', organisationId: principal.organisationId, projectId } as const;
    if (!authorise(principal, 'sandbox.use', resource).allowed) {
      throw new AppError('forbidden', 'The key may not use sandboxes here.');
    }
    const { id } = await this.#sandboxes.find(caller, reference);
    const { driver, ports } = this.#machinery;
    return driver.exclusively(id, async () => {
      const seen = await this.#sandboxes.find(caller, id);
      if (seen.access?.keyId === principal.apiKeyId) return seen.access.token;
      const token = newSecret(PREFIX, ports.chance);
      const access: SandboxAccess = { token, keyId: principal.apiKeyId };
      await ports.records.updateSandbox(id, { access }, new Date(ports.clock.now()));
      return token;
    });
  }

  /** Null: there is none. */
  async reach(id: SandboxId): Promise<Reach | null> {
    const found = await this.#machinery.ports.records.faces.findReach(id);
    if (found === null) return null;
    const { sandbox: seen } = found;
    if (seen.settled === 'deleted' || seen.operation === 'delete') return null;
    const { env, publicPorts, access, builtFrom } = seen;
    return {
      status: statusOf(seen),
      asleep: isAsleep(seen),
      keptFilesOnly: seen.settled === 'paused' && found.headKind === 'disk',
      wakeOnUse: seen.runs.wakeOnUse,
      template: builtFrom?.template ?? seen.template,
      defaults: { user: builtFrom?.user ?? null, cwd: builtFrom?.cwd ?? null },
      env,
      publicPorts,
      token: access?.token ?? null,
      identity: identityIn(found),
      connectPublic: (port, signal) => this.#portUses.connectPublic(id, port, signal),
    };
  }

  /** Whose token it is that `isIt` knows, among those of at most `limit` sandboxes; null: nobody's. */
  async findByToken(isIt: (token: string) => boolean, limit: number): Promise<SandboxId | null> {
    const tokens = await this.#machinery.ports.records.faces.listTokens(limit);
    return tokens.find(({ token }) => isIt(token))?.id ?? null;
  }
}

function identityIn({ sandbox: { projectId }, holder, organisationId }: RecordedReach): Identity | null {
  if (holder === null || organisationId !== holder.key.organisationId) return null;
  const { key } = holder;
  return key.projectId === null || key.projectId === projectId ? identityOf(holder, projectId) : null;
}

/** One that crashed waits for a resume, too: what was in its memory is lost, which no mere use accepts. */
function isAsleep({ settled, operation, runs }: RecordedSandbox): boolean {
  if (hasVm(settled) || operation === 'create' || operation === 'resume') return false;
  return settled !== 'paused' || !runs.wakeOnUse;
}

/** Whether it is the token, in a time that tells nothing of it. */
export function isToken(given: string, token: string): boolean {
  return timingSafeEqual(digestOf(given), digestOf(token));
}
