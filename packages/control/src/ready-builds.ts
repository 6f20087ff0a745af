/** Which template a name means: one of the installation, or a ready build of one that was built in the project. */
import {
  AppError,
  DEFAULT_TAG,
  FIRST_STATE,
  type NodePort,
  type ProjectId,
  parseTemplateReference,
  type Size,
} from '@space/core';
import type { BuiltFrom, Records } from './records.ts';
import type { RecordedBuild } from './template-records.ts';

/** Whether it is one of the installation; of those the one tag is the default. */
export async function isInstalled(node: NodePort, given: string): Promise<boolean> {
  const reference = parseTemplateReference(given);
  if (reference === undefined || reference.tag !== DEFAULT_TAG) return false;
  return (await node.templates()).some(({ name }) => name === reference.name);
}

/** The ready build that a reference names, in the project. Throws `template_unknown`. */
export async function findReadyBuild(
  records: Pick<Records, 'templates'>,
  projectId: ProjectId,
  given: string,
): Promise<RecordedBuild> {
  const reference = parseTemplateReference(given);
  const template = reference === undefined ? null : await records.templates.findTemplate(projectId, reference.name);
  if (reference === undefined || template === null) throw unknownTemplate(given);
  const tags = await records.templates.tagsOf(template.id);
  const named = tags.find(({ tag }) => tag === reference.tag);
  const build = named === undefined ? null : await records.templates.findBuild(named.buildId);
  if (build !== null) return build;
  throw new AppError('template_unknown', {
    detail: `tag '${reference.tag}' does not exist for template '${template.name}'`,
    facts: { template: template.name, tag: reference.tag },
  });
}

/** What a sandbox made from it is recorded with. */
export async function builtFromOf(
  { templates }: Pick<Records, 'templates'>,
  { projectId, templateId, state }: RecordedBuild,
): Promise<BuiltFrom | null> {
  const template = await templates.findTemplate(projectId, templateId);
  if (template === null) return null;
  const user = state === null || state.user === FIRST_STATE.user ? null : state.user;
  return { template: template.name, user, cwd: state?.cwd ?? null };
}

export function unknownTemplate(given: string): AppError {
  return new AppError('template_unknown', {
    detail: `template '${given}' not found`,
    facts: { template: given },
  });
}

/** What is in memory is of one size. */
export function checkSameSize(name: string, size: Size, asked: Partial<Size>): void {
  for (const field of ['vcpus', 'memoryMib', 'diskMib'] as const) {
    const value = asked[field];
    if (value === undefined || value === size[field]) continue;
    throw new AppError('size_impossible', {
      detail: `The template "${name}" was built with ${field} ${size[field]}, and its memory is kept: ${value} cannot be had. Build it in that size.`,
      facts: { field, value, built: size[field] },
    });
  }
}
