/**
 * The vaults, as control uses them: each is opened when something needs it, by one opening that all who need it share, and closed when
 * nothing has needed it for a while.
 *
 * ```
 *   verb ─► before(node) ─► ensureOpen ─┬─ open ──────────────────────────────────────► the node's verb
 *                                       └─ key ─► (make) ─► open ─► confirm ─► wipe ─┘   `vault_closed`: once more
 * ```
 *
 * What runs by itself (collector, scrubber, reconciler) opens nothing for its own sake: a vault that nobody uses would be open all day,
 * and each opening is an unwrapping in somebody's audit. Its work is done while the vault is open. What is closed is never
 * taken for gone: of it nothing is known, and nothing changes in it meanwhile.
 */
import {
  AppError,
  asAppError,
  DEFAULT_VAULT,
  type ExportEvent,
  type ExportOrder,
  type KeyBytes,
  type NodePort,
  type NodeVault,
  type OrganisationId,
  parseArchiveRef,
  type SealedSource,
  SHUT_CODES,
  type VaultName,
} from '@space/core';
import type { ControlPorts } from './ports.ts';
import { VaultKeys } from './vault-keys.ts';

/** Longer than the pauses of somebody at work. */
const CLOSE_AFTER_MS = 60 * 60_000;
/** While its KMS does not answer, one that is open is used without being asked for so long. */
const ASK_AGAIN_MS = 30_000;

type Sealable = Pick<ExportOrder, 'vault' | 'projectId' | 'seal'>;

interface Use {
  count: number;
  /** On the monotonic clock. */
  lastMs: number;
}

export class Vaults {
  readonly #ports: ControlPorts;
  readonly #keys: VaultKeys;
  readonly #closeAfterMs: number;
  /** On the node, as far as is known; null: it has to be asked. One that is not open after all says so. */
  #open: Set<VaultName> | null = null;
  /** Those that were opened by this process, which has their keys then. */
  readonly #confirmed = new Set<VaultName>();
  /** Those that are open, and whose KMS did not answer; on the monotonic clock. */
  readonly #askAgainMs = new Map<VaultName, number>();
  readonly #opening = new Map<VaultName, Promise<void>>();
  readonly #closing = new Map<VaultName, Promise<unknown>>();
  readonly #uses = new Map<VaultName, Use>();

  constructor(ports: ControlPorts, keys = new VaultKeys(ports), { closeAfterMs = CLOSE_AFTER_MS } = {}) {
    this.#ports = ports;
    this.#keys = keys;
    this.#closeAfterMs = closeAfterMs;
  }

  /** In which what an organisation makes is to lie; made at the first use. Throws `kms_unavailable`, `kms_refused`. */
  of(organisationId: OrganisationId): Promise<VaultName> {
    return this.#keys.defaultFor(organisationId);
  }

  /** Those whose name an organisation may see: its own, or, where it has none, the one that is everybody's. */
  async visibleTo(organisationId: OrganisationId): Promise<ReadonlySet<VaultName>> {
    const own = await this.#ports.records.vaults.list(organisationId);
    return new Set(own.length === 0 ? [DEFAULT_VAULT] : own.map(({ name }) => name));
  }

