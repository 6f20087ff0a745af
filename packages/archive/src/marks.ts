/**
 * Who uses a space of an archive now, said in the archive itself, since several installations may share it.
 *
 * An export relies on pieces that no index names yet, and an import on those of an archive that may be removed meanwhile. So each *use*
 * leaves a mark first and then looks for those of collections; a collection leaves its mark first and then looks for all others. Whichever
 * came second sees the other. A use waits, with its mark up, and the collection gives way to it; of two collections at least one goes.
 *
 * Where uses follow each other without end, a collection would never have its turn. So one that has been put off for long *insists*: it
 * leaves a mark of its turn, and who comes then waits without a mark. Once those who came before have ended, it has the space to
 * itself. All of that is bounded, so that it does not hold up for long who waits; and it is no more than politeness: whoever does not wait is given way to.
 *
 * A process that died leaves its mark. So each holds for a time only, after which its owner has given up or said again that it is there;
 * twice that, and it is removed by whoever meets it. Each has a name of its own, so that nobody removes one that was made meanwhile.
 * Whoever was away for so long without knowing it, on a machine that slept, finds its own mark gone before it makes an archive of
 * what may be gone too.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type Archive, type ArchiveKey, type Chance, type Clock, type ProjectId } from '@space/core';
import { z } from 'zod';

const MAX_HELD_MS = { use: 12 * 60 * 60_000, collect: 2 * 60_000, turn: 3 * 60_000 };
type Kind = keyof typeof MAX_HELD_MS;

/** How long a use waits: a collection that died holds it up for less. */
const MAX_WAIT_MS = 10 * 60_000;
/** How much of its turn a collection waits for those who came before. */
const TURN_WAIT_MS = 60_000;
const LOOK_MS = 500;
const BEAT_MS = 2_000;
const MAX_MARK_BYTES = 1000;

export interface MarkPlan {
  readonly archive: Archive;
  readonly space: ProjectId;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly signal?: AbortSignal;
  readonly maxWaitMs?: number;
  /** Of a collection: see above. */
  readonly insists?: boolean;
  /** Between two looks of whoever waits. */
  readonly lookMs?: number;
  /** How often a collection looks for uses, and says that it is there. */
  readonly beatMs?: number;
}

export interface Held extends AsyncDisposable {
  /** Aborts when it has lasted too long. */
  readonly signal: AbortSignal;
  /** The archive, which makes no index any more when the mark is gone. */
  readonly archive: Archive;
}

export interface Collection extends AsyncDisposable {
  /** To be asked before each thing that it does; false: it is to end at once, somebody waits or it was held up for too long. */
  goesOn(): Promise<boolean>;
}

const mark = z.strictObject({ at: z.number() });

/** Throws `archive_unavailable`, also when a collection does not end. */
export async function beginUse(plan: MarkPlan): Promise<Held> {
  const { archive, clock, signal } = plan;
  const key = keyOf(plan, 'use');
  const since = clock.monotonicMs();
  const tooLong = AbortSignal.timeout(MAX_HELD_MS.use);
  const hasWaited = () => clock.monotonicMs() - since >= (plan.maxWaitMs ?? MAX_WAIT_MS);
  while (!hasWaited() && !(await isFree(plan, ['turn'], null))) await look(plan);
  await putMark(plan, key);
  try {
    while (!(await isFree(plan, ['collect'], key))) {
      if (hasWaited()) {
        throw new AppError('archive_unavailable', 'Archives of the project are being collected; that does not end.');
      }
      await look(plan);
    }
  } catch (thrown) {
    await removeMark(plan, key);
    throw thrown;
  }
  const check = async () => {
    if (await archive.has(key, signal)) return;
    throw new AppError('archive_unavailable', 'This has taken so long that others have taken it for dead.');
  };
  return {
    signal: signal === undefined ? tooLong : AbortSignal.any([signal, tooLong]),
    archive: checkedArchive(archive, check),
    [Symbol.asyncDispose]: () => removeMark(plan, key),
  };
}

/** Null: another collection or a use is under way. */
export function beginCollection(plan: MarkPlan): Promise<Collection | null> {
  return plan.insists === true ? takeTurn(plan) : beginIfFree(plan);
}

