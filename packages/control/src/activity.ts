/**
 * Who is in a sandbox now, and when it was last busy: what the pauses of idle ones are decided by. In memory only: after a
 * restart every sandbox counts as busy at that moment.
 */
import { type Activity, type Clock, isIdle, type Observation, observe, type SandboxId } from '@space/core';
import type { RecordedSandbox } from './records.ts';
import type { Sample } from './sampler.ts';

interface Track {
  activity: Activity;
  /** Of the last lifecycle change that was seen; null: none yet. */
  epoch: number | null;
  /** Of the last begin or end of a use; null: none. */
  usedAtMs: number | null;
  /** Whether a snapshot that is no use of it is being taken. */
  rolling: boolean;
}

export class ActivityLog {
  readonly #clock: Clock;
  readonly #tracks = new Map<SandboxId, Track>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A use begins; returns what ends it. Begun before the sandbox is woken, so that no pause comes in between. */
  begin(id: SandboxId): () => void {
    this.#used(id, 'use_began');
    let open = true;
    return () => {
      if (open) this.#used(id, 'use_ended');
      open = false;
    };
  }

  /** Idle time begins anew. */
  busy(id: SandboxId): void {
    this.#saw(id, { kind: 'busy' });
  }

  /** Whether a use began or ended since then; null: ever. One that is just open changes nothing. */
  usedSince(id: SandboxId, sinceMs: number | null): boolean {
    const usedAtMs = this.#tracks.get(id)?.usedAtMs ?? null;
    return usedAtMs !== null && (sinceMs === null || usedAtMs >= sinceMs);
  }

  /** Runs a snapshot that is no use of the sandbox; it tells the epoch that it had. */
  async unused<T>(id: SandboxId, snapshot: () => Promise<{ readonly epoch: number; readonly value: T }>): Promise<T> {
    const track = this.#track(id);
    track.rolling = true;
    try {
      const { epoch, value } = await snapshot();
      if (track.epoch === epoch - 1) track.epoch = epoch;
      return value;
    } finally {
      track.rolling = false;
    }
  }

  /** The end of a window of sampling, as it was for one sandbox. */
  sampled({ id, epoch, operation }: RecordedSandbox, sample: Sample | undefined): void {
    const track = this.#track(id);
    const isRolling = track.rolling && (operation === null || operation === 'snapshot');
    if (!isRolling && (operation !== null || track.epoch !== epoch)) this.busy(id);
    track.epoch = epoch;
    // A connection to the outside that is silent keeps nothing awake.
    if (sample !== undefined && sample.outgoingBytes > 0) this.busy(id);
    this.#saw(id, { kind: 'sampled', cpuPercent: sample?.cpuPercent ?? null });
  }

  /** Of a running sandbox at rest, as it was last sampled: a change of its lifecycle since then is a use. */
  isIdle({ id, epoch, settled, operation, pauseAfterMs }: RecordedSandbox): boolean {
    const track = this.#tracks.get(id);
    if (settled !== 'running' || operation !== null || track?.epoch !== epoch) return false;
    return isIdle(track.activity, pauseAfterMs, this.#clock.monotonicMs());
  }

  /** Forgets what is gone; an open use of it ends by itself. */
  retain(known: ReadonlySet<SandboxId>): void {
    for (const [id, { activity }] of this.#tracks) {
      if (!known.has(id) && activity.openUses === 0) this.#tracks.delete(id);
    }
  }

  #used(id: SandboxId, kind: 'use_began' | 'use_ended'): void {
    this.#saw(id, { kind });
    this.#track(id).usedAtMs = this.#clock.monotonicMs();
  }

  #saw(id: SandboxId, seen: UntimedObservation): void {
    const track = this.#track(id);
    track.activity = observe(track.activity, { ...seen, atMs: this.#clock.monotonicMs() });
  }

  #track(id: SandboxId): Track {
    const known = this.#tracks.get(id);
    if (known !== undefined) return known;
    const activity = { busyAtMs: this.#clock.monotonicMs(), openUses: 0 };
    const track: Track = { activity, epoch: null, usedAtMs: null, rolling: false };
    this.#tracks.set(id, track);
    return track;
  }
}

type UntimedObservation = Observation extends infer O ? (O extends unknown ? Omit<O, 'atMs'> : never) : never;
