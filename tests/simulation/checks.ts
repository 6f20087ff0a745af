/** After a schedule: the world comes to rest, and everything that was promised is looked at. Throws a `Violation`. */
import { DEFAULT_VAULT, MEMORY_RESERVED_MS, type SandboxId, statusOf } from '@space/core';
import type { Client, History, Known } from './client.ts';
import { explain, type Happening, repeatedMarks } from './model.ts';
import type { World } from './world.ts';

/** How long the platform may take until nothing is under way any more. */
const REST_WITHIN_MS = 240_000;
const LOOK_MS = 5_000;
const MAX_LOOKS = 50;
/** After it, what no record tells of is collected; see the collector. */
const STRAYS_MS = 45 * 60_000;
const STRAY_LOOK_MS = 60_000;

export class Violation extends Error {
  override readonly name = 'Violation';
}

export function insist(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Violation(what);
}

/** Faults are over, and every process runs. */
export async function comeToRest(world: World): Promise<void> {
  const deadline = world.time.nowMs + REST_WITHIN_MS;
  for (;;) {
    await world.time.sleep(LOOK_MS);
    const all = await world.records.allSandboxes();
    const isUp = world.node !== null && world.control !== null;
    const inFlight = all.filter(({ operation }) => operation !== null);
    if (isUp && inFlight.length === 0) return;
    const what = inFlight.map(({ id, operation }) => `${operation} of ${id}`).join(', ');
    insist(world.time.nowMs < deadline, `it does not come to rest: ${what || 'a process does not start'}`);
  }
}

export async function checkAll(history: History, client: Client): Promise<void> {
  const { world } = history;
  await comeToRest(world);
  await checkRecords(world);
  checkPoints(world);
  // Their memory may be needed for what has crashed.
  for (const known of history.known) if (await isRunning(world, known)) await client.pause(known);
  for (const [at, known] of history.known.entries()) await checkUsable(history, client, known, at % 3 === 0);
  await checkDeleted(history);
  checkSiblings(history);
  for (const known of history.known) checkOrder(known.reference, history.of(known));
  await deleteAll(history, client);
  await checkLeftovers(world);
}

/** What is recorded of each sandbox is real. */
export async function checkRecords(world: World): Promise<void> {
  for (const sandbox of await world.records.allSandboxes()) {
    const { real } = (await world.node?.port.inspect(sandbox.vault, sandbox.id).catch(() => undefined)) ?? {
      real: 'absent',
    };
    // What the node does not hold is told as crashed.
    const status = statusOf(sandbox);
    const isTrue = status === real || (status === 'crashed' && real === 'absent');
    insist(isTrue, `${sandbox.id} is told to be ${status}, and is ${real}`);
  }
}

/** What was durable holds what it held. */
export function checkPoints(world: World): void {
  for (const id of world.leftovers().points) {
    const content = world.contents.get(id);
    insist(content === undefined || content === world.contentOf(id), `the point ${id} holds other content than it did`);
  }
}

async function isRunning(world: World, { id }: Known): Promise<boolean> {
  return world.isSmall && id !== null && (await world.records.findSandbox(id))?.settled === 'running';
}

/** Each sandbox answers, after a resume when its VMM died; what it holds is seen from outside. */
async function checkUsable(history: History, client: Client, known: Known, isAsked: boolean): Promise<void> {
  const { world } = history;
  const record = known.id === null ? null : await world.records.findSandbox(known.id);
  if (record === null || record.settled === 'deleted') return;
  if (record.settled === 'crashed') {
    const resumed = await client.resume(known);
    insist(resumed.kind === 'ok', `${known.reference} cannot be resumed: ${textOf(resumed)}`);
  }
  if (isAsked) {
    const told = await client.look(known);
    insist(told.kind === 'ok', `${known.reference} cannot be used: ${textOf(told)}`);
    // The next may need its memory.
    await client.pause(known);
  }
  const begunAt = history.next();
  const value = world.contentNow(record.id);
  known.happenings.push({ kind: 'look', value, begunAt, endedAt: history.next(), maybe: false, text: 'from outside' });
}

export function textOf(told: { readonly kind: string; readonly error?: Error }): string {
  return told.error === undefined ? told.kind : told.error.message;
}