  /**
   * Returns when the vault is open. Throws `kms_unavailable`, `kms_refused`, `vault_revoked`, `vault_key_wrong`, `vault_damaged`,
   * `vault_busy`; `vault_closed` when it is not one of ours.
   */
  ensureOpen(name: VaultName): Promise<void> {
    if (this.#isReady(name)) return Promise.resolve();
    const present = this.#opening.get(name);
    if (present !== undefined) return present;
    const opening = this.#openNow(name).finally(() => this.#opening.delete(name));
    this.#opening.set(name, opening);
    return opening;
  }

  /** Those that are open on the node: what runs by itself works in these. */
  async opened(): Promise<readonly VaultName[]> {
    return [...(this.#open ?? (await this.#look()))];
  }

  /** For what reaches into sandboxes that run, while they are being stopped. Throws `vault_revoked`. */
  requireUsable(name: VaultName): void {
    this.#keys.requireUsable(name);
  }

  /** For what goes on in one of them: aborts, with `vault_revoked`, when that becomes known. */
  whileUsable(name: VaultName): AbortSignal {
    return this.#keys.whileUsable(name);
  }

  /** The node is another one, perhaps: what is open there is to be found out. */
  forget(): void {
    this.#open = null;
    this.#confirmed.clear();
  }

  /** The same node, but that a vault is open before anything is done in it. */
  before(node: NodePort): NodePort {
    // What stops a sandbox: it runs in a vault that is open then, and nobody is asked whether it may.
    const stops = <T>(vault: VaultName, call: () => Promise<T>) =>
      this.#using(vault, () => this.#orOpened(vault, call));
    const usable = <T>(vault: VaultName, call: () => Promise<T>) =>
      this.#within(vault, async () => {
        this.requireUsable(vault);
        return await call();
      });
    const opens: Partial<NodePort> = {
      start: (order) => usable(order.vault, () => node.start(order)),
      goOn: (order) => usable(order.vault, () => node.goOn(order)),
      snapshot: (order) => stops(order.vault, () => node.snapshot(order)),
      pause: (order) => stops(order.vault, () => node.pause(order)),
      rewind: (order) => usable(order.vault, () => node.rewind(order)),
      destroy: (order) =>
        this.#orGone(
          order.vault,
          () => stops(order.vault, () => node.destroy(order)),
          () => undefined,
        ),
      inspect: (vault, sandboxId) =>
        this.#orGone(
          vault,
          () => this.#again(vault, () => node.inspect(vault, sandboxId)),
          () => {
            throw new AppError('not_found', `${sandboxId} went with its vault.`);
          },
        ),
      importPoints: (order, signal) =>
        usable(order.vault, () => this.#withKey(node, order, (keyed) => node.importPoints(keyed, signal))),
      handOver: (order, signal) =>
        usable(order.vault, async () => {
          using sealing = await this.#sealing(order);
          return await node.handOver(sealing.sealed, signal);
        }),
      arrive: (order, signal) =>
        usable(order.vault, () => this.#withKey(node, order, (keyed) => node.arrive(keyed, signal))),
      ensureReady: (vault, template, size) => usable(vault, () => node.ensureReady(vault, template, size)),
      exportPoints: (order, signal) => this.#stream(order.vault, () => this.#exported(node, order, signal)),
      readArchive: (source) => this.#withKey(node, source, (keyed) => node.readArchive(keyed)),
      // It opens nothing, and what is being removed keeps the vault open.
      deletePoint: (vault, snapshotId) =>
        this.#orGone(
          vault,
          () => this.#using(vault, () => node.deletePoint(vault, snapshotId)),
          () => undefined,
        ),
    };
    return new Proxy(node, {
      get(target, name) {
        const own = Object.hasOwn(opens, name) ? opens[name as keyof NodePort] : undefined;
        if (own !== undefined) return own;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  /** Closes what nothing has needed for a while, and has the keys of what is needed. */
  async closeUnused(): Promise<void> {
    const { node, clock, logger } = this.#ports;
    const present = await node.vaults();
    this.#open = openAmong(present);
    for (const { vault, state, lives } of present) {
      if (state === 'open' && lives > 0) await this.#confirmOpen(vault);
      // That one has no key to be rid of, and is open from the node's start.
      if (state !== 'open' || lives > 0 || vault === DEFAULT_VAULT) continue;
      const { count, lastMs } = this.#useOf(vault);
      if (count > 0 || clock.monotonicMs() - lastMs < this.#closeAfterMs) continue;
      await this.close(vault, { endLives: false }).catch((err: unknown) =>
        logger.warn({ vault, err }, 'an unused vault could not be closed'),
      );
    }
  }

  /** One that was open before this process was there: its key is to be had, or that it may not be used any more is to be known. */
  async #confirmOpen(name: VaultName): Promise<void> {
    if (this.#confirmed.has(name)) return;
    await this.ensureOpen(name).catch((err: unknown) =>
      this.#ports.logger.warn({ vault: name, err }, 'an open vault is one that could not be opened now'),
    );
  }

  /** After an opening that is under way. Idempotent. Throws `vault_in_use` while something runs in it that is not to be ended. */
  async close(name: VaultName, { endLives }: { readonly endLives: boolean }): Promise<void> {
    await this.#opening.get(name)?.catch(() => undefined);
    const closing = this.#closeNow(name, endLives).finally(() => this.#closing.delete(name));
    this.#closing.set(name, closing);
    await closing;
  }

  async #closeNow(name: VaultName, endLives: boolean): Promise<void> {
    this.#isShut(name);
    await this.#ports.node.closeVault({ vault: name, endLives });
    this.#keys.closed(name);
    this.#ports.logger.info({ vault: name, endLives }, 'a vault is closed');
  }

  #isReady(name: VaultName): boolean {
    if (this.#open?.has(name) !== true || this.#closing.has(name)) return false;
    if (this.#confirmed.has(name)) return true;
    return (this.#askAgainMs.get(name) ?? Number.NEGATIVE_INFINITY) > this.#ports.clock.monotonicMs();
  }

  #isShut(name: VaultName): void {
    this.#open?.delete(name);
    this.#confirmed.delete(name);
    this.#askAgainMs.delete(name);
  }

  async #openNow(name: VaultName): Promise<void> {
    await this.#closing.get(name)?.catch(() => undefined);
    const { clock, logger } = this.#ports;
    const sinceMs = clock.monotonicMs();
    const wasOpen = (await this.opened()).includes(name);
    try {
      await this.#unlock(name, wasOpen);
    } catch (thrown) {
      // It was opened before this process was there. That nobody can be asked now is no reason to stop what goes on in it.
      if (!wasOpen || !isCode(thrown, 'kms_unavailable')) throw asShut(name, thrown);
      logger.warn({ vault: name, err: thrown }, 'an open vault is used while its KMS does not answer');
      this.#askAgainMs.set(name, clock.monotonicMs() + ASK_AGAIN_MS);
      return;
    }
    this.#confirmed.add(name);
    this.#open?.add(name);
    this.#useOf(name);
    logger.info({ vault: name, durationMs: Math.round(clock.monotonicMs() - sinceMs) }, 'a vault is open');
  }

  async #unlock(name: VaultName, wasOpen: boolean): Promise<void> {
    const { node } = this.#ports;
    using opening = await this.#keys.opening(name, null);
    const { recorded, key, token } = opening;
    if (recorded === null && name !== DEFAULT_VAULT) {
      throw new AppError('vault_closed', `The vault ${name} is none that is recorded here.`);
    }
    if (recorded?.state === 'making') {
      const { sizeBytes } = recorded;
      await withCopy(key, (bytes) => node.createVault({ vault: name, sizeBytes, key: bytes, token }));
    }
    await withCopy(key, (bytes) => node.openVault({ vault: name, key: bytes })).catch((thrown: unknown) => {
      throw isCode(thrown, 'not_found') ? lost(name, thrown) : thrown;
    });
    try {
      await opening.confirm();
      if (recorded?.headerIsBehind === true && key !== null) await this.#keys.tellHeader(recorded, key);
    } catch (thrown) {
      // It was revoked meanwhile. Where something ran in it before, that is ended as its policy says.
      if (isCode(thrown, 'vault_revoked') && !wasOpen) await node.closeVault({ vault: name, endLives: true });
      throw thrown;
    }
  }

  async #within<T>(name: VaultName, call: () => Promise<T>): Promise<T> {
    return this.#using(name, async () => {
      await this.ensureOpen(name);
      return await this.#orOpened(name, call);
    });
  }

