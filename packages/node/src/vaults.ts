/**
 * The vaults of this node, of which each is closed, or being opened, open, or being closed. What lies in one is known only while it
 * is open: of a sandbox in a closed vault the node knows nothing, which is not to say that it is gone.
 *
 *     closed ──open──► opening ──► open ──close──► closing ──► closed
 *                          ▲                          │
 *                          └────────── open ──────────┘   what could not be unmounted is taken back
 *
 * - One change of a vault at a time. Who asks for what is so already is answered at once.
 * - Whoever works in a vault holds a *use* of it, from before its first look to after its last effect; a close waits for them.
 * - A close that is told to end what runs refuses everything from its first step on, also when it fails: nothing begins any more in
 *   a vault that was to be closed for good reason, until somebody opens it again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AppError,
  type KeyBytes,
  type NodeCapabilities,
  type NodeVault,
  type Vault,
  type VaultContainer,
  type VaultContainers,
  type VaultName,
  type VaultWish,
} from '@space/core';

/** How long a close waits for what is under way. A snapshot takes seconds; an export, which may take hours, is given up. */
const DRAIN_MS = 20_000;
const LOOK_MS = 20;

interface Held {
  readonly vault: Vault;
  readonly encrypted: boolean;
  isOpen: boolean;
  uses: number;
  /** Aborts what takes long in it. */
  stop: AbortController;
}

/** A use of an open vault, from its beginning to its disposal. */
export interface VaultUse extends Disposable {
  readonly vault: Vault;
  /** Aborts when the vault is to be closed whatever is under way. */
  readonly signal: AbortSignal;
}

/** What the rest of the node does when a vault opens and closes. */
export interface VaultHooks {
  /** Takes up what lies in it, before anybody may use it. `wasMounted`: microVMs may run on it. May be called again. */
  opened(vault: Vault, wasMounted: boolean): Promise<void>;
  livesIn(vault: VaultName): number;
  endLives(vault: VaultName): Promise<void>;
  /** Ends what is being started, which then fails. */
  endUnready(vault: VaultName): void;
  /** Nobody uses it any more, and it is about to be unmounted. */
  leaving(vault: Vault): Promise<void>;
  closed(vault: VaultName): void;
}

export class Vaults {
  readonly #containers: VaultContainers;
  readonly #hooks: VaultHooks;
  readonly #held = new Map<VaultName, Held>();
  readonly #opening = new Set<VaultName>();
  /** All that the node had when it was last asked. */
  #known = new Set<VaultName>();
  readonly #turns = new Map<VaultName, Promise<unknown>>();

  constructor(containers: VaultContainers, hooks: VaultHooks) {
    this.#containers = containers;
    this.#hooks = hooks;
  }

  /** Throws `vault_closed`. */
  get(name: VaultName): Vault {
    return this.#usable(name).vault;
  }

  /** Throws `vault_closed`. */
  begin(name: VaultName): VaultUse {
    const held = this.#usable(name);
    held.uses += 1;
    let isOver = false;
    return {
      vault: held.vault,
      signal: held.stop.signal,
      [Symbol.dispose]() {
        if (!isOver) held.uses -= 1;
        isOver = true;
      },
    };
  }

  /** Throws `vault_closed`, with nothing done. */
  async use<T>(name: VaultName, work: (use: VaultUse) => Promise<T>): Promise<T> {
    using use = this.begin(name);
    try {
      return await work(use);
    } catch (cause) {
      // Whatever it failed by, that is why.
      throw use.signal.aborted ? closedError(name, cause) : cause;
    }
  }

