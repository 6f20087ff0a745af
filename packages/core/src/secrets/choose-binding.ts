/** Which of a sandbox's bindings a request is for: the one decision. Pure. */
import { coversPath, turnsIntoAnother } from '../egress/coverage.ts';
import type { EgressRequest } from '../egress/decide-egress.ts';
import { matchesHost, matchesPort } from '../egress/rules.ts';
import type { BoundSecret } from './secret-binding.ts';

export type BindingChoice =
  | { readonly kind: 'none' }
  | { readonly kind: 'one'; readonly bound: BoundSecret }
  /** Nobody could say which of them is meant. */
  | { readonly kind: 'several'; readonly names: readonly string[] };

export function chooseBinding(bindings: readonly BoundSecret[], request: EgressRequest): BindingChoice {
  const [first, ...more] = bindings.filter((bound) => whyNotFor(bound, request) === null);
  if (first === undefined) return { kind: 'none' };
  return more.length === 0
    ? { kind: 'one', bound: first }
    : { kind: 'several', names: [first, ...more].map(({ binding }) => binding) };
}

/** What of a request a binding is not for, as the end of a sentence; null: it is for it. */
export function whyNotFor({ hosts, ports, methods, paths }: BoundSecret, request: EgressRequest): string | null {
  if (!hosts.some((pattern) => matchesHost(pattern, request.host))) return `not for the host ${request.host}`;
  if (!matchesPort({ ports }, request.port)) return `not for port ${request.port}`;
  if (methods !== 'all') {
    if (!methods.includes(request.method)) return `not for the method ${request.method}`;
    // A server that believes such a header does something else than what the method says.
    if (turnsIntoAnother(request)) return 'not for upgrades, nor for requests with another method in a header';
  }
  return paths.some((path) => coversPath(path, request))
    ? null
    : 'not for that path, or one that can be read in two ways';
}
