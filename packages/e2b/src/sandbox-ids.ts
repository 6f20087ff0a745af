/**
 * Ids of sandboxes as E2B's SDKs write them: parts of names of hosts, which are split at dashes. Ours without its underscore is
 * one, and says which of ours it is: `sbx_0123456789abcdef` is `sbx0123456789abcdef`.
 */
import { parseId, type SandboxId } from '@space/core';

const FORM = /^sbx_?([0-9a-z]{16})(?:-.*)?$/;

export function toE2bId(id: SandboxId): string {
  return id.replace('_', '');
}

/** Undefined: it is none. What old clients append after a dash is cut, and our own form is taken, too. */
export function fromE2bId(given: string): SandboxId | undefined {
  const [, letters] = FORM.exec(given) ?? [];
  return letters === undefined ? undefined : parseId('sandbox', `sbx_${letters}`);
}
