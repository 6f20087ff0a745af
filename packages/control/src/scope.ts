/**
 * The place where the name of a sandbox, a snapshot or an operation becomes a record. Everything is looked up in the caller's project: an object of
 * another project, one that is deleted and one that never was are the same, `not_found` in the same words.
 */
import { AppError, isPlatformsOwn, type OperationId, type ProjectId, parseId } from '@space/core';
import type { RecordedOperation, RecordedSandbox, RecordedSnapshot, Records } from './records.ts';

/** By id or name. What is being deleted is gone for all calls but those that show it and delete it again. */
export async function findSandbox(records: Records, projectId: ProjectId, reference: string): Promise<RecordedSandbox> {
  const found = await findDoomedToo(records, projectId, reference);
  if (found.operation === 'delete') throw noSandbox(reference);
  return found;
}

/** As `findSandbox`, also what is being deleted. */
export async function findDoomedToo(
  records: Records,
  projectId: ProjectId,
  reference: string,
): Promise<RecordedSandbox> {
  const id = parseId('sandbox', reference);
  const found = await (id === undefined ? records.findSandboxByName(projectId, reference) : records.findSandbox(id));
  if (found === null || found.projectId !== projectId || found.settled === 'deleted' || isPlatformsOwn(found.name)) {
    throw noSandbox(reference);
  }
  return found;
}

function noSandbox(reference: string): AppError {
  return new AppError('not_found', `There is no sandbox "${reference}".`);
}

/** By id or name. What is still being taken is not there yet. */
export async function findSnapshot(
  records: Records,
  projectId: ProjectId,
  reference: string,
): Promise<RecordedSnapshot> {
  const id = parseId('snapshot', reference);
  const found = await (id === undefined ? records.findSnapshotByName(projectId, reference) : records.findSnapshot(id));
  if (found === null || found.projectId !== projectId || found.state === 'taking' || isPlatformsOwn(found.name)) {
    throw new AppError('not_found', `There is no snapshot "${reference}".`);
  }
  return found;
}

export async function findOperation(
  records: Records,
  projectId: ProjectId,
  id: OperationId,
): Promise<RecordedOperation> {
  const found = await records.findOperation(id);
  if (found === null || found.projectId !== projectId) {
    throw new AppError('not_found', `There is no operation "${id}".`);
  }
  return found;
}
