/**
 * Taking up what an earlier process left. The records in the vaults say which life each sandbox has; the runtime says
 * which VMs were started. A VM that a record names is adopted, in whatever state it is, and goes on; any other VM belongs
 * to something that was never finished and is ended. Files of lives that no record names are removed. While a record cannot be
 * read, or a vault that is mounted be opened, nobody knows what it names: whatever no other record names is left as it is.
 */
import type { LifeId, Vault, Vm } from '@space/core';
import type { Held, Ledger } from './ledger.ts';
import { Life } from './life.ts';
import type { LifeMachinery } from './start-life.ts';

/** Of vaults that are open, at the start of the node. `isAll`: no other one is mounted. */
export async function recoverLives(
  machinery: LifeMachinery,
  ledger: Ledger,
  { vaults, isAll }: { readonly vaults: readonly Vault[]; readonly isAll: boolean },
): Promise<Life[]> {
  const named = new Map(ledger.held().flatMap((held) => (held.record.life ? [[held.record.life, held]] : [])));
  const lives: Life[] = [];
  const unread = ledger.aside();
  const isSure = isAll && unread.length === 0;
  for (const reason of unread) machinery.onWarning?.(reason.message);
  for (const survivor of await machinery.runtime.survivors()) {
    const held = named.get(survivor.lifeId);
    if (held === undefined && !isSure) continue;
    const vm = await machinery.runtime.adopt(survivor);
    if (vm === null) continue;
    if (held === undefined) {
      await endStray(vm, machinery);
      continue;
    }
    lives.push(await takeUp(vm, held, machinery));
  }
  if (isSure) await removeStrays(vaults, new Set(named.keys()));
  return lives;
}

/**
 * Of one vault that is opened later. Where it was mounted, microVMs may run on it that its records name, and others that were never
 * finished: those, and their files, are left to the next start. Where it was not, none can.
 */
export async function recoverVault(
  machinery: LifeMachinery,
  ledger: Ledger,
  {
    vault,
    wasMounted,
    known,
  }: { readonly vault: Vault; readonly wasMounted: boolean; readonly known: ReadonlySet<LifeId> },
): Promise<Life[]> {
  const own = ledger.held().filter((held) => held.vault === vault && held.record.life !== null);
  const named = new Map(own.map((held) => [held.record.life, held]));
  if (!wasMounted) {
    const isUnread = (await vault.sandboxes()).damaged.length > 0;
    if (!isUnread) await removeStrays([vault], new Set(named.keys()));
    return [];
  }
  const lives: Life[] = [];
  for (const survivor of await machinery.runtime.survivors()) {
    const held = named.get(survivor.lifeId);
    if (held === undefined || known.has(survivor.lifeId)) continue;
    const vm = await machinery.runtime.adopt(survivor);
    if (vm !== null) lives.push(await takeUp(vm, held, machinery));
  }
  return lives;
}

/** The VM may stand still in the middle of a window of the dead process: it runs on, and its user code with it. */
async function takeUp(vm: Vm, held: Held, machinery: LifeMachinery): Promise<Life> {
  machinery.budget.adopt(vm.record.lifeId, held.record.size.memoryMib);
  const life = new Life(held.vault, vm, machinery.connectGuest);
  life.goOnAtNextUse();
  machinery.spaceWatch.add(life, held.record.size);
  // A full vault holds it back.
  await machinery.spaceWatch.look(life.vault);
  // Not awaited: a guest whose agent is silent must not hold up the others. It is not a VM that is gone either: the next use
  // tries again and reports it.
  life.guest().catch(() => undefined);
  return life;
}

/** One that cannot be ended now is met again at the next start, and holds up nobody. */
async function endStray(vm: Vm, { onWarning }: LifeMachinery): Promise<void> {
  await vm.kill().catch((thrown: unknown) => onWarning?.(`A stray VM was not ended: ${String(thrown)}`));
}

async function removeStrays(vaults: readonly Vault[], named: ReadonlySet<string | null>): Promise<void> {
  for (const vault of vaults) {
    for (const lifeId of await vault.lives()) {
      if (!named.has(lifeId)) await vault.deleteLife(lifeId);
    }
  }
}
