/** Templates as E2B's clients see them: those of the installation, those that were built here, and snapshots. */
import { type BuiltTemplate, ROUTES } from '@space/contract';
import { AppError, DEFAULT_SIZE } from '@space/core';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { E2bError, isCode, refused } from '../errors.ts';
import type { E2bAnswer, E2bCall } from './call.ts';
import { referenceIn } from './snapshot-ids.ts';
import { statusOf } from './template-builds.ts';
import { parseTemplate, templateIn, unknownTemplate } from './template-names.ts';
import { ENVD_VERSION } from './views.ts';

/** By id or name; a tag is passed over, as theirs is. Undefined: there is none. */
async function findBuilt({ platform, caller }: E2bCall, given: string): Promise<BuiltTemplate | undefined> {
  const [id = ''] = (templateIn(given, caller.projectId) ?? '').split(':', 1);
  if (id === '') return undefined;
  try {
    return await platform.useCases.getTemplate(caller, { id });
  } catch (thrown) {
    if (isCode(thrown, 'not_found')) return undefined;
    throw thrown;
  }
}

async function installed({ platform, caller }: E2bCall): Promise<readonly string[]> {
  const { templates } = await platform.useCases.listTemplates(caller, {});
  return templates.map(({ name }) => name);
}

const notFound = (given: string) => new E2bError(404, `template '${given}' not found`);

export async function findAlias(call: E2bCall): Promise<E2bAnswer> {
  const given = call.params['alias'] ?? '';
  const built = await findBuilt(call, given);
  if (built !== undefined) return { status: 200, body: { templateID: built.id, public: false } };
  if (!(await installed(call)).includes(given)) throw notFound(given);
  return { status: 200, body: { templateID: given, public: true } };
}

export async function listTemplates(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller } = call;
  const { templates, built } = await platform.useCases.listTemplates(caller, {});
  const { vcpus, memoryMib, diskMib } = DEFAULT_SIZE;
  const own = templates.map(({ name }) => ({
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
  return { status: 200, body: [...own, ...built.map((one) => view(one, caller.projectId))] };
}

export async function getTemplate(call: E2bCall): Promise<E2bAnswer> {
  const given = call.params['id'] ?? '';
  const built = await findBuilt(call, given);
  if (built === undefined) throw notFound(given);
  const shown = view(built, call.caller.projectId);
  const builds = built.builds.map((build) => ({
    buildID: build.id,
    status: statusOf(build),
    createdAt: build.createdAt,
    updatedAt: build.endedAt ?? build.createdAt,
    finishedAt: build.endedAt,
    ...sizeOf(build.size),
    envdVersion: ENVD_VERSION,
  }));
  return { status: 200, body: { ...shown, builds } };
}

function view(template: BuiltTemplate, projectId: string) {
  const [newest] = template.builds;
  return {
    templateID: template.id,
    buildID: newest?.id,
    aliases: [template.name],
    names: [`${projectId}/${template.name}`],
    public: false,
    ...sizeOf(template.size),
    envdVersion: ENVD_VERSION,
    createdAt: template.createdAt,
    updatedAt: template.updatedAt,
    buildCount: template.builds.length,
    buildStatus: newest === undefined ? 'waiting' : statusOf(newest),
  };
}

function sizeOf(size: BuiltTemplate['size']) {
  const { vcpus, memoryMib, diskMib } = size ?? DEFAULT_SIZE;
  return { cpuCount: vcpus, memoryMB: memoryMib, diskSizeMB: diskMib };
}

const changeBody = z.strictObject({ public: z.boolean().optional() });

/** Nothing of a template can be changed but what it is not: to be seen by others. */
export async function changeTemplate(call: E2bCall): Promise<E2bAnswer> {
  const asked = parsePart(changeBody, call.body, 'body') as z.output<typeof changeBody>;
  const given = call.params['id'] ?? '';
  const built = await findBuilt(call, given);
  if (built === undefined) throw notFound(given);
  if (asked.public === true) throw refused('A public template', 'Templates belong to their project.');
  return { status: 200, body: { names: [`${call.caller.projectId}/${built.name}`] } };
}

/** Also a snapshot, which is one to them. */
export async function deleteTemplate(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller, params } = call;
  const given = params['id'] ?? '';
  const built = await findBuilt(call, given);
  if (built !== undefined) {
    await platform.useCases.deleteTemplate(caller, { id: built.id });
    return { status: 204 };
  }
  const reference = referenceIn(given, caller.projectId);
  if (reference === undefined) throw notFound(given);
  if ((await installed(call)).includes(reference)) {
    throw refused(`Deleting the template "${reference}"`, 'Who runs the server makes and removes it.');
  }
  try {
    // By its name: one without is its sandbox's own, and none of theirs.
    const snapshot = await platform.useCases.getSnapshot(caller, { id: reference });
    if (snapshot.name === null) throw new AppError('not_found', 'It has no name.');
    await platform.useCases.deleteSnapshot(caller, { id: snapshot.id });
    return { status: 204 };
  } catch (thrown) {
    throw isCode(thrown, 'not_found') ? notFound(given) : thrown;
  }
}

const assignBody = z.strictObject({ target: z.string().min(1).max(200), tags: z.array(z.string()).min(1).max(20) });

export async function assignTags(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller } = call;
  const { target, tags } = parsePart(assignBody, call.body, 'body') as z.output<typeof assignBody>;
  const { name, tag } = parseTemplate(target, caller.projectId);
  const { schema } = ROUTES.tagTemplate.body;
  const body = parsePart(schema, { build: tag, tags }, 'body') as z.output<typeof schema>;
  const assigned = await known(call, name, () => platform.useCases.tagTemplate(caller, { id: name, ...body }));
  return { status: 201, body: { buildID: assigned.buildId, tags: assigned.tags } };
}

const removeBody = z.strictObject({ name: z.string().min(1).max(200), tags: z.array(z.string()).min(1).max(20) });

/** All or none, as far as they are there when it begins. */
export async function removeTags(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller } = call;
  const asked = parsePart(removeBody, call.body, 'body') as z.output<typeof removeBody>;
  const { name } = parseTemplate(asked.name, caller.projectId);
  await known(call, name, async () => {
    const template = await platform.useCases.getTemplate(caller, { id: name });
    const missing = asked.tags.find((one) => !template.tags.some(({ tag }) => tag === one));
    if (missing !== undefined) throw new E2bError(404, `tag '${missing}' does not exist for template '${name}'`);
    for (const tag of asked.tags) await platform.useCases.untagTemplate(caller, { id: name, tag });
  });
  return { status: 204 };
}

export async function listTags(call: E2bCall): Promise<E2bAnswer> {
  const given = call.params['id'] ?? '';
  const built = await findBuilt(call, given);
  if (built === undefined) throw notFound(given);
  const body = built.tags.map(({ tag, buildId, createdAt }) => ({ tag, buildID: buildId, createdAt }));
  return { status: 200, body };
}

async function known<T>(call: E2bCall, name: string, run: () => Promise<T>): Promise<T> {
  if ((await installed(call)).includes(name))
    throw refused(`Tagging the template "${name}"`, 'It is the installation’s.');
  try {
    return await run();
  } catch (thrown) {
    throw unknownTemplate(thrown);
  }
}
