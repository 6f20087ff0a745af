/** Calls about the VM as a whole. All may reach the agent twice, so they ride along with the handshake. */
import { AppError, type Clock, type GuestIdentity } from '@space/core';
import { type AssumeIdentityReply, Machine } from '@space/guest-proto';
import { callOnce } from './call.ts';
import type { Channel } from './channel.ts';
import { inert } from './errors.ts';
import type { Limits } from './limits.ts';
import { wireNumber } from './wire.ts';

const CONTRACT = 'v1';
/** How far the guest's clock may be from ours. */
const CLOCK_TOLERANCE_MS = 500;
/** The first answers after a restore can be slow, and an old clock reading proves nothing: ask again. */
const CLOCK_TRIES = 3;
/** As long as answers take longer than the tolerance, on a host where everything waits for a processor. */
const SLOW_CLOCK_TRIES = 10;
const MIN_ENTROPY_BYTES = 32;

interface Context {
  readonly channel: Channel;
  readonly limits: Limits;
  readonly clock: Clock;
}

export async function hello({ channel, limits }: Context): Promise<{ agentVersion: string; frozen: boolean }> {
  const options = { kind: 'machine', limitMs: limits.helloMs, repeatable: true } as const;
  const reply = await callOnce(channel, options, (signal) => channel.unary(Machine.method.hello, {}, signal));
  if (!reply.contracts.includes(CONTRACT)) {
    throw new AppError('snapshot_unfit', `The agent in the sandbox does not speak contract ${CONTRACT}.`);
  }
  return { agentVersion: inert(reply.agentVersion), frozen: reply.frozen };
}

export async function freeze({ channel, limits }: Context, timeoutMs: number): Promise<void> {
  const options = { kind: 'machine', limitMs: timeoutMs + limits.freezeMarginMs, repeatable: true } as const;
  await callOnce(channel, options, (signal) => channel.unary(Machine.method.freeze, { timeoutMs }, signal));
}

/** Also sets the guest's clock forward by what it lost: the time in which vCPUs stood still, or a slow first answer. */
export async function thaw({ channel, limits, clock }: Context): Promise<void> {
  const options = { kind: 'machine', limitMs: limits.replyMs, repeatable: true } as const;
  await callOnce(channel, options, (signal) =>
    channel.unary(Machine.method.thaw, { wallClockNs: nanoseconds(clock) }, signal),
  );
}

function nanoseconds(clock: Clock): bigint {
  return BigInt(Math.round(clock.now() * 1_000)) * 1_000n;
}

/** Gives the VM its identity and believes only what the agent read back from the kernel. */
export async function assumeIdentity(
  context: Context,
  identity: GuestIdentity,
): Promise<{ readonly hasMachineId: boolean }> {
  if (identity.entropy.length < MIN_ENTROPY_BYTES) {
    throw new AppError('bad_request', `An identity needs at least ${MIN_ENTROPY_BYTES} bytes of entropy.`);
  }
  for (let tries = 1; ; tries += 1) {
    const askedAt = context.clock.monotonicMs();
    const reply = await sendIdentity(context, identity);
    const isSlow = context.clock.monotonicMs() - askedAt > CLOCK_TOLERANCE_MS;
    const mismatch = identityMismatch(identity, reply);
    if (mismatch !== undefined) throw new AppError('restore_failed', mismatch);
    const offMs = Number(reply.wallClockNs / 1_000n) / 1_000 - context.clock.now();
    if (Math.abs(offMs) <= CLOCK_TOLERANCE_MS) return { hasMachineId: reply.machineId !== '' };
    if (tries >= (isSlow ? SLOW_CLOCK_TRIES : CLOCK_TRIES))
      throw new AppError('restore_failed', `The clock of the guest is off by ${Math.round(offMs)} ms.`);
  }
}

async function sendIdentity(
  { channel, limits, clock }: Context,
  identity: GuestIdentity,
): Promise<AssumeIdentityReply> {
  const { sandboxId, lifeId, hostname, machineId, entropy, isFresh: fresh } = identity;
  const trust = Buffer.from(pemOf(identity.trust ?? ''));
  const generation = wireNumber('The generation', identity.generation);
  const options = { kind: 'identity', limitMs: limits.replyMs, repeatable: true } as const;
  return callOnce(channel, options, (signal) => {
    // Read at the last moment: the wait for an earlier try is no part of it.
    const wallClockNs = nanoseconds(clock);
    const request = { sandboxId, lifeId, generation, hostname, machineId, wallClockNs, entropy, fresh, trust };
    return channel.unary(Machine.method.assumeIdentity, request, signal);
  });
}

/** As the agent takes it, however whoever wrote it ends lines. */
function pemOf(text: string): string {
  const lines = text.replaceAll('\r\n', '\n').trim();
  return lines === '' ? '' : `${lines}\n`;
}

function identityMismatch(identity: GuestIdentity, reply: AssumeIdentityReply): string | undefined {
  if (reply.hostname !== identity.hostname)
    return `The guest's hostname is "${inert(reply.hostname)}", not "${identity.hostname}".`;
  // None at all: root of the guest has spoilt the file, which is its own harm. Another than its own would be a copy's.
  if (reply.machineId !== '' && reply.machineId !== identity.machineId)
    return `The guest's machine id is "${inert(reply.machineId)}", not "${identity.machineId}".`;
  if (reply.generation !== BigInt(identity.generation))
    return `The guest's generation is ${reply.generation}, not ${identity.generation}.`;
  if (!reply.entropyCredited) return 'The guest did not reseed its random number generator.';
  return undefined;
}
