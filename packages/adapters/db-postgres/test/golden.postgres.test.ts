/**
 * A database of an earlier version is carried over with all that is in it, and means what it meant. How the files in `golden` come
 * about: `CONTRIBUTING.md`.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Caller, schemas } from '@space/contract';
import { createControl } from '@space/control';
import { DEFAULT_ORGANISATION, DEFAULT_PROJECT, newId, type SandboxId } from '@space/core';
import { FakeGateway, FakeNode, realClock } from '@space/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openDatabase } from '../src/database.ts';
import { createPostgresRecords } from '../src/postgres-records.ts';
import type { PrivateCluster } from '../src/private-cluster.ts';
import { MIGRATIONS } from '../src/schema.ts';
import { silent, type TestFolder, testFolder } from '../src/test-cluster.ts';
import { fill, GOLDEN, newDatabase, readAll, shapeOf, withEarlierDatabase } from './golden-databases.ts';

const names = globSync('*.sql', { cwd: GOLDEN })
  .map((file) => file.replace('.sql', ''))
  .sort();
const textOf = (file: string) => readFileSync(join(GOLDEN, file), 'utf8');
const chance = { bytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)) };

/** So many migrations may go without a database of their own. */
const MAX_BEHIND = 5;

let folder: TestFolder;
let cluster: PrivateCluster;

beforeAll(async () => {
  folder = await testFolder();
  cluster = await folder.start();
});

afterAll(async () => {
  await cluster?.close();
  await folder?.remove();
});

it('there is a database of one of the newest migrations, which the next ones have to carry over', () => {
  expect(Object.keys(MIGRATIONS).slice(-MAX_BEHIND)).toContain(names.at(-1));
});

it('no migration that was released makes another shape than it did', async () => {
  const address = await newDatabase(cluster.address, 'shapes');
  const shapes: Record<string, string[]> = {};
  let before: string[] = [];
  await withEarlierDatabase(
    address,
    '9999',
    async () => undefined,
    async (db, name) => {
      const now = await shapeOf(db);
      const [had, has] = [new Set(before), new Set(now)];
      shapes[name] = [
        ...before.filter((line) => !has.has(line)).map((line) => `- ${line}`),
        ...now.filter((line) => !had.has(line)).map((line) => `+ ${line}`),
      ];
      before = now;
    },
  );
  if (process.env['SPACE_WRITE_GOLDEN'] === '1')
    writeFileSync(join(GOLDEN, 'shapes.json'), `${JSON.stringify(shapes, null, 1)}\n`);
  // Those that are not released yet are not there.
  expect(shapes).toMatchObject(JSON.parse(textOf('shapes.json')));
});

it.each(names)('a database of %s says the same as it ever did, and today’s control goes on with it', async (name) => {
  const address = await newDatabase(cluster.address, name);
  await withEarlierDatabase(address, name, () => fill(address, textOf(`${name}.sql`)));
  const database = await openDatabase(address, silent);
  try {
    const records = createPostgresRecords(database);
    const meaning = `${name}.json`;
    // Of a new one, which is to be read before it is committed.
    const isNew = process.env['SPACE_WRITE_GOLDEN'] === '1' && !existsSync(join(GOLDEN, meaning));
    if (isNew) writeFileSync(join(GOLDEN, meaning), `${JSON.stringify(await readAll(records), null, 1)}\n`);
    // What has come since may be there too.
    expect(await readAll(records)).toMatchObject(JSON.parse(textOf(meaning)));

    const node = new FakeNode();
    const control = createControl({ node, records, clock: realClock(), chance, logger: silent }, new FakeGateway());
    const { items: sandboxes } = await records.listSandboxes({ projectId: DEFAULT_PROJECT, limit: 100 });
    expect(sandboxes.length).toBeGreaterThan(1);
    const shown = (id: SandboxId) => control.getSandbox(caller(), { id });
    for (const { id } of sandboxes) {
      const timeline = await control.getTimeline(caller(), { id, limit: 100 });
      expect(schemas.sandboxDetail.safeParse(await shown(id)).error).toBeUndefined();
      expect(schemas.timeline.safeParse(timeline).error).toBeUndefined();
    }
    const operations = await control.listOperations(caller(), { limit: 100 });
    expect(schemas.operationList.safeParse(operations).error).toBeUndefined();
    // The node of the test holds none of them: they are crashed, unless they live elsewhere, and can be deleted.
    await control.start();
    for (const { id, moved } of sandboxes) {
      expect((await shown(id)).status).toBe(moved === null ? 'crashed' : 'moved');
      await control.deleteSandbox(caller(), { id });
    }
    // Every link that it held and all that came since, by the digests as they are made today.
    const { chains } = await control.verifyAudit(caller(), {});
    for (const chain of chains) expect(chain).toMatchObject({ brokenAt: null, why: null });
    await control.close();
  } finally {
    await database.close();
  }
});

let requests = 0;
function caller(): Caller {
  const apiKeyId = newId('apiKey', chance);
  return {
    principal: { apiKeyId, organisationId: DEFAULT_ORGANISATION, operator: true, onlyProject: null, roles: ['admin'] },
    projectId: DEFAULT_PROJECT,
    requestId: `req_of_test_${++requests}`,
    signal: new AbortController().signal,
  };
}