  /** Once more after an opening, where the vault is closed: nothing was done then. */
  async #orOpened<T>(name: VaultName, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (thrown) {
      if (!isCode(thrown, 'vault_closed')) throw thrown;
      this.#isShut(name);
      await this.ensureOpen(name);
      return await call();
    }
  }

  /** Opens nothing; but one that was thought to be open is, since somebody may have begun to close it, and not have done so. */
  async #again<T>(name: VaultName, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (thrown) {
      const isNews = this.#open?.has(name) === true || this.#opening.has(name);
      if (!isNews || !isCode(thrown, 'vault_closed')) throw thrown;
      this.#isShut(name);
      await this.ensureOpen(name);
      return await call();
    }
  }

  /** What was in a vault whose keys were destroyed is gone, and so need not be removed. */
  async #orGone<T>(name: VaultName, call: () => Promise<T>, gone: () => T): Promise<T> {
    try {
      return await call();
    } catch (thrown) {
      if (!isShut(thrown) && !isCode(thrown, 'not_found')) throw thrown;
      const state = (await this.#ports.records.vaults.find(name))?.state;
      if (state !== 'removing' && state !== 'removed') throw thrown;
      return gone();
    }
  }

  /** As `#within`; one that was refused before its first item is opened again. */
  async *#stream<T>(name: VaultName, call: () => AsyncIterable<T>): AsyncGenerator<T, void> {
    const use = this.#useOf(name);
    use.count += 1;
    let begun = false;
    const usable = this.whileUsable(name);
    const once = async function* () {
      for await (const item of call()) {
        usable.throwIfAborted();
        begun = true;
        yield item;
      }
    };
    try {
      await this.ensureOpen(name);
      this.requireUsable(name);
      try {
        yield* once();
      } catch (thrown) {
        if (begun || !isCode(thrown, 'vault_closed')) throw thrown;
        this.#isShut(name);
        await this.ensureOpen(name);
        yield* once();
      }
    } finally {
      this.#ended(use);
    }
  }

  /** An order to export, with what its archive is encrypted with: a copy of the key for each time that it is given, wiped at its end. */
  async #sealing<O extends Sealable>(order: O): Promise<{ readonly sealed: O } & Disposable> {
    const seal = await this.#keys.archiveSeal(order.vault, order.projectId);
    if (seal === null) return { sealed: order, [Symbol.dispose]: () => undefined };
    const { key, wrapped } = seal;
    return { sealed: { ...order, seal: { key: key.reveal(), wrapped } }, [Symbol.dispose]: () => key.wipe() };
  }

  async *#exported(
    node: Pick<NodePort, 'exportPoints'>,
    ...[order, signal]: Parameters<NodePort['exportPoints']>
  ): AsyncGenerator<ExportEvent, void> {
    using sealing = await this.#sealing(order);
    yield* node.exportPoints(sealing.sealed, signal);
  }

  /** The same for what reads an archive, whoever made it. Where it cannot be read at all, the node says whether that matters. */
  async #withKey<S extends SealedSource, T>(
    node: Pick<NodePort, 'readArchiveKey'>,
    source: S,
    call: (keyed: S) => Promise<T>,
  ): Promise<T> {
    const { location, archive } = source;
    const ref = parseArchiveRef(archive);
    const plain = (thrown: unknown) => {
      if (isCode(thrown, 'not_found') || isCode(thrown, 'archive_damaged')) return null;
      throw thrown;
    };
    const wrapped = ref === undefined ? null : await node.readArchiveKey({ location, archive }).catch(plain);
    if (ref === undefined || wrapped === null) return await call(source);
    using key = await this.#keys.archiveKey(wrapped, ref.space);
    return await call({ ...source, key: key.reveal() });
  }

  async #using<T>(name: VaultName, call: () => Promise<T>): Promise<T> {
    const use = this.#useOf(name);
    use.count += 1;
    try {
      return await call();
    } finally {
      this.#ended(use);
    }
  }

  #ended(use: Use): void {
    use.count -= 1;
    use.lastMs = this.#ports.clock.monotonicMs();
  }

  /** One that was never used here counts from now on. */
  #useOf(name: VaultName): Use {
    const use = this.#uses.get(name) ?? { count: 0, lastMs: this.#ports.clock.monotonicMs() };
    this.#uses.set(name, use);
    return use;
  }

  async #look(): Promise<ReadonlySet<VaultName>> {
    const open = openAmong(await this.#ports.node.vaults());
    this.#open = open;
    return open;
  }
}