async function takeTurn(plan: MarkPlan): Promise<Collection | null> {
  const { clock } = plan;
  const key = keyOf(plan, 'turn');
  const since = clock.monotonicMs();
  const lasts = (limitMs: number) => clock.monotonicMs() - since < limitMs;
  await putMark(plan, key);
  try {
    while (lasts(plan.maxWaitMs ?? TURN_WAIT_MS) && !(await isFree(plan, ['use', 'collect'], null))) await look(plan);
    const collection = await beginIfFree(plan);
    if (collection !== null) {
      return {
        goesOn: async () => lasts(MAX_HELD_MS.turn) && (await collection.goesOn()),
        async [Symbol.asyncDispose]() {
          await collection[Symbol.asyncDispose]();
          await removeMark(plan, key);
        },
      };
    }
  } catch (thrown) {
    await removeMark(plan, key);
    throw thrown;
  }
  await removeMark(plan, key);
  return null;
}

async function beginIfFree(plan: MarkPlan): Promise<Collection | null> {
  const { clock } = plan;
  // Nobody is made to wait for what would give way at once.
  if (!(await isFree(plan, ['use', 'collect'], null))) return null;
  const key = keyOf(plan, 'collect');
  const now = () => [clock.monotonicMs(), clock.now()] as const;
  const since = (then: ReturnType<typeof now>) => Math.max(...now().map((ms, at) => Math.abs(ms - (then[at] ?? ms))));
  let beat = now();
  await putMark(plan, key);
  const collection: Collection = {
    async goesOn() {
      const elapsedMs = since(beat);
      if (elapsedMs >= MAX_HELD_MS.collect) return false;
      if (elapsedMs < (plan.beatMs ?? BEAT_MS)) return true;
      if (!(await isFree(plan, ['use'], key))) return false;
      const next = now();
      await putMark(plan, key);
      beat = next;
      return since(next) < MAX_HELD_MS.collect;
    },
    [Symbol.asyncDispose]: () => removeMark(plan, key),
  };
  try {
    if (await isFree(plan, ['use', 'collect'], key)) return collection;
  } catch (thrown) {
    await removeMark(plan, key);
    throw thrown;
  }
  await removeMark(plan, key);
  return null;
}

type MarkKey = Extract<ArchiveKey, { readonly kind: 'mark' }>;

function keyOf({ space, chance }: MarkPlan, kind: Kind): MarkKey {
  return { kind: 'mark', space, name: `${kind}-${Buffer.from(chance.bytes(16)).toString('hex')}` };
}

async function look({ lookMs = LOOK_MS, signal }: MarkPlan): Promise<void> {
  await sleep(lookMs, undefined, signal === undefined ? {} : { signal });
}

function putMark({ archive, clock, signal }: MarkPlan, key: MarkKey): Promise<void> {
  return archive.put(key, Buffer.from(JSON.stringify({ at: clock.now() })), signal);
}

/** Also when it was told to stop. One that stays is removed by others in time. */
function removeMark({ archive }: MarkPlan, key: MarkKey): Promise<void> {
  return archive.remove(key).catch(() => undefined);
}

/** Whether nobody else holds a mark of these kinds. */
async function isFree(plan: MarkPlan, kinds: readonly Kind[], own: MarkKey | null): Promise<boolean> {
  const { archive, space, signal } = plan;
  for await (const key of archive.list(space, 'marks', signal)) {
    if (key.kind !== 'mark' || key.name === own?.name) continue;
    const kind = kinds.find((one) => key.name.startsWith(`${one}-`));
    if (kind === undefined) continue;
    if (await isHeld(plan, key, kind)) return false;
    await archive.remove(key, signal);
  }
  return true;
}

/** A mark that cannot be read holds nothing: it appears whole, so it is none of ours. */
async function isHeld({ archive, clock, signal }: MarkPlan, key: ArchiveKey, kind: Kind): Promise<boolean> {
  const bytes = await archive.get(key, MAX_MARK_BYTES, signal);
  if (bytes === null) return false;
  try {
    const { at } = mark.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
    // Clocks of two machines differ.
    return Math.abs(clock.now() - at) < 2 * MAX_HELD_MS[kind];
  } catch {
    return false;
  }
}

function checkedArchive(archive: Archive, check: () => Promise<void>): Archive {
  return {
    put: async (key, bytes, signal) => {
      if (key.kind === 'index') await check();
      return archive.put(key, bytes, signal);
    },
    get: (...args) => archive.get(...args),
    create: (...args) => archive.create(...args),
    has: (...args) => archive.has(...args),
    remove: (...args) => archive.remove(...args),
    list: (...args) => archive.list(...args),
  };
}
