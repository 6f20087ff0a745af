/**
 * What a sandbox may reach: a preset, and rules that add to it or take away from it. An organisation's constraints are of the
 * same form, and are the widest that any of its sandboxes may have.
 *
 * Everything that is left out is the stricter thing: a rule without `access` reads only, one without `ports` means HTTPS,
 * one without `protocol` lets through nothing but requests that the gateway can read.
 */
import type { Spoken } from './classify/spoken.ts';

export const NETWORK_PRESETS = ['none', 'packages', 'internet'] as const;
/** Nothing; reading from public package registries; any public address. */
export type NetworkPreset = (typeof NETWORK_PRESETS)[number];

/** `http`: requests, in clear text or in TLS that the gateway ends. `tls`: TLS that it does not open. `tcp`: any bytes. */
export const EGRESS_PROTOCOLS = ['http', 'tls', 'tcp'] as const;
export type EgressProtocol = (typeof EGRESS_PROTOCOLS)[number];

/** `read`: GET, HEAD and OPTIONS, and nothing that turns them into something else; and what a rule's `speaks` says. */
export const ACCESSES = ['read', 'write'] as const;
export type Access = (typeof ACCESSES)[number];

/** Of `tls` and `tcp` nothing can be read, so they have neither access nor path: all of it is a write. */
export interface AllowRule {
  /** A name, `*.` and a name (what lies below it, at any depth, and not itself), an address, or `*`. */
  readonly host: string;
  readonly ports: readonly number[] | 'all';
  readonly protocol: EgressProtocol;
  readonly access: Access;
  /** Requests for it and what lies below it, by whole segments. `/`: all. */
  readonly path: string;
  /**
   * What the host speaks there: then it is what a request asks for that reads or writes, and not its method. Left out: nothing that
   * is looked into.
   */
  readonly speaks?: Spoken;
  /**
   * Of MCP: the tools that may be called, by name or with `*` at the end, which counts as reading where `access` is `read`. Left
   * out: all where it is `write`, and none else.
   */
  readonly tools?: readonly string[];
  /** Of JSON-RPC: the methods that read, in the same form. */
  readonly reads?: readonly string[];
}

/** Tools of MCP servers that are not called, whatever allows it; what may be a call of one is denied as well. */
export interface DeniedTools {
  readonly host: string;
  readonly path: string;
  readonly tools: readonly string[];
}

/** A host, as in a rule, or tools at one. */
export type DenyRule = string | DeniedTools;

/** What of its requests is held: all, or those that write. Left out: all. */
export const ASKS_FOR = ['any', 'write'] as const;
export type AsksFor = (typeof ASKS_FOR)[number];

/**
 * Requests that leave only when a reviewer has approved them; each by itself. It stands above what allows, and lets through
 * by itself what nothing else allows. What cannot be held, since nothing of it can be read, is denied where a rule asks.
 */
export interface AskRule extends Pick<AllowRule, 'host' | 'ports' | 'path' | 'speaks' | 'reads'> {
  readonly access: AsksFor;
  /** Of MCP: what calls one of these tools, or may do so, is held, and nothing else. */
  readonly tools?: readonly string[];
}

export interface NetworkPolicy {
  readonly preset: NetworkPreset;
  readonly allow: readonly AllowRule[];
  readonly ask: readonly AskRule[];
  /** Above all that allows. */
  readonly deny: readonly DenyRule[];
}

/** Its `ask` holds for every policy, and cannot be taken away by one. */
export interface NetworkConstraints extends NetworkPolicy {
  /** Hosts at which nothing is written, whatever a policy says. */
  readonly readOnly: readonly string[];
  /** Hosts that may have a private address. Only who runs the installation says which: the network is its own. */
  readonly privateHosts: readonly string[];
}

export const MAX_ALLOW_RULES = 200;
export const MAX_ASK_RULES = 200;
export const MAX_DENY_RULES = 200;
export const MAX_RULE_PORTS = 32;
export const MAX_RULE_NAMES = 100;

export const DEFAULT_NETWORK_POLICY: NetworkPolicy = { preset: 'packages', allow: [], ask: [], deny: [] };
export const NO_CONSTRAINTS: NetworkConstraints = {
  preset: 'internet',
  allow: [],
  ask: [],
  deny: [],
  readOnly: [],
  privateHosts: [],
};

/** The ports that a rule means when it names none. */
export const DEFAULT_RULE_PORTS: readonly number[] = [443];