  opened(): readonly Vault[] {
    return [...this.#held.values()].filter(({ isOpen }) => isOpen).map(({ vault }) => vault);
  }

  /** Whether there may be one whose content is not known. */
  get someAreClosed(): boolean {
    return [...this.#known].some((name) => this.#held.get(name)?.isOpen !== true);
  }

  /** Opens what is mounted already, without recovering it; returns what could not be, which stays as it is. */
  async takeUp(): Promise<readonly { readonly name: VaultName; readonly cause: unknown }[]> {
    const failed: { readonly name: VaultName; readonly cause: unknown }[] = [];
    for (const container of await this.#list()) {
      if (!container.open) continue;
      try {
        this.#hold(await this.#containers.open(container.vault, null), container);
      } catch (cause) {
        failed.push({ name: container.vault, cause });
      }
    }
    return failed;
  }

  async create(name: VaultName, wish: VaultWish): Promise<void> {
    await this.#inTurn(name, () => this.#containers.create(name, wish));
    this.#known.add(name);
  }

  async keepToken(name: VaultName, key: KeyBytes, token: string): Promise<void> {
    await this.#inTurn(name, () => this.#containers.keepToken(name, key, token));
  }

  async grow(name: VaultName, sizeBytes: number): Promise<void> {
    await this.#inTurn(name, () => this.#containers.grow(name, sizeBytes));
  }

  async open(name: VaultName, key: KeyBytes | null): Promise<void> {
    await this.#inTurn(name, () => this.#open(name, key));
  }

  /** Throws `vault_in_use`, and it is open as before; with `endLives`, it is used by nobody all the same. */
  async close(name: VaultName, endLives: boolean): Promise<void> {
    await this.#inTurn(name, () => this.#close(name, endLives));
  }

  async remove(name: VaultName): Promise<void> {
    await this.#inTurn(name, async () => {
      if (this.#held.has(name)) throw new AppError('vault_in_use', `The vault ${name} is open.`);
      await this.#containers.remove(name);
      this.#known.delete(name);
    });
  }

  /** Those that are open, and answer: one that does not harms no other. Nobody else is asked, since it is told with each create. */
  async openWithSpace(): Promise<NodeCapabilities['vaults']> {
    const open = [...this.#held.values()].filter(({ isOpen }) => isOpen);
    const seen = await Promise.all(
      open.map(async ({ vault, encrypted }) => {
        const space = await vault.space().catch(() => null);
        return space === null ? [] : [{ name: vault.name, encrypted, ...space }];
      }),
    );
    return seen.flat();
  }

  async list(): Promise<readonly NodeVault[]> {
    const containers = await this.#list();
    return Promise.all(containers.map((container) => this.#view(container)));
  }

  /** Unmounts all; nothing may run any more. */
  async closeAll(): Promise<void> {
    for (const { vault } of this.#held.values()) await vault.close();
    this.#held.clear();
  }

  async #view({ vault: name, encrypted, way }: VaultContainer): Promise<NodeVault> {
    const held = this.#held.get(name);
    const base = { vault: name, encrypted, way, lives: this.#hooks.livesIn(name) };
    if (held?.isOpen === true) return { ...base, state: 'open', space: await held.vault.space().catch(() => null) };
    const state = this.#opening.has(name) ? 'opening' : held === undefined ? 'closed' : 'closing';
    return { ...base, state, space: null };
  }

  async #list(): Promise<readonly VaultContainer[]> {
    const containers = await this.#containers.list();
    this.#known = new Set(containers.map(({ vault }) => vault));
    return containers;
  }

  async #open(name: VaultName, key: KeyBytes | null): Promise<void> {
    const present = this.#held.get(name);
    if (present?.isOpen === true) return;
    this.#opening.add(name);
    try {
      if (present !== undefined) await this.#takeBack(present);
      else await this.#openClosed(name, key);
    } finally {
      this.#opening.delete(name);
    }
  }

  /** One that was to be closed, and could not be. */
  async #takeBack(held: Held): Promise<void> {
    await this.#hooks.opened(held.vault, true);
    held.stop = new AbortController();
    held.isOpen = true;
  }

  async #openClosed(name: VaultName, key: KeyBytes | null): Promise<void> {
    const container = (await this.#list()).find(({ vault }) => vault === name);
    if (container === undefined) throw new AppError('not_found', `This node has no vault ${name}.`);
    const vault = await this.#containers.open(name, key);
    const held = this.#hold(vault, container, false);
    try {
      await this.#hooks.opened(vault, container.open);
    } catch (thrown) {
      // Where microVMs run on it, it stays; who opens it again tries again.
      await this.#unmount(held).catch(() => undefined);
      throw thrown;
    }
    held.isOpen = true;
  }

  async #close(name: VaultName, endLives: boolean): Promise<void> {
    const held = this.#held.get(name);
    if (held === undefined) return;
    if (!endLives) this.#requireNoLives(name);
    held.isOpen = false;
    if (endLives) {
      held.stop.abort(closedError(name));
      await this.#hooks.endLives(name);
    }
    const isQuiet = await drained(held, () => endLives && this.#hooks.endUnready(name));
    // What was being started when it began may run by now.
    if (endLives) await this.#hooks.endLives(name);
    try {
      if (!isQuiet) throw inUse(name, `${held.uses} calls that use it have not ended`, { uses: held.uses });
      this.#requireNoLives(name);
    } catch (thrown) {
      held.isOpen = !endLives;
      throw thrown;
    }
    await this.#unmount(held);
  }

  async #unmount(held: Held): Promise<void> {
    await this.#hooks.leaving(held.vault);
    await held.vault.close();
    this.#held.delete(held.vault.name);
    this.#hooks.closed(held.vault.name);
  }

  #requireNoLives(name: VaultName): void {
    const lives = this.#hooks.livesIn(name);
    if (lives > 0) throw inUse(name, `${lives} sandboxes run in it`, { lives });
  }

  #hold(vault: Vault, { encrypted }: VaultContainer, isOpen = true): Held {
    const held: Held = { vault, encrypted, isOpen, uses: 0, stop: new AbortController() };
    this.#held.set(vault.name, held);
    return held;
  }

  #usable(name: VaultName): Held {
    const held = this.#held.get(name);
    if (held?.isOpen !== true) throw closedError(name);
    return held;
  }

  #inTurn<T>(name: VaultName, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(work);
    const tail = turn.catch(() => undefined);
    this.#turns.set(name, tail);
    void tail.then(() => {
      if (this.#turns.get(name) === tail) this.#turns.delete(name);
    });
    return turn;
  }
}

/** Whether nobody uses it any more. */
async function drained(held: Held, atEachLook: () => unknown): Promise<boolean> {
  for (let waitedMs = 0; held.uses > 0; waitedMs += LOOK_MS) {
    atEachLook();
    if (waitedMs >= DRAIN_MS) return false;
    await sleep(LOOK_MS);
  }
  return true;
}

function closedError(name: VaultName, cause?: unknown): AppError {
  const context = { detail: `The vault ${name} is not open on this node.`, facts: { vault: name } };
  return new AppError('vault_closed', context, cause === undefined ? undefined : { cause });
}

function inUse(name: VaultName, why: string, facts: Record<string, number>): AppError {
  return new AppError('vault_in_use', {
    detail: `The vault ${name} is not closed: ${why}.`,
    facts: { vault: name, ...facts },
  });
}
