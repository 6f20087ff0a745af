/** What runs without being asked: which rounds there are, how often, and what news of the node begin. */
import { AppError, type LifeEnd, type SpaceNews, type VaultName } from '@space/core';
import type { Driver } from './driver.ts';
import type { ControlPorts } from './ports.ts';
import type { ReconcileReport, Reconciler } from './reconcile.ts';
import { Repeated } from './repeated.ts';
import { ROLL_EVERY_MS } from './rolling.ts';
import { SAMPLE_EVERY_MS } from './sampler.ts';
import { SCRUB_EVERY_MS } from './scrubber.ts';

const RECONCILE_EVERY_MS = 15_000;
const VAULTS_EVERY_MS = 30_000;
/** How late what is due may be begun. */
const CLOCK_EVERY_MS = 1_000;
/** How late a revocation by another process, or the end of a lease, may be noticed. */
const KEYS_EVERY_MS = 5_000;
const CLOSE_TIMEOUT_MS = 20_000;
const ROUND_FAILED = 'a round of the reconciler failed; the next will try';

export interface Duties {
  /** What is old or deleted goes. */
  dropOld(): Promise<void>;
  sample(): Promise<void>;
  /** Asks KMSs whether the keys of vaults may still be used. */
  lookAfterKeys(): Promise<void>;
  /** Tells a gateway that is another one, and takes what it has seen. */
  watchGateway(): Promise<void>;
  /** Takes what the gateway holds, for as long as it answers. */
  followAsks(): Promise<void>;
  /** Links what has ended into the audit's chains. */
  link(): Promise<void>;
  /** Ends approvals that are late, and tells of those that wait. */
  lookAtAsks(): Promise<void>;
  /** Does what is due. */
  lookAtClock(): Promise<void>;
  /** Looks for marked commands that have ended. */
  checkpoint(): Promise<void>;
  /** Reads what has not been read for long. */
  scrub(): Promise<void>;
  /** Closes vaults that nobody has needed for a while. */
  closeUnused(): Promise<void>;
  /** What is done about a vault that runs short. */
  relieve(vault: VaultName, availableBytes: number): Promise<void>;
  /** Points that are due, and what is to be collected. */
  roll(): Promise<void>;
}

/** What runs by itself: rounds of the reconciler, of the sampler, of set times, of points, and of what goes. None waits for another. */
export class Watch {
  readonly #ports: ControlPorts;
  readonly #reconciler: Reconciler;
  readonly #driver: Driver;
  readonly #duties: Duties;
  readonly #busy = new Set<Promise<unknown>>();
  readonly #repeated: readonly Repeated[];
  #unsubscribe: readonly (() => void)[] = [];

  constructor(ports: ControlPorts, reconciler: Reconciler, driver: Driver, duties: Duties) {
    this.#ports = ports;
    this.#reconciler = reconciler;
    this.#driver = driver;
    this.#duties = duties;
    const repeated = (everyMs: number, work: () => Promise<void>, failure: string) =>
      new Repeated(everyMs, work, (err) => ports.logger.warn({ err }, failure));
    this.#repeated = [
      repeated(SAMPLE_EVERY_MS, () => duties.sample(), 'the sandboxes could not be sampled'),
      repeated(KEYS_EVERY_MS, () => duties.lookAfterKeys(), 'the keys of vaults could not be looked after'),
      repeated(CLOCK_EVERY_MS, () => duties.watchGateway(), 'the gateway could not be looked after'),
      repeated(CLOCK_EVERY_MS, () => duties.followAsks(), 'the gateway could not be followed'),
      repeated(CLOCK_EVERY_MS, () => duties.link(), 'calls that have ended could not be linked'),
      repeated(CLOCK_EVERY_MS, () => duties.lookAtAsks(), 'what waits for a reviewer could not be looked up'),
      repeated(CLOCK_EVERY_MS, () => duties.lookAtClock(), 'what is due could not be looked up'),
      repeated(ROLL_EVERY_MS, () => duties.checkpoint(), 'a look for commands that have ended failed'),
      repeated(ROLL_EVERY_MS, () => duties.roll(), 'a round of points failed'),
      repeated(SCRUB_EVERY_MS, () => duties.scrub(), 'the snapshots could not be checked'),
      repeated(VAULTS_EVERY_MS, () => duties.closeUnused(), 'unused vaults could not be looked for'),
      repeated(RECONCILE_EVERY_MS, () => duties.dropOld(), 'what is old could not be dropped'),
      repeated(RECONCILE_EVERY_MS, async () => void (await reconciler.reconcile()), ROUND_FAILED),
    ];
  }

  async start(): Promise<ReconcileReport | null> {
    const { node, logger } = this.#ports;
    this.#unsubscribe = [
      node.onLifeEnded((end) => this.#inBackground(this.#lifeEnded(end))),
      node.onSpace((news) => this.#inBackground(this.#spaceChanged(news))),
      node.onBack(() => this.#inBackground(this.#reconciler.reconcile())),
    ];
    const report = await this.#reconciler.reconcile().catch((err: unknown) => {
      if (!(err instanceof AppError) || err.code !== 'node_unavailable') throw err;
      logger.warn({ err }, 'the node does not answer yet');
      return null;
    });
    // What was revoked while nobody looked is barred before anybody is answered.
    await this.#duties.lookAfterKeys();
    for (const repeated of this.#repeated) repeated.start();
    return report;
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    const ended = this.#repeated.map((repeated) => repeated.stop());
    await this.#driver.close(CLOSE_TIMEOUT_MS);
    await Promise.allSettled([...this.#busy, ...ended]);
  }

  /** The end of an operation says what is real; only a life that ended at rest is news. */
  async #lifeEnded(end: LifeEnd): Promise<void> {
    await this.#driver.idle(end.sandboxId);
    await this.#reconciler.lifeEnded(end);
  }

  async #spaceChanged(news: SpaceNews): Promise<void> {
    if (news.kind === 'short') return this.#duties.relieve(news.vault, news.availableBytes);
    await this.#driver.idle(news.sandboxId);
    await this.#reconciler.lifeTurned(news.sandboxId);
  }

  #inBackground(work: Promise<unknown>): void {
    const watched = work
      .catch((err: unknown) => this.#ports.logger.error({ err }, ROUND_FAILED))
      .finally(() => this.#busy.delete(watched));
    this.#busy.add(watched);
  }
}