/** Whether it says that a vault is not open, and cannot be opened now: nothing was done then. */
export function isShut(thrown: unknown): boolean {
  return thrown instanceof AppError && SHUT.has(thrown.code);
}

const SHUT: ReadonlySet<string> = new Set(SHUT_CODES);

/** Whatever went wrong, it is closed, and can be tried again; but what says that the node or the records do not answer says just that. */
function asShut(name: VaultName, thrown: unknown): AppError {
  const cause = asAppError(thrown);
  if (cause.code !== 'internal') return cause;
  return new AppError('vault_closed', `The vault ${name} could not be opened: ${cause.message}`, { cause });
}

function isCode(thrown: unknown, code: AppError['code']): boolean {
  return thrown instanceof AppError && thrown.code === code;
}

function openAmong(vaults: readonly NodeVault[]): Set<VaultName> {
  return new Set(vaults.filter(({ state }) => state === 'open').map(({ vault }) => vault));
}

/** One that was made is not made again in its place: it would be empty. */
function lost(name: VaultName, cause: unknown): AppError {
  return new AppError('vault_damaged', `The container of the vault ${name} is not on its node.`, { cause });
}

/** What takes the bytes wipes its own; these are the copy that was sent. */
async function withCopy<T>(key: KeyBytes | null, work: (bytes: Uint8Array | null) => Promise<T>): Promise<T> {
  if (key === null) return work(null);
  using copy = key.copy();
  return await work(copy.reveal());
}
