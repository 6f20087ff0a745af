/** Which limits of the machine hold each VMM, as people are told. */
import type { HelperLimits } from '@space/root-helper';

export interface JailReport {
  /** E.g. `memory (cgroup v1)`. */
  readonly inForce: readonly string[];
  readonly missing: readonly { readonly limit: string; readonly reason: string; readonly remedy: string }[];
}

export function reportOn({ inForce, missing, failures }: HelperLimits): JailReport {
  const reason = failures.length > 0 ? failures.join('; ') : 'No mounted cgroup tree has a controller for it.';
  const remedy = 'Mount a cgroup tree with it, writable by the platform, and start the platform again.';
  return { inForce, missing: missing.map((limit) => ({ limit, reason, remedy })) };
}
