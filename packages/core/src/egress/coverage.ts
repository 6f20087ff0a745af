/**
 * What one rule says of one request. A rule that allows covers what it surely is for; one that denies concerns also what may be
 * such a request, in whatever way its host reads it.
 */
import { fetches } from './classify/git.ts';
import { MCP_READS, TOOLS_CALL } from './classify/json-rpc.ts';
import { type Call, matchesName, type Spoken, type SpokenCalls } from './classify/spoken.ts';
import type { EgressRequest } from './decide-egress.ts';
import type { Access, AllowRule, AskRule, DeniedTools } from './network-policy.ts';
import { matchesHost, matchesPath } from './rules.ts';

const READS: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];
/** Headers by which a read becomes something else: another protocol, or another method. */
const TURNS_INTO_WRITE: readonly string[] = ['upgrade', 'x-http-method-override', 'x-http-method', 'x-method-override'];
/** Headers by which servers are told of another path than that of the request. */
const NAMES_ANOTHER_PATH: readonly string[] = ['x-original-url', 'x-rewrite-url', 'x-original-uri', 'x-override-url'];

/** By its head alone: what it is where no rule says what the host speaks. */
export function accessByHead(request: EgressRequest): Access {
  const { method, hasBody, spoken = [] } = request;
  // A server that expects no body with a read takes it for the next request, of which nobody has judged anything.
  const reads = READS.includes(method) && !hasBody && !turnsIntoAnother(request);
  const pushes = spoken.some(({ speaks, calls }) => speaks === 'git' && !(calls ?? []).every(fetches));
  return reads && !pushes ? 'read' : 'write';
}

/** What it is to a rule: that the host speaks something there is for the rule to say. */
export function accessBy(rule: AllowRule, request: EgressRequest): Access {
  const { speaks } = rule;
  const byHead = accessByHead(request);
  if (speaks === undefined || turnsIntoAnother(request)) return byHead;
  const calls = callsIn(request, speaks);
  // Of a document in a URL, only who has read it can tell.
  if (calls === undefined) return speaks === 'graphql' ? 'write' : byHead;
  if (byHead === 'read' && speaks !== 'graphql') return 'read';
  return calls?.every((call) => reads(rule, speaks, call)) === true ? 'read' : 'write';
}

export function covers(rule: AllowRule, request: EgressRequest): boolean {
  const { protocol, access, path, tools, speaks } = rule;
  if (protocol !== 'http' || !coversPath(path, request)) return false;
  if (accessBy(rule, request) === 'read') return true;
  if (access === 'read') return false;
  if (speaks !== 'mcp' || tools === undefined) return true;
  // A call that is not known could be one of another tool.
  const calls = turnsIntoAnother(request) ? null : callsIn(request, speaks);
  return calls?.every(({ tool }) => tool === undefined || tools.some((one) => matchesName(one, tool))) === true;
}

/** Whether the path lies below it in every way to read it. */
export function coversPath(prefix: string, request: EgressRequest): boolean {
  return prefix === '/' || (hasPlainPath(request) && matchesPath(prefix, request.path));
}

/** Whether the path may lie below it in some way to read it. */
export function mayConcernPath(prefix: string, request: EgressRequest): boolean {
  return prefix === '/' || !hasPlainPath(request) || matchesPath(folded(prefix), folded(request.path));
}

/** Whether a reviewer's word is what it leaves by. */
export function asks(rule: AskRule, request: EgressRequest): boolean {
  return coversPath(rule.path, request) && holds(rule, request);
}

/** Whether it may be what a reviewer wants to be asked for. */
export function mayAsk(rule: AskRule, request: EgressRequest): boolean {
  return mayConcernPath(rule.path, request) && holds(rule, request);
}

function holds(rule: AskRule, request: EgressRequest): boolean {
  const { tools, access, ...place } = rule;
  if (tools !== undefined) return mayCallOneOf(tools, request);
  return access === 'any' || accessBy({ ...place, protocol: 'http', access: 'read' }, request) === 'write';
}

/** Whether it may be a call of one of the tools that are denied. */
export function mayCall({ host, path, tools }: DeniedTools, request: EgressRequest): boolean {
  return matchesHost(host, request.host) && mayConcernPath(path, request) && mayCallOneOf(tools, request);
}

/** In whatever case: a server may not care. */
function mayCallOneOf(tools: readonly string[], request: EgressRequest): boolean {
  if (accessByHead(request) === 'read') return false;
  const calls = turnsIntoAnother(request) ? null : callsIn(request, 'mcp');
  if (!calls) return true;
  const isNamed = (tool: string) => tools.some((one) => matchesName(one.toLowerCase(), tool.toLowerCase()));
  return calls.some(({ tool }) => tool !== undefined && isNamed(tool));
}

function reads({ access, tools = [], reads: methods = [] }: AllowRule, speaks: Spoken, call: Call): boolean {
  const { method, tool } = call;
  switch (speaks) {
    case 'git':
      return fetches(call);
    case 'graphql':
      return method === 'query';
    case 'json-rpc':
      return methods.some((pattern) => matchesName(pattern, method));
    case 'mcp':
      if (method !== TOOLS_CALL || tool === undefined) return MCP_READS.includes(method);
      return access === 'read' && tools.some((pattern) => matchesName(pattern, tool));
  }
}

/** Null: they cannot be told. Undefined: nobody looked, since no rule said so then. */
function callsIn({ spoken = [] }: EgressRequest, speaks: Spoken): SpokenCalls['calls'] | undefined {
  return spoken.find((one) => one.speaks === speaks)?.calls;
}

export function turnsIntoAnother(request: EgressRequest): boolean {
  return namesOf(request).some((name) => TURNS_INTO_WRITE.includes(name));
}

/** To servers that take headers for variables of their environment, `_` and `-` are the same. */
function namesOf({ headers }: EgressRequest): readonly string[] {
  return headers.map((name) => name.replaceAll('_', '-'));
}

/** As a server may read it that minds neither case nor which letters are encoded. */
function folded(path: string): string {
  return path
    .replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .toLowerCase();
}

/**
 * Whether every server reads the path as it is written. One that has dots as segments, or encodes dots, slashes or control
 * characters (also as UTF-8 that is longer than it has to be, or in no encoding at all), may lead elsewhere, so no rule for a
 * path covers it.
 */
function hasPlainPath(request: EgressRequest): boolean {
  const { path } = request;
  return (
    !namesOf(request).some((name) => NAMES_ANOTHER_PATH.includes(name)) &&
    path.startsWith('/') &&
    !path.includes('//') &&
    !/[\\;\p{Cc}\xc0\xc1\xf5-\xff]|%(2e|2f|5c|25|3b|[01][0-9a-f]|7f|c[01]|f[5-9a-f])|%(?![0-9a-f]{2})/iu.test(path) &&
    !/(%e0|\xe0)%[89]|(%f0|\xf0)%8/iu.test(path) &&
    !path.split('/').some((segment) => /^\.+(%.*)?$/.test(segment))
  );
}
