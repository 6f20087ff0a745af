/**
 * What programs in sandboxes open to somewhere else, brought to the gateway: for each life, as long as it runs.
 *
 *   guest ── told of ──► here ── egress port ──► gateway        no rules are known here, and none is needed to say no
 *
 * Bounded per sandbox; at the pace of who reads; cut when the life ends. A channel that breaks is opened again, with growing
 * pauses, so that a sandbox that nobody uses keeps its way out.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  asAppError,
  type EgressPort,
  MAX_EGRESS_CONNECTIONS,
  type OutgoingConnection,
  type PortConnection,
  type SandboxId,
  type WayOutStatus,
} from '@space/core';
import type { Life } from './life.ts';

const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 60_000;
/** A connection that carries nothing for so long is closed. */
const SILENCE_LIMIT_MS = 60 * 60_000;

export class WayOut {
  readonly #egress: EgressPort;
  readonly #counts = { open: 0, carried: 0, refused: 0, failed: 0, outBytes: 0, inBytes: 0 };

  constructor(egress: EgressPort) {
    this.#egress = egress;
  }

  status(): WayOutStatus {
    return { ...this.#counts };
  }

  /** From now on, until the life ends or is let go of. */
  serve(sandboxId: SandboxId, life: Life): void {
    void this.#follow(sandboxId, life);
  }

  async #follow(sandboxId: SandboxId, life: Life): Promise<void> {
    const { gone } = life;
    for (let pauseMs = FIRST_PAUSE_MS; !gone.aborted; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
      try {
        const guest = await life.guest();
        const begunMs = performance.now();
        await this.#announced(sandboxId, life, guest.outgoing(gone));
        if (performance.now() - begunMs > MAX_PAUSE_MS) pauseMs = FIRST_PAUSE_MS;
      } catch (thrown) {
        // An agent of an earlier time knows of no way out.
        if (asAppError(thrown).code === 'snapshot_unfit') return;
      }
      await sleep(pauseMs, undefined, { signal: gone, ref: false }).catch(() => undefined);
    }
  }

  async #announced(sandboxId: SandboxId, life: Life, announced: AsyncIterable<OutgoingConnection>): Promise<void> {
    const open = new Set<Promise<void>>();
    for await (const connection of announced) {
      const carried = this.#carry(sandboxId, life, connection).finally(() => open.delete(carried));
      open.add(carried);
      // An agent that tells of more is not heard until there is room.
      if (open.size >= MAX_EGRESS_CONNECTIONS) await Promise.race(open);
    }
  }

  async #carry(sandboxId: SandboxId, life: Life, { host, port, open }: OutgoingConnection): Promise<void> {
    const counts = this.#counts;
    const { lifeId, gone } = life;
    counts.open += 1;
    try {
      const guest = await open(gone);
      try {
        await this.#egress.carry({ sandboxId, lifeId, host, port }, this.#watched(guest, life), gone);
        counts.carried += 1;
      } finally {
        guest.reset();
      }
    } catch (thrown) {
      if (asAppError(thrown).code === 'egress_refused') counts.refused += 1;
      else counts.failed += 1;
    } finally {
      counts.open -= 1;
    }
  }

  /** The connection, with what passes counted, and reset when nothing does. */
  #watched(guest: PortConnection, life: Life): PortConnection {
    const silence = setTimeout(() => guest.reset(), SILENCE_LIMIT_MS);
    silence.unref();
    void guest.closed.then(() => clearTimeout(silence));
    const passed = (direction: 'outBytes' | 'inBytes', bytes: number): void => {
      silence.refresh();
      this.#counts[direction] += bytes;
      life.outgoingBytes += bytes;
    };
    return {
      output: observed(guest.output, (bytes) => passed('outBytes', bytes)),
      async write(bytes) {
        await guest.write(bytes);
        passed('inBytes', bytes.length);
      },
      end: () => guest.end(),
      reset: () => guest.reset(),
      closed: guest.closed,
    };
  }
}

async function* observed(output: AsyncIterable<Uint8Array>, see: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const piece of output) {
    see(piece.length);
    yield piece;
  }
}
