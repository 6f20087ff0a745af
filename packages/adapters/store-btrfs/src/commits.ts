/**
 * Commits of a vault's transactions, one after the other: who comes while one is under way gets the next, together with all who come
 * meanwhile.
 *
 * The kernel's call for it (START_SYNC) leaves the work to a thread, which misses the word when it comes just as that one is about to
 * sleep, and then does it up to 30 s later; a process that is killed meanwhile cannot end before. What it commits itself, in the call, is a
 * subvolume that becomes read-only or writable. So an empty one, which holds nothing and which nobody else looks at, is turned over.
 */
import { join } from 'node:path';
import { createSubvolume, isReadOnly, setReadOnly, startAndAwaitCommit } from './btrfs.ts';
import { errnoOf } from './failures.ts';

const TURNED = 'commits';
/** It belongs to somebody else, or there is no room to note the turn. */
const NOT_TURNED: readonly (string | undefined)[] = ['EACCES', 'EPERM', 'ENOSPC'];

interface Turn {
  readonly running: Promise<void>;
  next: Promise<void> | null;
}

const turns = new Map<string, Turn>();

/** Commits the running transaction: all metadata changes so far, and no data that is still dirty, are then durable. */
export function commitTransaction(root: string): Promise<void> {
  const present = turns.get(root);
  if (present === undefined) return begin(root);
  // What is under way may have begun before the changes of who asks.
  present.next ??= present.running.catch(() => undefined).then(() => begin(root));
  return present.next;
}

function begin(root: string): Promise<void> {
  const turn: Turn = { running: commit(root), next: null };
  turns.set(root, turn);
  const end = (): void => {
    if (turn.next === null) turns.delete(root);
  };
  turn.running.then(end, end);
  return turn.running;
}

async function commit(root: string): Promise<void> {
  const place = join(root, TURNED);
  try {
    await setReadOnly(place, !(await isReadOnly(place)));
  } catch (thrown) {
    const errno = errnoOf(thrown);
    // Making one commits as well.
    if (errno === 'ENOENT') await createSubvolume(place);
    else if (NOT_TURNED.includes(errno)) await startAndAwaitCommit(root);
    else throw thrown;
  }
}
