import { describe, expect, it } from 'vitest';
import type { Call, Spoken } from './classify/spoken.ts';
import { decideRequest, type EgressRequest, type EgressRules, mustBeAsked, spokenAt } from './decide-egress.ts';
import { type AllowRule, type NetworkConstraints, type NetworkPolicy, NO_CONSTRAINTS } from './network-policy.ts';

const host = 'mcp.example';

function allow(rule: Partial<AllowRule>): AllowRule {
  return { host, ports: [443], protocol: 'http', access: 'read', path: '/', ...rule };
}

function rulesWith(policy: Partial<NetworkPolicy>, constraints: Partial<NetworkConstraints> = {}): EgressRules {
  return {
    policy: { preset: 'none', allow: [], ask: [], deny: [], ...policy },
    constraints: { ...NO_CONSTRAINTS, ...constraints },
  };
}

function post(speaks: Spoken, calls: readonly Call[] | null, more: Partial<EgressRequest> = {}): EgressRequest {
  const spoken = [{ speaks, calls }];
  return { host, port: 443, method: 'POST', path: '/', headers: [], hasBody: true, spoken, ...more };
}

const tool = (name: string): Call => ({ method: 'tools/call', tool: name });
const isAllowed = (rules: EgressRules, request: EgressRequest): boolean => decideRequest(rules, request).allowed;

describe('a rule that says what its host speaks', () => {
  it.each<[Spoken, readonly Call[], readonly Call[]]>([
    ['git', [{ method: 'upload-pack' }], [{ method: 'receive-pack' }]],
    ['graphql', [{ method: 'query' }], [{ method: 'query' }, { method: 'mutation' }]],
    ['graphql', [{ method: 'query' }, { method: 'query' }], [{ method: 'subscription' }]],
    ['mcp', [{ method: 'tools/list' }, { method: 'initialize' }], [{ method: 'tools/list' }, tool('search')]],
    ['mcp', [{ method: 'empty answer' }], [{ method: 'answer' }]],
    ['mcp', [{ method: 'ping' }], [{ method: 'DELETE' }]],
    ['json-rpc', [{ method: 'eth_call' }, { method: 'get_x' }], [{ method: 'eth_call' }, { method: 'eth_send' }]],
  ])('lets %s read, and write only where it may', (speaks, reading, writing) => {
    const reads = speaks === 'json-rpc' ? { reads: ['eth_call', 'get_*'] } : {};
    const rules = rulesWith({ allow: [allow({ speaks, ...reads })] });
    expect(isAllowed(rules, post(speaks, reading))).toBe(true);
    expect(isAllowed(rules, post(speaks, writing))).toBe(false);
    expect(isAllowed(rules, post(speaks, null))).toBe(false);
    expect(isAllowed(rules, { ...post(speaks, reading), spoken: [] })).toBe(false);
    expect(isAllowed(rules, { ...post(speaks, reading), headers: ['x_http_method_override'] })).toBe(false);
    const writes = rulesWith({ allow: [allow({ speaks, access: 'write' })] });
    expect(isAllowed(writes, post(speaks, writing))).toBe(true);
    expect(isAllowed(writes, post(speaks, null))).toBe(true);
  });

  it('says nothing for what another one speaks, or for another path', () => {
    const rules = rulesWith({ allow: [allow({ speaks: 'mcp', path: '/mcp' })] });
    const list: readonly Call[] = [{ method: 'tools/list' }];
    expect(isAllowed(rules, post('mcp', list, { path: '/mcp' }))).toBe(true);
    expect(isAllowed(rules, post('json-rpc', list, { path: '/mcp' }))).toBe(false);
    for (const path of ['/other', '/mcp/../other', '/MCP'])
      expect(isAllowed(rules, post('mcp', list, { path }))).toBe(false);
  });

  it('lets tools be called that it names, by their exact names, and no others in one batch with them', () => {
    for (const access of ['read', 'write'] as const) {
      const rules = rulesWith({ allow: [allow({ speaks: 'mcp', access, tools: ['search', 'get_*'] })] });
      expect(isAllowed(rules, post('mcp', [tool('search'), tool('get_file'), { method: 'tools/list' }]))).toBe(true);
      for (const name of ['Search', 'search2', 'delete', 'GET_file', 'get']) {
        expect(isAllowed(rules, post('mcp', [tool('search'), tool(name)])), name).toBe(false);
      }
      expect(isAllowed(rules, post('mcp', null))).toBe(false);
      expect(isAllowed(rules, post('mcp', [tool('search')], { method: 'PUT', spoken: [] }))).toBe(false);
    }
  });

  it('has a document in a URL read as what it is', () => {
    const rules = rulesWith({ allow: [allow({ speaks: 'graphql' })] });
    const get = (calls: readonly Call[] | null) => post('graphql', calls, { method: 'GET', hasBody: false });
    expect(isAllowed(rules, get([{ method: 'query' }]))).toBe(true);
    expect(isAllowed(rules, get([]))).toBe(true);
    expect(isAllowed(rules, get([{ method: 'mutation' }]))).toBe(false);
    expect(isAllowed(rules, get(null))).toBe(false);
  });
});

