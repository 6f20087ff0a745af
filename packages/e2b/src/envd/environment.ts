/** What programs of a sandbox find in their environment by E2B's conventions. */
import type { EnvdTarget } from './call.ts';

export interface Environment {
  /** What every program gets, with what the sandbox was made with. */
  readonly all: Readonly<Record<string, string>>;
  /** What this face adds; the platform adds the rest itself. */
  readonly own: Readonly<Record<string, string>>;
}

export function environmentOf({ e2bSandboxId, template, env }: EnvdTarget): Environment {
  const names = { E2B_SANDBOX: 'true', E2B_SANDBOX_ID: e2bSandboxId, E2B_TEMPLATE_ID: template };
  // Who made the sandbox has the last word.
  const own = Object.fromEntries(Object.entries(names).filter(([name]) => !Object.hasOwn(env, name)));
  return { all: { ...names, ...env }, own };
}
