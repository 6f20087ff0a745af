/**
 * Keeps guests from dying of a full vault: looks at the space that is left, the more often the less it is, and stops vCPUs
 * before it is gone. The decision is core's (`space.ts`). A vault on which nothing runs is not looked at.
 *
 * When little is left, the file system is first asked to give back what it holds for no reason; only if there is too little then
 * is it told that the vault is short.
 *
 * A release of the node lets go of VMs as they are: what stands still stays so until the next node takes it up.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type Clock,
  judgeSpace,
  type LifeId,
  mayGoOn,
  type Size,
  spaceMarks,
  type Vault,
  type VaultName,
  type VaultSpace,
} from '@space/core';
import type { Life } from './life.ts';

/** How often a vault that stays short is told of. */
const SHORT_NEWS_MS = 5_000;
/** Between two attempts to have space back; one writes out all that is dirty in the vault. */
const RECLAIM_PAUSE_MS = 2_000;
/** After so long it is told that a vault is short, whatever has become of the attempt. */
const RECLAIM_LIMIT_MS = 10_000;
/** The next look after one that failed. */
const RETRY_MS = 250;
/** How long a look waits to learn who wrote. */
const USAGE_LIMIT_MS = 50;

interface Watched {
  readonly life: Life;
  readonly memoryBytes: number;
  stoppedAs: 'writer' | 'all' | null;
  /** It is being stopped or let go on. */
  turning: boolean;
  /** To its disk, since its start; null: it was not asked at the look before. */
  writtenInAllBytes: number | null;
  /** Between the last two looks. */
  writtenBytes: number;
}

interface Watch {
  readonly vault: Vault;
  readonly lives: Map<LifeId, Watched>;
  timer: NodeJS.Timeout | null;
  looking: Promise<void> | null;
  /** Since when it has been short, on the monotonic clock; null: it is not. */
  shortSinceMs: number | null;
  shortToldAtMs: number;
  reclaiming: boolean;
  /** When the last attempt ended. */
  reclaimedAtMs: number;
}

export interface SpaceWatchOptions {
  readonly clock: Clock;
  /** A life was stopped, or goes on. */
  onTurned(life: Life): void;
  onShort(vault: VaultName, availableBytes: number): void;
}

export class SpaceWatch {
  readonly #options: SpaceWatchOptions;
  readonly #watches = new Map<VaultName, Watch>();
  #closed = false;

  constructor(options: SpaceWatchOptions) {
    this.#options = options;
  }

  /** Watched until its VM ends. */
  add(life: Life, { memoryMib }: Size): void {
    const watch = this.#watchOf(life.vault);
    watch.lives.set(life.lifeId, {
      life,
      memoryBytes: memoryMib * 2 ** 20,
      stoppedAs: null,
      turning: false,
      writtenInAllBytes: null,
      writtenBytes: 0,
    });
    void life.vm.ended.then(() => watch.lives.delete(life.lifeId));
    this.#lookIn(watch, 0);
  }

  /** The vault is being closed, and nothing runs in it. */
  async forget(vault: Vault): Promise<void> {
    const watch = this.#watches.get(vault.name);
    if (watch === undefined) return;
    this.#watches.delete(vault.name);
    await watch.looking;
    if (watch.timer !== null) clearTimeout(watch.timer);
  }

