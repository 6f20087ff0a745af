/**
 * Names of snapshots. Theirs all outlive their sandbox, as our named ones do: one that is asked for without a name gets one of ours,
 * and is known by its id. A reference can have a namespace, which is the project, and a tag, which can only be `default`.
 */
import type { Snapshot } from '@space/contract';
import { type Chance, type ProjectId, parseId } from '@space/core';
import { E2bError } from '../errors.ts';

const TAG = 'default';
const UNNAMED = /^e2b-[0-9a-f]{20}$/;
const NAME = /^[a-z][a-z0-9-]{0,62}$/;
const ID = /^snp_?([0-9a-z]{16})$/;

export function unnamed({ bytes }: Chance): string {
  return `e2b-${Buffer.from(bytes(10)).toString('hex')}`;
}

/** The name that is asked for. */
export function parseName(given: string): string {
  const name = stripTag(given);
  if (name !== undefined && NAME.test(name) && !UNNAMED.test(name)) return name;
  throw new E2bError(
    400,
    `invalid snapshot name "${given.slice(0, 100)}": 1 to 63 of a-z, 0-9 and dash, after a letter`,
  );
}

/** The id of a snapshot, or a name of whatever; undefined: there can be none. */
export function referenceIn(given: string, projectId: ProjectId): string | undefined {
  const plain = stripTag(given);
  if (plain === undefined) return undefined;
  const [namespace, ...rest] = plain.split('/');
  const name = rest.length === 0 ? plain : namespace === projectId ? rest.join('/') : '';
  const [, letters] = ID.exec(name) ?? [];
  if (letters !== undefined) return parseId('snapshot', `snp_${letters}`);
  return NAME.test(name) ? name : undefined;
}

function stripTag(given: string): string | undefined {
  const [name, tag = TAG, ...more] = given.split(':');
  return more.length === 0 && tag === TAG ? name : undefined;
}

export function viewSnapshot({ id, name }: Pick<Snapshot, 'id' | 'name'>, projectId: ProjectId) {
  if (name === null || UNNAMED.test(name)) return { snapshotID: `${id.replace('_', '')}:${TAG}`, names: [] };
  const qualified = `${projectId}/${name}:${TAG}`;
  return { snapshotID: qualified, names: [qualified] };
}
