/** Composes the node from its ports. Each order is one function in `orders.ts`; guest calls go straight to the life. */
import { THREAD_PACKER } from '@space/archive';
import type {
  Archive,
  Chance,
  Clock,
  EgressPort,
  LifeEnd,
  LifeId,
  NodeCapabilities,
  NodePort,
  Packer,
  Runtime,
  SandboxId,
  SizeLimits,
  SpaceNews,
  Tracer,
  VaultContainers,
  VaultName,
} from '@space/core';
import { AppError, KeyBytes, NO_TRACES } from '@space/core';
import { guestCalls } from './guest-calls.ts';
import { Ledger } from './ledger.ts';
import type { ConnectGuest, Life } from './life.ts';
import { MemoryBudget } from './memory-budget.ts';
import { createMoves } from './moves.ts';
import { createOrders, type NodeState } from './orders.ts';
import { createPassage } from './passage.ts';
import { Pool, type PoolOptions } from './pool.ts';
import { ReadySnapshots, type TemplateSource } from './ready.ts';
import { recoverLives, recoverVault } from './recover.ts';
import { SpaceWatch } from './space-watch.ts';
import { endLife, type LifeMachinery } from './start-life.ts';
import { Vaults } from './vaults.ts';
import { WayOut } from './way-out.ts';

export type { TemplateSource } from './ready.ts';

export interface NodeOptions {
  readonly runtime: Runtime;
  readonly connectGuest: ConnectGuest;
  /** Where what leaves sandboxes goes. */
  readonly egress: EgressPort;
  /** Those that are mounted are taken up; the others wait for an order. */
  readonly containers: VaultContainers;
  readonly templates: readonly TemplateSource[];
  readonly clock: Clock;
  readonly chance: Chance;
  /** Where archives go to and come from, by name. */
  readonly archives: ReadonlyMap<string, Archive>;
  /** Left out: threads pack what goes there. */
  readonly packer?: Packer;
  /** Memory that VMs may take in all, MiB. */
  readonly memoryMib: number;
  readonly pool: PoolOptions;
  readonly limits: SizeLimits;
  /** Left out: nobody asked for traces. */
  readonly tracer?: Tracer;
  /** Told what has not gone well and does no harm now. */
  readonly onWarning?: (message: string) => void;
  readonly facts: Pick<NodeCapabilities, 'runtime' | 'accelerator' | 'vmmVersion' | 'jail'>;
}

export interface Node extends NodePort {
  /** Takes up what an earlier process left; must be called once, before any order. */
  open(): Promise<void>;
  /**
   * The builds of the VMM that something here needed when it was opened: the present one, and those of snapshots and running
   * VMs. Null: that is not known, since a snapshot could not be read now, or a vault is closed.
   */
  neededBuilds(): readonly string[] | null;
  /** Lets go of running VMs (they live on and are taken up by the next `open`) and of the vaults' locks. */
  release(): Promise<void>;
  /** Ends everything; every sandbox must be paused, or its memory since the last point is lost. */
  close(): Promise<void>;
}