  close(): void {
    this.#closed = true;
    for (const { timer } of this.#watches.values()) if (timer !== null) clearTimeout(timer);
  }

  /** Looks now. Concurrent calls share one look. Never throws: what failed is tried again soon. */
  look(vault: Vault): Promise<void> {
    const watch = this.#watchOf(vault);
    watch.looking ??= this.#look(watch).finally(() => {
      watch.looking = null;
    });
    return watch.looking;
  }

  /** Throws `out_of_space` when the vault has no room for it yet. */
  async letGoOn(life: Life): Promise<void> {
    const watched = this.#watchOf(life.vault).lives.get(life.lifeId);
    if (watched === undefined || watched.stoppedAs === null) return;
    const { totalBytes, availableBytes } = await life.vault.space();
    if (!mayGoOn({ totalBytes, availableBytes }, { stopped: watched.stoppedAs })) {
      throw new AppError('out_of_space', {
        detail: `The sandbox stands still: ${availableBytes} bytes are left in its vault, too few for it to go on.`,
        facts: { availableBytes },
      });
    }
    await this.#turn(watched, null);
  }

  #watchOf(vault: Vault): Watch {
    let watch = this.#watches.get(vault.name);
    if (watch === undefined) {
      const never = Number.NEGATIVE_INFINITY;
      const quiet = { shortSinceMs: null, shortToldAtMs: never, reclaiming: false, reclaimedAtMs: never };
      watch = { vault, lives: new Map(), timer: null, looking: null, ...quiet };
      this.#watches.set(vault.name, watch);
    }
    return watch;
  }

  #lookIn(watch: Watch, ms: number): void {
    if (watch.timer !== null) clearTimeout(watch.timer);
    if (this.#closed || this.#watches.get(watch.vault.name) !== watch) return;
    watch.timer = setTimeout(() => void this.look(watch.vault), ms);
    watch.timer.unref();
  }

  async #look(watch: Watch): Promise<void> {
    let nextMs: number | null = RETRY_MS;
    try {
      nextMs = await this.#judgeAndAct(watch);
    } catch {
      // A vault that could not be measured now is measured at the next look.
    }
    if (nextMs !== null) this.#lookIn(watch, nextMs);
  }

  /** When to look again; null: there is nothing to watch. What it begins is not awaited: one silent VMM holds up no look. */
  async #judgeAndAct(watch: Watch): Promise<number | null> {
    if (watch.lives.size === 0) return null;
    const space = await watch.vault.space();
    await observe([...watch.lives.values()], space);
    const lives = [...watch.lives.values()].filter(({ turning }) => !turning);
    const seen = lives.map(({ life, memoryBytes, stoppedAs, writtenBytes }) => ({
      ...{ lifeId: life.lifeId, memoryBytes, writtenBytes },
      stopped: stoppedAs,
    }));
    const verdict = judgeSpace(space, seen);
    const stop = new Map<LifeId, 'writer' | 'all'>(verdict.stop.map(({ lifeId, as }) => [lifeId, as]));
    for (const { life, stoppedAs } of lives) if (stoppedAs === null && life.vm.starved) stop.set(life.lifeId, 'writer');
    for (const watched of lives) {
      const as = stop.get(watched.life.lifeId);
      if (as !== undefined) this.#turnInBackground(watched, as);
      else if (stop.size === 0 && verdict.letGoOn === watched.life.lifeId) this.#turnInBackground(watched, null);
    }
    this.#meetShortage(watch, verdict.short, space.availableBytes);
    return verdict.nextLookMs;
  }

  /** One that fails is met again at a later look; the end of its VM is told by itself. */
  #turnInBackground(watched: Watched, stopAs: 'writer' | 'all' | null): void {
    this.#turn(watched, stopAs).catch(() => undefined);
  }

  async #turn(watched: Watched, stopAs: 'writer' | 'all' | null): Promise<void> {
    const { life } = watched;
    watched.turning = true;
    try {
      await (stopAs === null ? life.letGoOn() : life.halt());
      watched.stoppedAs = stopAs;
      watched.writtenInAllBytes = null;
    } finally {
      watched.turning = false;
    }
    this.#options.onTurned(life);
  }

  /** One that fails is tried again; what it gave back is seen at the next look. */
  #reclaimInBackground(watch: Watch): void {
    watch.reclaiming = true;
    void watch.vault
      .reclaim()
      .catch(() => undefined)
      .finally(() => {
        watch.reclaiming = false;
        watch.reclaimedAtMs = this.#options.clock.monotonicMs();
        this.#lookIn(watch, 0);
      });
  }

  #meetShortage(watch: Watch, short: boolean, availableBytes: number): void {
    if (!short) {
      watch.shortSinceMs = null;
      return;
    }
    const now = this.#options.clock.monotonicMs();
    watch.shortSinceMs ??= now;
    if (!watch.reclaiming && now - watch.reclaimedAtMs >= RECLAIM_PAUSE_MS) this.#reclaimInBackground(watch);
    const hasTried = watch.reclaimedAtMs >= watch.shortSinceMs || now - watch.shortSinceMs >= RECLAIM_LIMIT_MS;
    if (!hasTried || now - watch.shortToldAtMs < SHORT_NEWS_MS) return;
    watch.shortToldAtMs = now;
    this.#options.onShort(watch.vault.name, availableBytes);
  }
}

/**
 * Notes what each life wrote to its disk since the look before, where that may decide: it is asked of the VMM, which may
 * be busy. Where all are to stand still, nobody waits for it.
 */
async function observe(lives: readonly Watched[], { totalBytes, availableBytes }: VaultSpace): Promise<void> {
  const { edgeBytes, calmBytes } = spaceMarks(totalBytes);
  if (availableBytes < edgeBytes) return;
  const asked = availableBytes < calmBytes ? lives.filter(({ stoppedAs }) => stoppedAs === null) : [];
  for (const watched of lives) {
    if (asked.includes(watched)) continue;
    watched.writtenInAllBytes = null;
    watched.writtenBytes = 0;
  }
  const readings = Promise.allSettled(asked.map(observeOne));
  await Promise.race([readings, sleep(USAGE_LIMIT_MS)]);
}

async function observeOne(watched: Watched): Promise<void> {
  const before = watched.writtenInAllBytes;
  const writtenBytes = await watched.life.vm.diskWrittenBytes();
  watched.writtenInAllBytes = writtenBytes;
  watched.writtenBytes = before === null ? 0 : writtenBytes - before;
}