describe('tools that are denied', () => {
  const deny = [{ host: '*', path: '/mcp', tools: ['delete_*'] }];

  it('are not called, in whatever case; what may be such a call is denied too, and nothing else', () => {
    const rules = rulesWith({ preset: 'internet', deny });
    const at = (calls: readonly Call[] | null, more: Partial<EgressRequest> = {}) =>
      isAllowed(rules, post('mcp', calls, { path: '/mcp', ...more }));
    expect(at([tool('search')])).toBe(true);
    expect(at([{ method: 'tools/list' }])).toBe(true);
    expect(at(null, { method: 'GET', hasBody: false })).toBe(true);
    expect(at(null, { path: '/other' })).toBe(true);
    for (const name of ['delete_repo', 'Delete_Repo']) expect(at([tool('search'), tool(name)])).toBe(false);
    expect(at(null)).toBe(false);
    expect(at([tool('search')], { spoken: [] })).toBe(false);
    expect(at([tool('search')], { headers: ['x-http-method-override'] })).toBe(false);
    for (const path of ['/MCP', '/%6dcp', '/mcp/', '/x/..;/mcp', '/x/%2e%2e/mcp'])
      expect(at(null, { path }), path).toBe(false);
  });

  it('by the organisation stand above every policy, and an admin is named', () => {
    const rules = rulesWith({ preset: 'internet' }, { deny });
    const decision = decideRequest(rules, post('mcp', [tool('delete_repo')], { path: '/mcp' }));
    expect(decision).toMatchObject({ rule: 'organisation, deny: */mcp tools delete_*', ask: 'admin' });
  });
});

describe('tools that a reviewer is asked for', () => {
  it('are held, as is what may be a call of one; everything else goes on', () => {
    const ask = [{ host, ports: [443], access: 'any', path: '/mcp', speaks: 'mcp', tools: ['delete_*'] }] as const;
    const rules = rulesWith({ allow: [allow({ access: 'write' })], ask });
    const isHeld = (calls: readonly Call[] | null, more: Partial<EgressRequest> = {}) =>
      mustBeAsked(decideRequest(rules, post('mcp', calls, { path: '/mcp', ...more })));
    for (const name of ['delete_repo', 'DELETE_repo']) expect(isHeld([tool('search'), tool(name)])).toBe(true);
    expect(isHeld(null)).toBe(true);
    expect(isHeld(null, { path: '/x/..;/mcp' })).toBe(true);
    expect(isHeld([tool('search')], { headers: ['x-method-override'] })).toBe(true);
    expect(isAllowed(rules, post('mcp', [tool('search')], { path: '/mcp' }))).toBe(true);
    expect(isAllowed(rules, post('mcp', null, { path: '/other' }))).toBe(true);
  });

  it('or for what writes in a protocol, are asked for that only', () => {
    const ask = [{ host, ports: [443], access: 'write', path: '/', speaks: 'graphql' }] as const;
    const rules = rulesWith({ allow: [allow({ access: 'write' })], ask });
    expect(isAllowed(rules, post('graphql', [{ method: 'query' }]))).toBe(true);
    for (const calls of [[{ method: 'mutation' }], null]) {
      expect(mustBeAsked(decideRequest(rules, post('graphql', calls)))).toBe(true);
    }
  });
});

