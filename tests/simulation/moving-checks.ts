/** After a schedule of moves: what was promised of two installations that share an archive. */
import { DEFAULT_PROJECT, type SandboxId } from '@space/core';
import {
  checkLeftovers,
  checkOrder,
  checkPoints,
  checkRecords,
  comeToRest,
  deleteAll,
  insist,
  textOf,
} from './checks.ts';
import type { Known } from './client.ts';
import type { MovingClient } from './moving-client.ts';
import type { World } from './world.ts';

const ARCHIVE_REST_MS = 60 * 60_000;
const LOOK_MS = 60_000;
const ROUND_MS = 20_000;

/** Of one installation each. */
export type Pair = readonly [MovingClient, MovingClient];

/** Looks at what both vaults say whenever one of them says something new. */
export function watchClaims([a, b]: readonly [World, World], tell: (violation: Error) => void): void {
  for (const world of [a, b]) {
    world.steps.onStep = (_, { call, at }) => {
      if (call !== 'writeSandbox' || at !== 'end') return;
      const here = new Set(ownedBy(a));
      const twice = ownedBy(b).filter((id) => here.has(id));
      if (twice.length > 0) tell(new Error(`both installations hold ${twice.join()} as their own`));
    };
  }
}

/** What may run there. */
function ownedBy(world: World): readonly SandboxId[] {
  return world.heldInVault().flatMap(({ sandboxId, moved }) => (moved === undefined ? [sandboxId] : []));
}

export async function checkBoth(pair: Pair): Promise<void> {
  for (const { world } of pair) await comeToRest(world);
  // Whose VMM died while the database was away is found by the next round.
  await pair[0].world.time.sleep(ROUND_MS);
  for (const { world } of pair) {
    await checkRecords(world);
    checkPoints(world);
  }
  const [{ history }] = pair;
  for (const known of history.known) await checkHad(pair, known);
  for (const known of history.known) checkOrder(known.reference, history.of(known));
  for (const client of pair) await deleteAll(history, client);
  for (const client of pair) await client.removeArchives();
  await checkArchive(pair[0].world);
  for (const { world } of pair) await checkLeftovers(world);
}

/** It is to be had from one of them, and only from one; one that has left is taken up, or back. */
async function checkHad(pair: Pair, known: Known): Promise<void> {
  const { id } = known;
  if (id === null) return;
  const states = await Promise.all(pair.map(({ world }) => world.records.findSandbox(id)));
  const isHeld = (at: number) => !['moved', 'deleted', undefined].includes(states[at]?.settled);
  insist(!(isHeld(0) && isHeld(1)), `${known.reference} is here and there`);
  let client = pair.find((_, at) => isHeld(at));
  if (client === undefined) {
    const left = states.findIndex((state) => state?.settled === 'moved' && state.moves === newest(states));
    // It was deleted, wherever it was.
    if (left === -1) return;
    client = await takenUp(pair, left as 0 | 1, known, states[left]?.moved?.archive ?? '');
    if (client === undefined) return;
  }
  const crashed = (await client.world.records.findSandbox(id))?.settled === 'crashed';
  if (crashed) insist((await client.resume(known)).kind === 'ok', `${known.reference} cannot be resumed`);
  const told = await client.look(known);
  insist(told.kind === 'ok', `${known.reference} cannot be used: ${textOf(told)}`);
  await client.pause(known);
  const begunAt = client.history.next();
  const base = { kind: 'look', value: client.world.contentNow(id), site: client.world.name, maybe: false } as const;
  known.happenings.push({ ...base, begunAt, endedAt: client.history.next(), text: 'from outside' });
}

function newest(states: readonly ({ readonly moves: number } | null)[]): number {
  return Math.max(...states.map((state) => state?.moves ?? 0));
}

/** Whoever has claimed it can have it; undefined: it was deleted where it had arrived. */
async function takenUp(pair: Pair, left: 0 | 1, known: Known, archive: string): Promise<MovingClient | undefined> {
  const [source, target] = left === 0 ? pair : [pair[1], pair[0]];
  const undone = await source.undo(known);
  if (undone.kind === 'ok') return source;
  const wasHere = known.happenings.some(({ kind, site }) => kind === 'delete' && site === target.world.name);
  const arrived = await target.arrive(known, archive);
  if (arrived.kind === 'ok') return target;
  insist(wasHere, `${known.reference} is nowhere to be had: ${textOf(undone)}; ${textOf(arrived)}`);
  return undefined;
}

/** Of what is deleted, nothing stays there but who has taken up what. */
async function checkArchive(world: World): Promise<void> {
  const prefix = `${DEFAULT_PROJECT}/`;
  const left = () => [...world.archive.objects.keys()].filter((path) => !path.startsWith(`${prefix}claims/`));
  const deadline = world.time.nowMs + ARCHIVE_REST_MS;
  for (;;) {
    // Of a process that died, or that could not remove it: it holds for a time, and nobody then; its own test has that.
    for (const path of left()) if (path.startsWith(`${prefix}marks/`)) world.archive.objects.delete(path);
    if (left().length === 0) return;
    insist(world.time.nowMs < deadline, `the archive still holds ${left().join()}`);
    await world.time.sleep(LOOK_MS);
  }
}
