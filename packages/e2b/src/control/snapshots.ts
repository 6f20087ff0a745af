/** Snapshots as templates that outlive their sandbox, and the templates that are there. */
import { randomBytes } from 'node:crypto';
import { schemas } from '@space/contract';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { fromE2bId } from '../sandbox-ids.ts';
import { type E2bAnswer, type E2bCall, onSandbox } from './call.ts';
import { allSnapshots, pageOf } from './listing.ts';
import { parseName, referenceIn, unnamed, viewSnapshot } from './snapshot-ids.ts';

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
