/** Names of templates, as a caller gives them: `name`, `name:tag`, or an id with or without a tag. */
export const DEFAULT_TAG = 'default';

export const TEMPLATE_NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
export const TEMPLATE_TAG = /^[a-z0-9][a-z0-9._-]{0,62}$/;

export interface TemplateReference {
  readonly name: string;
  readonly tag: string;
}

/** Undefined: it can be none. */
export function parseTemplateReference(given: string): TemplateReference | undefined {
  const [name = '', tag = DEFAULT_TAG, ...more] = given.split(':');
  if (more.length > 0 || !TEMPLATE_NAME.test(name) || !TEMPLATE_TAG.test(tag)) return undefined;
  return { name, tag };
}

/**
 * Whether a sandbox or a snapshot is the platform's own, of building templates: no name that a user can give begins with a dot.
 * Users neither see nor count what is.
 */
export function isPlatformsOwn(name: string | null): boolean {
  return name?.startsWith('.') === true;
}