describe('a host that is read only', () => {
  const upload = post('git', [{ method: 'upload-pack' }]);

  it('is written nowhere by what a policy says that it speaks; by what an admin says it may be read', () => {
    const policy = { allow: [allow({ speaks: 'git', access: 'write' })] };
    expect(isAllowed(rulesWith(policy, { readOnly: [host] }), upload)).toBe(false);
    const said = rulesWith(policy, { readOnly: [host], allow: [allow({ speaks: 'git' })] });
    expect(isAllowed(said, upload)).toBe(true);
    expect(isAllowed(said, post('git', [{ method: 'receive-pack' }]))).toBe(false);
    expect(isAllowed(said, post('git', null))).toBe(false);
  });

  it('has tools that read only where an admin says which', () => {
    const policy = { allow: [allow({ speaks: 'mcp', access: 'write' })] };
    const named = (access: 'read' | 'write') =>
      rulesWith(policy, { readOnly: [host], allow: [allow({ speaks: 'mcp', access, tools: ['search'] })] });
    expect(isAllowed(named('read'), post('mcp', [tool('search')]))).toBe(true);
    expect(isAllowed(named('read'), post('mcp', [tool('delete')]))).toBe(false);
    expect(isAllowed(named('write'), post('mcp', [tool('search')]))).toBe(false);
  });

  it('that is said to speak two things is read by what is a read in both', () => {
    const two = [allow({ speaks: 'graphql' }), allow({ speaks: 'mcp' })];
    const rules = rulesWith({ preset: 'internet' }, { readOnly: [host], allow: two });
    const both = { ...post('mcp', [{ method: 'ping' }]) };
    expect(isAllowed(rules, both)).toBe(false);
    const alsoQuery = [...(both.spoken ?? []), { speaks: 'graphql' as const, calls: [{ method: 'query' }] }];
    expect(isAllowed(rules, { ...both, spoken: alsoQuery })).toBe(true);
  });

  it('is not asked for a push, although it is a GET', () => {
    const push = post('git', [{ method: 'receive-pack' }], { method: 'GET', hasBody: false });
    expect(isAllowed(rulesWith({ preset: 'internet' }, { readOnly: [host] }), push)).toBe(false);
    expect(isAllowed(rulesWith({ preset: 'internet' }), push)).toBe(true);
  });
});

describe('what has to be looked into', () => {
  it('is what rules for the host, the port and the path say, and MCP where tools are denied', () => {
    const rules = rulesWith(
      { allow: [allow({ speaks: 'git', path: '/git' }), allow({ host: 'other.example', speaks: 'graphql' })] },
      { allow: [allow({ speaks: 'json-rpc', ports: [8443] })] },
    );
    expect(spokenAt(rules, post('mcp', null, { path: '/git/x' }))).toEqual(['git']);
    expect(spokenAt(rules, post('mcp', null, { path: '/x' }))).toEqual([]);
    expect(spokenAt(rules, post('mcp', null, { port: 8443, path: '/x' }))).toEqual(['json-rpc']);
    const denied = rulesWith({ deny: [{ host, path: '/mcp', tools: ['*'] }] });
    expect(spokenAt(denied, post('mcp', null, { path: '/a/..;/mcp' }))).toEqual(['mcp']);
  });
});
