/**
 * Taking up what an earlier process left. The records in the vaults say which life each sandbox has; the runtime says
 * which VMs were started. A VM that a record names is adopted, in whatever state it is, and goes on; any other VM belongs
 * to something that was never finished and is ended. Files of lives that no record names are removed. While a record cannot be
 * read, nobody knows what it names: whatever no other record names is left as it is.
 */
import type { Vault, Vm } from '@space/core';
import type { Held, Ledger } from './ledger.ts';
import { Life } from './life.ts';
import type { LifeMachinery } from './start-life.ts';

export async function recoverLives(
  machinery: LifeMachinery,
  ledger: Ledger,
  vaults: readonly Vault[],
): Promise<Life[]> {
  const named = new Map(ledger.held().flatMap((held) => (held.record.life ? [[held.record.life, held]] : [])));
  const lives: Life[] = [];
  const unread = ledger.aside();
  for (const reason of unread) machinery.onWarning?.(reason.message);
  for (const survivor of await machinery.runtime.survivors()) {
    const held = named.get(survivor.lifeId);
    if (held === undefined && unread.length > 0) continue;
    const vm = await machinery.runtime.adopt(survivor);
    if (vm === null) continue;
    if (held === undefined) {
      await endStray(vm, machinery);
      continue;
    }
    lives.push(await takeUp(vm, held, machinery));
  }
  if (unread.length === 0) await removeStrays(vaults, new Set(named.keys()));
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

async function removeStrays(vaults: readonly Vault[], named: ReadonlySet<string>): Promise<void> {
  for (const vault of vaults) {
    for (const lifeId of await vault.lives()) {
      if (!named.has(lifeId)) await vault.deleteLife(lifeId);
    }
  }
}
