/**
 * What is done when a vault has less left than is promised: a few of its points go, the least needed first (`sacrifice.ts`), and
 * the vault is measured again, until there is enough. What is given back is told only once the vault has it.
 *
 * It is begun by the node's news, which comes again as long as the vault is short: so a round that failed, or whose process
 * died, is gone on with by the next news.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { decideSacrifice, type SandboxId, type SnapshotId, type SpendablePoint, type VaultName } from '@space/core';
import type { Collector } from './collector.ts';
import { agingOf, headsOf, inOrder } from './holds.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import type { RecordedSandbox } from './records.ts';

/** Points per round. The file system frees their blocks in the background, and guests write meanwhile. */
const ROUND = 8;
/** How long a round waits until what it removed is there, and how often it looks. */
const FREED_WITHIN_MS = 5_000;
const LOOK_MS = 250;

export class Relief {
  readonly #machinery: Machinery;
  readonly #collector: Collector;
  readonly #lookMs: number;
  readonly #underWay = new Map<VaultName, Promise<void>>();
  readonly #stop = new AbortController();

  constructor(machinery: Machinery, collector: Collector, { lookMs = LOOK_MS } = {}) {
    this.#machinery = machinery;
    this.#collector = collector;
    this.#lookMs = lookMs;
  }

  /** One round at a time for each vault: news that comes meanwhile is of the same shortage. */
  begin(vault: VaultName, availableBytes: number): Promise<void> {
    const present = this.#underWay.get(vault);
    if (present !== undefined || this.#stop.signal.aborted) return present ?? Promise.resolve();
    const round = this.#round(vault, availableBytes).finally(() => this.#underWay.delete(vault));
    this.#underWay.set(vault, round);
    return round;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#underWay.values());
  }

  async #round(vault: VaultName, beforeBytes: number): Promise<void> {
    const { records, logger } = this.#machinery.ports;
    const all = await records.allSandboxes();
    const heads = headsOf(all);
    const own = all.filter((sandbox) => sandbox.vault === vault);
    const spendable: SpendablePoint[] = [];
    // One after the other: there may be very many, and nobody waits.
    for (const sandbox of own) spendable.push(...(await this.#spendableOf(sandbox, heads)));
    const chosen = decideSacrifice(spendable, ROUND);
    let removed = 0;
    for (const [id, points] of Map.groupBy(chosen, ({ sandboxId }) => sandboxId)) {
      removed += await this.#giveUp(id, new Set(points.map((point) => point.id)), heads);
    }
    if (removed === 0) {
      logger.warn(
        { vault, availableBytes: beforeBytes },
        'a vault has less space left than is promised, and no point that may go',
      );
      return;
    }
    await this.#collector.removeNow();
    const freedBytes = await this.#freed(vault, beforeBytes);
    logger.warn(
      { vault, removed, freedBytes },
      'a vault had less space left than is promised: its least needed points went',
    );
  }

  async #spendableOf(sandbox: RecordedSandbox, heads: ReadonlySet<SnapshotId>): Promise<readonly SpendablePoint[]> {
    const { ports, pins } = this.#machinery;
    const points = inOrder(await ports.records.snapshotsOf(sandbox.id));
    const aging = agingOf(sandbox, points, { heads, pins });
    return aging.map((point, index) => ({ ...point, sandboxId: sandbox.id, changed: points[index]?.changed ?? null }));
  }

  /** In the sandbox's turn, so that no operation that needs a point begins meanwhile; looked at again, since it was chosen outside of it. */
  #giveUp(id: SandboxId, chosen: ReadonlySet<SnapshotId>, heads: ReadonlySet<SnapshotId>): Promise<number> {
    const { ports, driver } = this.#machinery;
    const { records, clock } = ports;
    return driver.exclusively(id, async () => {
      const sandbox = await records.findSandbox(id);
      if (sandbox === null || sandbox.settled === 'deleted' || sandbox.operation !== null) return 0;
      const still = (await this.#spendableOf(sandbox, heads)).filter((one) => chosen.has(one.id) && one.hold === null);
      const ids = still.map((point) => point.id);
      if (ids.length > 0) await records.history.doom(ids, new Date(clock.now()), 'insufficient_space');
      return ids.length;
    });
  }

  /** How much more there is, once it has stopped growing. */
  async #freed(vault: VaultName, beforeBytes: number): Promise<number> {
    const { node } = this.#machinery.ports;
    let mostBytes = beforeBytes;
    for (let waitedMs = 0; waitedMs < FREED_WITHIN_MS && !this.#stop.signal.aborted; waitedMs += LOOK_MS) {
      await sleep(this.#lookMs);
      const seen = (await node.capabilities()).vaults.find(({ name }) => name === vault)?.availableBytes ?? 0;
      if (seen <= mostBytes && mostBytes > beforeBytes) break;
      mostBytes = Math.max(mostBytes, seen);
    }
    return mostBytes - beforeBytes;
  }
}
