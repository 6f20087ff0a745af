/**
 * Somebody who closes the vault at any time, and opens it at some; and the host, which now and then is off for a while. Nobody who uses
 * the platform notices but by the wait, and by what the host took with it.
 */
import { DEFAULT_VAULT } from '@space/core';
import { Random } from './random.ts';
import type { World } from './world.ts';

/** Of all schedules, those with one; drawn apart, so that the others stay as they are. */
const SHARE = 0.4;
const APART = 0x5eed;

export class Closer {
  readonly #world: World;
  readonly #random: Random;
  readonly #isThere: boolean;
  /** How often the vault was closed, or found off. */
  closed = 0;
  #isOver = false;

  constructor(world: World, seed: number) {
    this.#world = world;
    this.#random = new Random(seed + APART);
    this.#isThere = this.#random.happens(SHARE);
  }

  /** Until it is told to stop. */
  async work(): Promise<void> {
    while (this.#isThere && !this.#isOver) {
      await this.#world.time.sleep(this.#random.below(2_500));
      const port = this.#world.node?.port;
      if (this.#isOver || port === undefined) continue;
      if (this.#random.happens(0.03)) {
        this.closed += 1;
        this.#world.powerOff();
      } else if (this.#random.happens(0.85)) {
        await this.#try(
          () => port.closeVault({ vault: DEFAULT_VAULT, endLives: false }),
          () => {
            this.closed += 1;
          },
        );
      } else {
        await this.#try(() => port.openVault({ vault: DEFAULT_VAULT, key: null }));
      }
    }
  }

  /** What is looked at afterwards lies in it. */
  async stop(): Promise<void> {
    this.#isOver = true;
    if (!this.#isThere) return;
    while (!(await this.#try(() => this.#world.node?.port.openVault({ vault: DEFAULT_VAULT, key: null })))) {
      await this.#world.time.sleep(100);
    }
  }

  /** A node that dies meanwhile never answers. */
  async #try(order: () => Promise<void> | undefined, done = (): void => undefined): Promise<boolean> {
    const patience = this.#world.time.sleep(60_000).then(() => false);
    const isDone = (async () => {
      const begun = order();
      if (begun === undefined) return false;
      await begun;
      done();
      return true;
    })().catch(() => false);
    return Promise.race([isDone, patience]);
  }
}
