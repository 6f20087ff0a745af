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
}

export class ActivityLog {
  readonly #clock: Clock;
  readonly #tracks = new Map<SandboxId, Track>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A use begins; returns what ends it. Begun before the sandbox is woken, so that no pause comes in between. */
  begin(id: SandboxId): () => void {
    this.#saw(id, { kind: 'use_began' });
    let open = true;
    return () => {
      if (open) this.#saw(id, { kind: 'use_ended' });
      open = false;
    };
  }

  /** Idle time begins anew. */
  busy(id: SandboxId): void {
    this.#saw(id, { kind: 'busy' });
  }

  /** The end of a window of sampling, as it was for one sandbox. */
  sampled({ id, epoch, operation }: RecordedSandbox, sample: Sample | undefined): void {
    const track = this.#track(id);
    if (operation !== null || track.epoch !== epoch) this.busy(id);
    track.epoch = epoch;
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

  #saw(id: SandboxId, seen: UntimedObservation): void {
    const track = this.#track(id);
    track.activity = observe(track.activity, { ...seen, atMs: this.#clock.monotonicMs() });
  }

  #track(id: SandboxId): Track {
    const known = this.#tracks.get(id);
    if (known !== undefined) return known;
    const activity = { busyAtMs: this.#clock.monotonicMs(), openUses: 0 };
    const track: Track = { activity, epoch: null };
    this.#tracks.set(id, track);
    return track;
  }
}

type UntimedObservation = Observation extends infer O ? (O extends unknown ? Omit<O, 'atMs'> : never) : never;
