/** Snapshots as templates that outlive their sandbox, and the templates that are there. */
import { randomBytes } from 'node:crypto';
import { schemas } from '@space/contract';
import { AppError, DEFAULT_SIZE } from '@space/core';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { E2bError, isCode, refused } from '../errors.ts';
import { fromE2bId } from '../sandbox-ids.ts';
import { type E2bAnswer, type E2bCall, onSandbox } from './call.ts';
import { allSnapshots, pageOf } from './listing.ts';
import { parseName, referenceIn, unnamed, viewSnapshot } from './snapshot-ids.ts';
import { ENVD_VERSION } from './views.ts';

const snapshotBody = z.strictObject({ name: z.string().min(1).max(200).optional() });

export function createSnapshot(call: E2bCall): Promise<E2bAnswer> {
  const { name } = parsePart(snapshotBody, call.body, 'body') as z.output<typeof snapshotBody>;
  const chosen = name === undefined ? unnamed({ bytes: randomBytes }) : parseName(name);
  const { platform, caller } = call;
  return onSandbox(call, async (id) => {
    const snapshot = await platform.useCases.takeSnapshot(caller, { id, name: chosen });
    return { status: 201, body: viewSnapshot(snapshot, caller.projectId) };
  });
}

const MAX_LIST = 100;
const listQuery = z.strictObject({
  sandboxID: z.string().max(100).optional(),
  name: z.string().max(200).optional(),
  limit: schemas.queryInteger(1, MAX_LIST).optional(),
  nextToken: z.string().max(500).optional(),
});

export async function listSnapshots({ platform, caller, query }: E2bCall): Promise<E2bAnswer> {
  const {
    sandboxID,
    name,
    limit = MAX_LIST,
    nextToken,
  } = parsePart(listQuery, query, 'query') as z.output<typeof listQuery>;
  const sandboxId = sandboxID === undefined ? undefined : fromE2bId(sandboxID);
  const wanted = name === undefined ? undefined : referenceIn(name, caller.projectId);
  const all = (await allSnapshots(platform.useCases, caller)).filter(
    (one) =>
      (sandboxID === undefined || one.sandboxId === sandboxId) &&
      (name === undefined || (wanted !== undefined && (one.name === wanted || one.id === wanted))),
  );
  const keyed = all.map((snapshot) => ({ id: snapshot.id, at: snapshot.takenAt, snapshot }));
  const page = pageOf(keyed, { order: 'desc', limit, token: nextToken });
  return {
    status: 200,
    body: page.items.map(({ snapshot }) => viewSnapshot(snapshot, caller.projectId)),
    headers: page.next === undefined ? {} : { 'x-next-token': page.next },
  };
}

/** Snapshots are templates for them; of what else is one, nothing can be deleted here. */
export async function deleteTemplate({ platform, caller, params }: E2bCall): Promise<E2bAnswer> {
  const given = params['id'] ?? '';
  const reference = referenceIn(given, caller.projectId);
  const unknown = new E2bError(404, `template '${given}' not found`);
  if (reference === undefined) throw unknown;
  const { templates } = await platform.useCases.listTemplates(caller, {});
  if (templates.some((template) => template.name === reference)) {
    throw refused(`Deleting the template "${reference}"`, 'Who runs the server makes and removes templates.');
  }
  try {
    // By its name: one without is its sandbox's own, and none of theirs.
    const snapshot = await platform.useCases.getSnapshot(caller, { id: reference });
    if (snapshot.name === null) throw new AppError('not_found', 'It has no name.');
    await platform.useCases.deleteSnapshot(caller, { id: snapshot.id });
    return { status: 204 };
  } catch (thrown) {
    throw isCode(thrown, 'not_found') ? unknown : thrown;
  }
}

export async function findAlias({ platform, caller, params }: E2bCall): Promise<E2bAnswer> {
  const given = params['alias'] ?? '';
  const { templates } = await platform.useCases.listTemplates(caller, {});
  if (templates.some(({ name }) => name === given)) return { status: 200, body: { templateID: given, public: true } };
  throw new E2bError(404, `template '${given}' not found`);
}

export async function listTemplates({ platform, caller }: E2bCall): Promise<E2bAnswer> {
  const { templates } = await platform.useCases.listTemplates(caller, {});
  const { vcpus, memoryMib, diskMib } = DEFAULT_SIZE;
  const body = templates.map(({ name }) => ({
    templateID: name,
    aliases: [name],
    names: [name],
    public: true,
    cpuCount: vcpus,
    memoryMB: memoryMib,
    diskSizeMB: diskMib,
    envdVersion: ENVD_VERSION,
    buildStatus: 'ready',
  }));
  return { status: 200, body };
}