/** What somebody was told is deleted is. */
async function checkDeleted({ known, world }: History): Promise<void> {
  for (const { id, reference, happenings } of known) {
    const madeAt = Math.max(...happenings.map(({ kind, endedAt }) => (kind === 'create' ? endedAt : -1)));
    const isDeleted = happenings.some(({ kind, maybe, begunAt }) => kind === 'delete' && !maybe && begunAt > madeAt);
    if (!isDeleted || id === null) continue;
    const record = await world.records.findSandbox(id);
    insist(record?.settled === 'deleted', `${reference} was deleted, and is ${record?.settled}`);
    insist(
      !world.heldInVault().some(({ sandboxId }) => sandboxId === id),
      `${reference} was deleted, and lies in the vault`,
    );
  }
}

/** Nothing was made that nobody asked for, and nothing twice. */
function checkSiblings({ known }: History): void {
  const ids = known.flatMap(({ id }) => (id === null ? [] : [id]));
  insist(new Set(ids).size === ids.length, 'one sandbox was given to two callers');
}

/** Some order of what was done explains what everybody was told. */
export function checkOrder(reference: string, happenings: readonly Happening[]): void {
  for (const { value } of happenings) {
    const repeated = value === null ? [] : repeatedMarks(value);
    insist(repeated.length === 0, `${reference} has ${repeated.join()} more than once`);
  }
  if (explain(happenings)) return;
  const lines = happenings.map(
    ({ begunAt, endedAt, text, value, kept }) =>
      `  ${begunAt}–${endedAt === Infinity ? '' : endedAt} ${text}${value === null ? '' : ` = "${value}"`}${kept ? ` kept "${kept}"` : ''}`,
  );
  throw new Violation(`no order explains what was told of ${reference}:\n${lines.join('\n')}`);
}

export async function deleteAll({ known }: History, client: Client): Promise<void> {
  const { world } = client;
  for (const { id } of await world.records.allSandboxes()) {
    const mine = known.find((one) => one.id === id) ?? stranger(id);
    const told = await client.remove(mine);
    insist(told.kind === 'ok', `${id} cannot be deleted: ${textOf(told)}`);
  }
  await comeToRest(world);
}

function stranger(id: SandboxId): Known {
  return { reference: id, id, happenings: [], points: [] };
}

/** Nothing is left of what is gone. */
export async function checkLeftovers(world: World): Promise<void> {
  const deadline = world.time.nowMs + STRAYS_MS;
  for (let look = LOOK_MS; (await strayPoints(world)).length > 0; look = STRAY_LOOK_MS) {
    insist(world.time.nowMs < deadline, `points are left: ${(await strayPoints(world)).join()}`);
    await world.time.sleep(look);
  }
  // A template may still be made ready for somebody who has gone.
  for (let looks = 0; looks < MAX_LOOKS && world.leftovers().alive.length > 0; looks++) {
    if ((await poolAtRest(world)) === world.leftovers().alive.length) break;
    await world.time.sleep(LOOK_MS);
  }
  const members = await poolAtRest(world);
  const { lives, staging, sandboxes, alive } = world.leftovers();
  insist(alive.length === members, `VMs are left beside the ${members} of the pool: ${alive.join()}`);
  insist(lives.length === members, `files of lives are left beside the ${members} of the pool: ${lives.join()}`);
  insist(staging.length === 0, `staged points are left: ${staging.join()}`);
  insist(sandboxes.length === 0, `the node still holds ${sandboxes.join()}`);
  const promised = async () => (await world.node?.port.capabilities())?.memory.promisedMib ?? 0;
  // What was promised to a process that died comes back by itself.
  if ((await promised()) > 0) await world.time.sleep(MEMORY_RESERVED_MS);
  const promisedMib = await promised();
  insist(promisedMib === 0, `${promisedMib} MiB are still promised to nobody`);
}

/** How many members it has when it is not filling. */
async function poolAtRest(world: World): Promise<number> {
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    const { members = 0, filling = 0 } = (await world.node?.port.capabilities())?.pool ?? {};
    if (filling === 0) return members;
    await world.time.sleep(LOOK_MS);
  }
  throw new Violation('the pool does not come to rest');
}

/** All but ready snapshots. */
async function strayPoints(world: World): Promise<readonly string[]> {
  const strays: string[] = [];
  for (const id of world.leftovers().points) {
    // One that goes at this moment is none.
    const owner = await world.node?.port.pointOwner(DEFAULT_VAULT, id).catch(() => null);
    if (owner !== null) strays.push(id);
  }
  return strays;
}
