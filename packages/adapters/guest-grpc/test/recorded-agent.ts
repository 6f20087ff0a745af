/**
 * What agents of earlier versions have sent, byte for byte, recorded and played back. A recording is one call on a fresh
 * connection: all that the agent sent in answer to it, without the frames of the link, which carry a session drawn anew.
 */
import { type Duplex, duplexPair } from 'node:stream';
import type { Clock, Guest, GuestIdentity, LifeId, ProcessId, SandboxId } from '@space/core';
import { FRAME_KIND, HEADER_BYTES } from '../src/frame.ts';
import type { ConnectPort } from '../src/index.ts';
import { AgentLink } from './agent-link.ts';

export interface Recording {
  readonly call: string;
  /** What the agent sent, hex. */
  readonly answer: string;
  /** What the call came to. */
  readonly means: unknown;
}

/** Of every recording: an identity is compared with what is read back, its clock too. */
export const RECORDED_CLOCK: Clock = { now: () => Date.UTC(2026, 10, 30), monotonicMs: () => performance.now() };

const IDENTITY: GuestIdentity = {
  sandboxId: 'sbx_0123456789abcdef' as SandboxId,
  lifeId: 'lif_0123456789abcdef' as LifeId,
  generation: 3,
  hostname: 'sbx-0123456789abcdef',
  machineId: '0123456789abcdef0123456789abcdef',
  entropy: new Uint8Array(64).fill(7),
  isFresh: true,
};

const command = (processId: string, script: string) => ({
  processId: processId as ProcessId,
  argv: ['/bin/sh', '-c', script],
  env: {},
  cwd: '/',
  user: 'root',
});

/** What is asked of an agent for a recording. Each has an answer that is no accident of the machine. */
export const CALLS: Readonly<Record<string, (guest: Guest) => Promise<unknown>>> = {
  hello: (guest) => guest.hello(),
  assumeIdentity: (guest) => guest.assumeIdentity(IDENTITY),
  exec: async (guest) =>
    (await Array.fromAsync(guest.exec(command('golden-1', 'echo out; echo err >&2; exit 7')))).slice(1),
  'exec, killed': async (guest) => (await Array.fromAsync(guest.exec(command('golden-2', 'kill -9 $$')))).slice(1),
  'exec of what is not there': (guest) =>
    Array.fromAsync(guest.exec({ ...command('golden-3', ''), argv: ['/no/such/program'] })),
  attach: async (guest) => {
    const at = { processId: 'golden-1' as ProcessId, stdoutOffset: 2, stderrOffset: 0 };
    return (await Array.fromAsync(guest.attach(at))).slice(1);
  },
  processes: (guest) => guest.processes(),
  'stat of what is not there': (guest) => guest.stat({ path: '/no/such/file', user: 'root' }),
  list: async (guest) =>
    (await Array.fromAsync(guest.list({ path: '/proc/self/ns', user: 'root' }))).map((file) => file.path).sort(),
};

/** What a call came to, as JSON. */
export async function meaningOf(call: string, guest: Guest): Promise<unknown> {
  const ask = CALLS[call];
  if (ask === undefined) throw new Error(`there is no call ${call}`);
  const value = await ask(guest).then(
    (result) => ({ result }),
    (thrown: { code: string; message: string }) => ({ code: thrown.code }),
  );
  return JSON.parse(JSON.stringify(value, asText));
}

function asText(_: string, part: unknown): unknown {
  const isBytes = typeof part === 'object' && part !== null && 'type' in part && part.type === 'Buffer';
  return isBytes ? Buffer.from((part as unknown as { data: number[] }).data).toString('latin1') : part;
}

/** Stands between a host and a real agent, and keeps what that one sends on the port that was opened last: that of the call. */
export function tapped(connect: ConnectPort): { readonly connect: ConnectPort; heard(): Buffer } {
  let heard: Buffer[] = [];
  return {
    connect: async (port) => {
      const agent = await connect(port);
      const own: Buffer[] = [];
      heard = own;
      agent.on('data', (chunk: Buffer) => own.push(chunk));
      return agent;
    },
    heard: () => payloads(Buffer.concat(heard)),
  };
}

function payloads(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
    const length = bytes.readUInt32LE(at + 16);
    if (bytes.readUInt32LE(at + 4) === FRAME_KIND.data)
      parts.push(bytes.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length));
    at += HEADER_BYTES + length;
  }
  return Buffer.concat(parts);
}

/** An agent that answers the first call on each connection with what was recorded, whatever it is asked. */
export function playing({ answer }: Pick<Recording, 'answer'>): ConnectPort {
  return async () => {
    const [host, raw] = duplexPair();
    new AgentLink(raw, (session) => {
      void firstCall(session).then(() => session.write(Buffer.from(answer, 'hex')));
    });
    return host;
  };
}

const PREFACE_BYTES = 24;
const FRAME_HEADER_BYTES = 9;
const DATA = 0;
const END_STREAM = 1;

/** Returns when the host has sent a whole request. */
function firstCall(session: Duplex): Promise<void> {
  let bytes = Buffer.alloc(0);
  return new Promise((resolve) => {
    session.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (holdsRequest(bytes)) resolve();
    });
  });
}

function holdsRequest(bytes: Buffer): boolean {
  for (let at = PREFACE_BYTES; at + FRAME_HEADER_BYTES <= bytes.length; ) {
    const end = at + FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3);
    const [type = 0, flags = 0] = bytes.subarray(at + 3, at + 5);
    if (end <= bytes.length && type === DATA && (flags & END_STREAM) !== 0) return true;
    at = end;
  }
  return false;
}