export function createNode(options: NodeOptions): Node {
  const lives = new Map<SandboxId, Life>();
  const livesOf = (vault: VaultName) => [...lives.values()].filter((life) => life.vault.name === vault);
  const vaults: Vaults = new Vaults(options.containers, {
    async opened(vault, wasMounted) {
      await ledger.load(vault);
      const known = new Set([...lives.values()].map(({ lifeId }) => lifeId));
      admitAll(await recoverVault(machinery, ledger, { vault, wasMounted, known }));
      ready.beginLoad(vault);
    },
    livesIn: (vault) => livesOf(vault).length,
    async endLives(vault) {
      await Promise.allSettled(livesOf(vault).map((life) => endLife(machinery, life, 'its vault is closed')));
    },
    endUnready(vault) {
      for (const { vm, vault: of } of machinery.unready) if (of.name === vault) vm.kill().catch(() => undefined);
    },
    async leaving(vault) {
      await ready.leave(vault.name);
      await pool.forget(vault);
      await spaceWatch.forget(vault);
    },
    closed(vault) {
      ready.unload(vault);
      ledger.unload(vault);
    },
  });
  const ledger = new Ledger(vaults);
  const { tracer = NO_TRACES } = options;
  const listeners = new Set<(end: LifeEnd) => void>();
  const spaceListeners = new Set<(news: SpaceNews) => void>();
  const tellOfSpace = (news: SpaceNews) => {
    for (const listener of spaceListeners) listener(news);
  };
  const spaceWatch = new SpaceWatch({
    clock: options.clock,
    onTurned({ lifeId }) {
      for (const [sandboxId, life] of lives)
        if (life.lifeId === lifeId) tellOfSpace({ kind: 'turned', sandboxId, lifeId });
    },
    onShort(vault, availableBytes) {
      const short = vaults.opened().find(({ name }) => name === vault);
      if (short !== undefined) void pool.leave(short);
      tellOfSpace({ kind: 'short', vault, availableBytes });
    },
  });
  const machinery: LifeMachinery = {
    ...options,
    tracer,
    budget: new MemoryBudget(options.memoryMib, options.clock),
    spaceWatch,
    unready: new Set(),
    spares: {
      makeRoom: () => pool.makeRoom(),
      withSpace: (vault, work) => pool.withSpace(vault, work),
    },
  };
  const pool: Pool = new Pool(machinery, options.pool);
  const wayOut = new WayOut(options.egress);
  const ready = new ReadySnapshots(machinery, options.templates, (one) => pool.know(one));

  const state: NodeState = {
    ledger,
    vaults,
    machinery,
    pool,
    wayOut,
    lives,
    admit(sandboxId, life) {
      lives.set(sandboxId, life);
      void life.vm.ended.then((end) => {
        if (lives.get(sandboxId) === life) lives.delete(sandboxId);
        if (life.endReason !== null) return;
        machinery.budget.release(life.lifeId);
        for (const listener of listeners) listener({ sandboxId, lifeId: life.lifeId, detail: end.detail });
      });
    },
  };

  /** Makes recovered lives those of their sandboxes. */
  function admitAll(recovered: readonly Life[]): void {
    const owners = new Map<LifeId, SandboxId>(
      ledger.held().flatMap(({ record }) => (record.life ? [[record.life, record.sandboxId]] : [])),
    );
    for (const life of recovered) {
      const owner = owners.get(life.lifeId);
      if (owner === undefined) continue;
      state.admit(owner, life);
      wayOut.serve(owner, life);
    }
  }

  const stop = new AbortController();
  const { archives, limits, packer = THREAD_PACKER } = options;
  const ways = { archives, limits, packer, stop: stop.signal };

  return {
    ...createOrders(state),
    ...createPassage(state, ways),
    ...createMoves(state, ways),
    ...guestCalls((sandboxId) => usableLife(state, sandboxId)),
    ...vaultCalls(vaults),
    templates: async () => ready.status(),
    ensureReady: (vault, template, size) => vaults.use(vault, (use) => ready.ensure(use, template, size)),
    async reserveMemory(claims) {
      machinery.budget.claim(claims);
      await pool.makeRoom();
    },
    async releaseMemory(sandboxIds) {
      machinery.budget.unclaim(sandboxIds);
    },
    async usage(sandboxId) {
      const life = lives.get(sandboxId);
      return life === undefined ? null : life.usage();
    },
    async console(sandboxId) {
      return lives.get(sandboxId)?.vm.console() ?? null;
    },
    onLifeEnded(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    // It is never away from who holds it.
    onBack: () => () => undefined,
    onSpace(listener) {
      spaceListeners.add(listener);
      return () => spaceListeners.delete(listener);
    },
    async capabilities() {
      return {
        ...options.facts,
        limits: options.limits,
        memory: { totalMib: machinery.budget.totalMib, promisedMib: machinery.budget.promisedMib },
        pool: pool.status(),
        wayOut: wayOut.status(),
        vaults: await vaults.openWithSpace(),
        archives: [...options.archives.keys()],
      };
    },
    async open() {
      const failed = await vaults.takeUp();
      for (const { name, cause } of failed) options.onWarning?.(`The vault ${name} is left as it is: ${String(cause)}`);
      const opened = vaults.opened();
      for (const vault of opened) await ledger.load(vault);
      admitAll(await recoverLives(machinery, ledger, { vaults: opened, isAll: failed.length === 0 }));
      for (const vault of opened) await ready.load(vault);
    },
    neededBuilds() {
      const builds = ready.vmmBuilds();
      if (builds === null || vaults.someAreClosed) return null;
      const running = [...lives.values()].map(({ vm }) => vm.machine.vmmBuild);
      return [...new Set([options.runtime.machine.vmmBuild, ...builds, ...running])];
    },
    async release() {
      stop.abort(closing());
      spaceWatch.close();
      await pool.close();
      await Promise.all([...lives.values()].map((life) => life.release()));
      lives.clear();
      await options.runtime.close();
    },
    async close() {
      stop.abort(closing());
      spaceWatch.close();
      await pool.close();
      await Promise.all([...lives.values()].map((life) => life.end('the node was closed')));
      await options.runtime.close();
      await vaults.closeAll();
    },
  };
}

function closing(): AppError {
  return new AppError('unavailable', 'The node is being closed.');
}

/** Keys come as bytes, and go as soon as they were handed over. */
function vaultCalls(vaults: Vaults): Pick<NodePort, VaultCall> {
  return {
    vaults: () => vaults.list(),
    createVault: ({ vault, key, ...wish }) => withKey(key, (held) => vaults.create(vault, { ...wish, key: held })),
    openVault: ({ vault, key }) => withKey(key, (held) => vaults.open(vault, held)),
    closeVault: ({ vault, endLives }) => vaults.close(vault, endLives),
    async keepVaultToken({ vault, key, token }) {
      using held = new KeyBytes(key);
      await vaults.keepToken(vault, held, token);
    },
    growVault: (vault, sizeBytes) => vaults.grow(vault, sizeBytes),
    removeVault: (vault) => vaults.remove(vault),
  };
}

type VaultCall = 'vaults' | 'createVault' | 'openVault' | 'closeVault' | 'keepVaultToken' | 'growVault' | 'removeVault';

async function withKey<T>(bytes: Uint8Array | null, work: (key: KeyBytes | null) => Promise<T>): Promise<T> {
  if (bytes === null) return work(null);
  using key = new KeyBytes(bytes);
  return await work(key);
}

function usableLife(state: NodeState, sandboxId: SandboxId): Life {
  const held = state.ledger.find(sandboxId);
  if (held === undefined) {
    if (!state.vaults.someAreClosed) throw new AppError('not_found', `This node holds no sandbox ${sandboxId}.`);
    throw new AppError('vault_closed', `${sandboxId} lies in none of the vaults that are open on this node.`);
  }
  const life = state.lives.get(sandboxId);
  if (life !== undefined) return life;
  if (held.record.life !== null) throw new AppError('vm_lost', `The microVM of ${sandboxId} ended unexpectedly.`);
  throw new AppError('wrong_state', { detail: `${sandboxId} is paused.`, facts: { paused: true } });
}
