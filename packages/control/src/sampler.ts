/**
 * What running sandboxes take, sampled at intervals from the host's side: nothing here reaches into a sandbox or wakes one.
 * The history lies in memory only, bounded by its length per sandbox; a new process starts a new one.
 */
import type { SandboxMetrics } from '@space/contract';
import type { LifeUsage, SandboxId } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { RecordedSandbox } from './records.ts';
import { mapInParallel } from './turns.ts';

export const SAMPLE_EVERY_MS = 10_000;
/** An hour. */
const MAX_SAMPLES = 360;
const PARALLEL_SAMPLES = 8;

export interface Sample {
  readonly at: Date;
  /** Since the sample before: 100 is one processor all the time. */
  readonly cpuPercent: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  /** Since the sample before, over connections that its programs opened to the outside. */
  readonly outgoingBytes: number;
}

interface Reading extends LifeUsage {
  readonly takenMs: number;
}

interface Track {
  /** The last of the running life. */
  reading: Reading | null;
  readonly history: Sample[];
}

export class Sampler {
  readonly #ports: ControlPorts;
  readonly #tracks = new Map<SandboxId, Track>();

  constructor(ports: ControlPorts) {
    this.#ports = ports;
  }

  /** Takes a sample of each that runs, and forgets what is not among them. The first of a life is none: it has no time before it. */
  async sample(sandboxes: readonly RecordedSandbox[]): Promise<ReadonlyMap<SandboxId, Sample>> {
    const known = new Set(sandboxes.map(({ id }) => id));
    for (const id of this.#tracks.keys()) if (!known.has(id)) this.#tracks.delete(id);
    const samples = new Map<SandboxId, Sample>();
    await mapInParallel(sandboxes, PARALLEL_SAMPLES, async ({ id, settled }) => {
      const sample = await this.#sampleOne(id, settled === 'running').catch((err: unknown) => {
        this.#ports.logger.warn({ sandboxId: id, err }, 'a sandbox could not be sampled');
        return null;
      });
      if (sample !== null) samples.set(id, sample);
    });
    return samples;
  }

  async metrics({ id, settled }: RecordedSandbox): Promise<SandboxMetrics> {
    const track = this.#tracks.get(id);
    const now = settled === 'running' ? await this.#read(id) : null;
    const history = (track?.history ?? []).map(({ outgoingBytes: _, at, ...sample }) => ({
      ...sample,
      at: at.toISOString(),
    }));
    if (now === null) return { now: null, history };
    const { memoryBytes, diskBytes } = now;
    const at = new Date(this.#ports.clock.now()).toISOString();
    return { now: { at, cpuPercent: cpuPercent(track?.reading ?? null, now), memoryBytes, diskBytes }, history };
  }

  async #sampleOne(id: SandboxId, running: boolean): Promise<Sample | null> {
    const track = this.#tracks.get(id) ?? { reading: null, history: [] };
    this.#tracks.set(id, track);
    const before = track.reading;
    // Also when it cannot be read: what comes after a gap is not one window.
    track.reading = null;
    if (!running) return null;
    const reading = await this.#read(id);
    track.reading = reading;
    const percent = reading === null ? null : cpuPercent(before, reading);
    if (reading === null || percent === null) return null;
    const { memoryBytes, diskBytes } = reading;
    const sample = {
      at: new Date(this.#ports.clock.now()),
      cpuPercent: percent,
      memoryBytes,
      diskBytes,
      outgoingBytes: grown(before?.outgoingBytes ?? 0, reading.outgoingBytes),
    };
    track.history.push(sample);
    if (track.history.length > MAX_SAMPLES) track.history.shift();
    return sample;
  }

  async #read(id: SandboxId): Promise<Reading | null> {
    const usage = await this.#ports.node.usage(id);
    return usage === null ? null : { ...usage, takenMs: this.#ports.clock.monotonicMs() };
  }
}

/** Null without a reading of the same life before it. */
function cpuPercent(before: Reading | null, now: Reading): number | null {
  if (before === null || before.lifeId !== now.lifeId || now.takenMs <= before.takenMs) return null;
  const percent = (100 * (now.cpuMs - before.cpuMs)) / (now.takenMs - before.takenMs);
  return Math.round(percent * 10) / 10;
}

/** The count begins anew when the node does. */
function grown(before: number, now: number): number {
  return now >= before ? now - before : now;
}
