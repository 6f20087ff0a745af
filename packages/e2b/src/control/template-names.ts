/** How E2B's clients name templates: `name`, `name:tag`, either behind a namespace, which is the project; or the id. */
import { AppError, type ProjectId, parseTemplateReference, type TemplateReference } from '@space/core';
import { E2bError } from '../errors.ts';

/** As our own API has it; undefined: it can be none. */
export function templateIn(given: string, projectId: ProjectId): string | undefined {
  const own = `${projectId}/`;
  const plain = given.startsWith(own) ? given.slice(own.length) : given;
  return parseTemplateReference(plain) === undefined ? undefined : plain;
}

/** Throws the error of a name that can be none. */
export function parseTemplate(given: string, projectId: ProjectId): TemplateReference & { readonly isTagged: boolean } {
  const plain = templateIn(given, projectId);
  const reference = plain === undefined ? undefined : parseTemplateReference(plain);
  if (reference !== undefined) return { ...reference, isTagged: plain?.includes(':') === true };
  throw new E2bError(
    400,
    `invalid template name "${given.slice(0, 100)}": a-z, 0-9, dash and underscore, and a tag after a colon`,
  );
}

/** In the words that their clients know. */
export function unknownTemplate(thrown: unknown): unknown {
  if (!(thrown instanceof AppError) || (thrown.code !== 'template_unknown' && thrown.code !== 'not_found'))
    return thrown;
  return new E2bError(404, thrown.message);
}
