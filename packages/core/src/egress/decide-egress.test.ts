import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkWithin, exceeding } from './cap.ts';
import { SPOKEN } from './classify/spoken.ts';
import {
  decideAddress,
  decideOpaque,
  decideRequest,
  decideTarget,
  type EgressRules,
  mustBeAsked,
} from './decide-egress.ts';
import {
  ACCESSES,
  type AllowRule,
  ASKS_FOR,
  type AskRule,
  DEFAULT_NETWORK_POLICY,
  EGRESS_PROTOCOLS,
  NETWORK_PRESETS,
  type NetworkConstraints,
  type NetworkPolicy,
  NO_CONSTRAINTS,
} from './network-policy.ts';
import { matchesHost, normaliseHostPattern } from './rules.ts';

const NONE: NetworkPolicy = { preset: 'none', allow: [], ask: [], deny: [] };

function allow(rule: Partial<AllowRule> & Pick<AllowRule, 'host'>): AllowRule {
  return { ports: [443], protocol: 'http', access: 'read', path: '/', ...rule };
}

function rulesWith(policy: Partial<NetworkPolicy>, constraints: Partial<NetworkConstraints> = {}): EgressRules {
  return { policy: { ...NONE, ...policy }, constraints: { ...NO_CONSTRAINTS, ...constraints } };
}

const get = (host: string, path = '/') => ({ host, port: 443, method: 'GET', path, headers: [], hasBody: false });

describe('a request', () => {
  it('is denied when nothing allows it, and the owner of the sandbox is named', () => {
    const decision = decideRequest(rulesWith({}), get('example.com'));
    expect(decision).toMatchObject({ allowed: false, rule: 'no rule', ask: 'owner' });
  });

  it('to a registry may read, in clear text too, and not write', () => {
    const rules: EgressRules = { policy: DEFAULT_NETWORK_POLICY, constraints: NO_CONSTRAINTS };
    expect(decideRequest(rules, get('pypi.org', '/simple/x/'))).toEqual({ allowed: true, rule: 'packages: PyPI' });
    expect(decideRequest(rules, { ...get('deb.debian.org'), port: 80 }).allowed).toBe(true);
    expect(decideRequest(rules, { ...get('registry.npmjs.org'), method: 'PUT' }).allowed).toBe(false);
    expect(decideRequest(rules, get('pypi.org.evil.example')).allowed).toBe(false);
    expect(decideRequest(rules, { ...get('pypi.org'), port: 8443 }).allowed).toBe(false);
  });

  it('that turns into something else by its headers is a write', () => {
    const rules = rulesWith({ allow: [allow({ host: 'a.example' })] });
    for (const header of ['upgrade', 'x-http-method-override', 'x-http-method', 'x-method-override']) {
      expect(decideRequest(rules, { ...get('a.example'), headers: [header] }).allowed).toBe(false);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'CONNECT', 'get', 'QUERY']) {
      expect(decideRequest(rules, { ...get('a.example'), method }).allowed).toBe(false);
    }
  });

  it('keeps to the path of its rule, in no notation that a server may read otherwise', () => {
    const rules = rulesWith({ allow: [allow({ host: 'a.example', path: '/repos/mine' })] });
    for (const path of ['/repos/mine', '/repos/mine/x', '/repos/mine/']) {
      expect(decideRequest(rules, get('a.example', path)).allowed).toBe(true);
    }
    for (const path of [
      '/repos/mine2',
      '/repos',
      '/repos/mine/../other',
      '/repos/mine/%2e%2e/other',
      '/repos/mine/%2E./other',
      '/repos/mine/%e0%80%ae%E0%80%AE/other',
      '/repos/mine/x%e0%80%af..%e0%80%afother',
      '/repos/mine/x%f0%80%80%af..%F0%80%80%AFother',
      '/repos/mine/x%f8%80%80%80%af..',
      '/repos/mine/x\xe0%80%af..',
      '/repos/mine/..%2fother',
      '/repos/mine/.\\../other',
      '/repos/mine/..;/other',
      '//repos/mine',
      '/repos/mine//x',
      '/repos/mine/%252e%252e/x',
      '/repos/mine\0',
      'repos/mine',
      '*',
    ]) {
      expect(decideRequest(rules, get('a.example', path)).allowed, path).toBe(false);
    }
  });

  it('is denied by a deny of the sandbox, whatever allows it', () => {
    const rules = rulesWith({ preset: 'internet', deny: ['*.evil.example', 'evil.example'] });
    expect(decideRequest(rules, get('good.example')).allowed).toBe(true);
    expect(decideRequest(rules, get('a.b.evil.example'))).toMatchObject({ rule: 'deny: *.evil.example', ask: 'owner' });
    expect(decideTarget(rules, { host: 'evil.example', port: 22 }).allowed).toBe(false);
  });
});

describe('what the organisation says', () => {
  it('stands above every policy, and names an admin', () => {
    const rules = rulesWith({ preset: 'internet' }, { deny: ['evil.example'], readOnly: ['*.corp.example'] });
    expect(decideRequest(rules, get('evil.example'))).toMatchObject({ allowed: false, ask: 'admin' });
    expect(decideRequest(rules, get('git.corp.example')).allowed).toBe(true);
    const post = { ...get('git.corp.example'), method: 'POST' };
    expect(decideRequest(rules, post)).toMatchObject({
      allowed: false,
      rule: 'organisation, read only: *.corp.example',
      ask: 'admin',
    });
    expect(decideRequest(rules, { ...get('git.corp.example'), headers: ['upgrade'] }).allowed).toBe(false);
    expect(decideOpaque(rules, { host: 'git.corp.example', port: 22 }, 'tcp').allowed).toBe(false);
  });

  it('cuts what was allowed before it became narrower', () => {
    const rules = rulesWith({ preset: 'internet' }, { preset: 'packages' });
    expect(decideRequest(rules, get('example.com'))).toMatchObject({ allowed: false, ask: 'admin' });
    expect(decideRequest(rules, get('pypi.org')).allowed).toBe(true);
  });
});

describe('a connection that is not read', () => {
  it('needs a rule of its own protocol', () => {
    const rules = rulesWith({
      allow: [
        allow({ host: 'a.example', access: 'write' }),
        allow({ host: 'b.example', protocol: 'tcp', ports: [22], access: 'write' }),
        allow({ host: 'c.example', protocol: 'tls', access: 'write' }),
      ],
    });
    expect(decideOpaque(rules, { host: 'a.example', port: 443 }, 'tcp').allowed).toBe(false);
    expect(decideOpaque(rules, { host: 'a.example', port: 443 }, 'tls').allowed).toBe(false);
    expect(decideOpaque(rules, { host: 'b.example', port: 22 }, 'tcp').allowed).toBe(true);
    expect(decideOpaque(rules, { host: 'b.example', port: 23 }, 'tcp').allowed).toBe(false);
    expect(decideOpaque(rules, { host: 'c.example', port: 443 }, 'tls').allowed).toBe(true);
    expect(decideRequest(rules, get('c.example')).allowed).toBe(false);
  });

  it('with any bytes is a part of the internet; TLS that is not opened is not', () => {
    const rules = rulesWith({ preset: 'internet' });
    expect(decideOpaque(rules, { host: 'git.example', port: 22 }, 'tcp').allowed).toBe(true);
    expect(decideOpaque(rules, { host: 'git.example', port: 443 }, 'tls').allowed).toBe(false);
  });
});

describe('an address', () => {
  it('must be public, unless the host is one of the private ones by name', () => {
    const rules = rulesWith({ preset: 'internet' }, { privateHosts: ['git.corp.example', '*'] });
    const at = (host: string) => ({ host, port: 443 });
    expect(decideAddress(rules, at('any.example'), 'public').allowed).toBe(true);
    expect(decideAddress(rules, at('git.corp.example'), 'private').allowed).toBe(true);
    expect(decideAddress(rules, at('any.example'), 'private')).toMatchObject({ allowed: false, ask: 'operator' });
    for (const is of ['metadata', 'reserved'] as const)
      expect(decideAddress(rules, at('git.corp.example'), is)).toMatchObject({ allowed: false, ask: 'nobody' });
  });
});

describe('a policy that is wider than the organisation allows', () => {
  it('is refused, by what exceeds', () => {
    const constraints = { ...NO_CONSTRAINTS, preset: 'packages', allow: [allow({ host: '*.corp.example' })] } as const;
    expect(exceeding({ ...NONE, preset: 'packages' }, constraints)).toEqual([]);
    expect(exceeding({ ...NONE, allow: [allow({ host: 'git.corp.example', path: '/x' })] }, constraints)).toEqual([]);
    for (const [rule, name] of [
      [allow({ host: 'corp.example' }), 'allow 1: corp.example'],
      [allow({ host: '*' }), 'allow 1: *'],
      [allow({ host: 'git.corp.example', access: 'write' }), 'allow 1: git.corp.example'],
      [allow({ host: 'git.corp.example', ports: [443, 22] }), 'allow 1: git.corp.example'],
      [allow({ host: 'git.corp.example', protocol: 'tcp' }), 'allow 1: git.corp.example'],
    ] as const) {
      expect(exceeding({ ...NONE, allow: [rule] }, constraints)).toEqual([name]);
    }
    expect(exceeding({ ...NONE, preset: 'internet' }, constraints)).toEqual(['internet']);
    expect(() => checkWithin({ ...NONE, preset: 'internet' }, constraints)).toThrow(/does not allow: internet/);
  });

  it('is one with a rule for a host that is denied, or that writes where only reading is allowed', () => {
    const constraints = { ...NO_CONSTRAINTS, deny: ['*.evil.example'], readOnly: ['docs.example'] };
    expect(exceeding({ ...NONE, allow: [allow({ host: 'x.evil.example' })] }, constraints)).toHaveLength(1);
    expect(exceeding({ ...NONE, allow: [allow({ host: 'docs.example', access: 'write' })] }, constraints)).toHaveLength(
      1,
    );
    expect(exceeding({ ...NONE, allow: [allow({ host: 'docs.example' })] }, constraints)).toEqual([]);
  });
});

const host = fc.constantFrom('a.example', 'b.example', 'x.a.example', 'x.y.a.example', 'pypi.org', '1.1.1.1');
const pattern = fc.constantFrom('a.example', '*.a.example', '*.example', 'pypi.org', '*', '1.1.1.1', 'x.a.example');
const spokenFields = {
  speaks: fc.constantFrom(undefined, ...SPOKEN),
  names: fc.constantFrom(undefined, [], ['a'], ['a', 'b*'], ['*']),
};
type SpokenFields = Pick<AllowRule, 'speaks' | 'tools' | 'reads'>;
function withSpoken<Rule extends object>({
  speaks,
  names,
  ...one
}: Rule & { readonly speaks: AllowRule['speaks'] | undefined; readonly names: readonly string[] | undefined }): Omit<
  Rule,
  'speaks' | 'names'
> &
  SpokenFields {
  return {
    ...one,
    ...(speaks === undefined ? {} : { speaks }),
    ...(names !== undefined && speaks === 'mcp' ? { tools: names } : {}),
    ...(names !== undefined && speaks === 'json-rpc' ? { reads: names } : {}),
  };
}
const rule: fc.Arbitrary<AllowRule> = fc
  .record({
    host: pattern,
    ports: fc.constantFrom<AllowRule['ports']>([443], [80, 443], [22], 'all'),
    protocol: fc.constantFrom(...EGRESS_PROTOCOLS),
    access: fc.constantFrom(...ACCESSES),
    path: fc.constantFrom('/', '/a', '/a/b', '/ab'),
    ...spokenFields,
  })
  .map((one) => withSpoken(one.protocol === 'http' ? one : { ...one, speaks: undefined }));
const askRule: fc.Arbitrary<AskRule> = fc
  .record({
    host: pattern,
    ports: fc.constantFrom<AskRule['ports']>([443], [80, 443], 'all'),
    access: fc.constantFrom(...ASKS_FOR),
    path: fc.constantFrom('/', '/a', '/a/b'),
    ...spokenFields,
  })
  .map(withSpoken);
const denial = fc.oneof(
  pattern,
  fc.record({ host: pattern, path: fc.constantFrom('/', '/a'), tools: fc.constantFrom(['a'], ['b*'], ['*']) }),
);
const policy: fc.Arbitrary<NetworkPolicy> = fc.record({
  preset: fc.constantFrom(...NETWORK_PRESETS),
  allow: fc.array(rule, { maxLength: 4 }),
  ask: fc.array(askRule, { maxLength: 2 }),
  deny: fc.array(denial, { maxLength: 1 }),
});
const constraints: fc.Arbitrary<NetworkConstraints> = fc
  .tuple(policy, fc.array(pattern, { maxLength: 1 }))
  .map(([wide, readOnly]) => ({ ...wide, readOnly, privateHosts: [] }));
const request = fc.record({
  host,
  port: fc.constantFrom(22, 80, 443),
  method: fc.constantFrom('GET', 'HEAD', 'POST'),
  path: fc.constantFrom('/', '/a', '/a/b/c', '/ab', '/b', '/a/../b'),
  headers: fc.constantFrom<string[]>([], ['upgrade']),
  hasBody: fc.boolean(),
  spoken: fc.array(
    fc.record({
      speaks: fc.constantFrom(...SPOKEN),
      calls: fc.option(
        fc.array(
          fc.constantFrom(
            ...['query', 'mutation', 'upload-pack', 'receive-pack', 'tools/list', 'a', 'c'].map((method) => ({
              method,
            })),
            ...['a', 'bc', 'c'].map((tool) => ({ method: 'tools/call', tool })),
          ),
          { maxLength: 2 },
        ),
      ),
    }),
    { maxLength: 2 },
  ),
});

/** Whether the organisation asks for it, or denies it since it cannot be asked for. */
function isAskedOf(wide: NetworkConstraints, asked: Parameters<typeof decideRequest>[1]): boolean {
  const decision = decideRequest({ policy: { ...NONE, preset: 'internet' }, constraints: wide }, asked);
  return !decision.allowed && decision.rule.startsWith('organisation, ask');
}

describe('for any policy and constraints', () => {
  it('a rule that asks, and one of the organisation too, lets nothing through by itself', () => {
    fc.assert(
      fc.property(policy, constraints, askRule, request, (own, wide, more, asked) => {
        const before = decideRequest({ policy: own, constraints: wide }, asked);
        for (const rules of [
          { policy: { ...own, ask: [more, ...own.ask] }, constraints: wide },
          { policy: own, constraints: { ...wide, ask: [more, ...wide.ask] } },
        ]) {
          const after = decideRequest(rules, asked);
          if (after.allowed) expect(before).toEqual(after);
          if (!before.allowed && !after.allowed && !mustBeAsked(after)) expect(mustBeAsked(before)).toBe(false);
          for (const protocol of ['tcp', 'tls'] as const) {
            if (decideOpaque(rules, asked, protocol).allowed)
              expect(decideOpaque({ policy: own, constraints: wide }, asked, protocol).allowed).toBe(true);
          }
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('what the organisation asks for is asked for or denied under every policy', () => {
    fc.assert(
      fc.property(policy, constraints, request, (own, wide, asked) => {
        fc.pre(isAskedOf(wide, asked));
        expect(decideRequest({ policy: own, constraints: wide }, asked).allowed).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });

  it('what is let through is let through by the constraints alone, and by the policy alone', () => {
    fc.assert(
      fc.property(policy, constraints, request, (own, wide, asked) => {
        if (!decideRequest({ policy: own, constraints: wide }, asked).allowed) return;
        expect(decideRequest({ policy: own, constraints: NO_CONSTRAINTS }, asked).allowed).toBe(true);
        expect(decideRequest({ policy: wide, constraints: wide }, asked).allowed).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  it('within its constraints a policy loses nothing but what they deny or let be read only', () => {
    fc.assert(
      fc.property(policy, constraints, request, (own, wide, asked) => {
        if (exceeding(own, wide).length > 0) return;
        const alone = decideRequest({ policy: own, constraints: NO_CONSTRAINTS }, asked);
        const capped = decideRequest({ policy: own, constraints: wide }, asked);
        const bars = [...wide.deny.map((one) => (typeof one === 'string' ? one : one.host)), ...wide.readOnly];
        const isBarred = bars.some((one) => matchesHost(one, asked.host));
        // What the organisation wants to be asked for is asked for, and nothing else is different.
        if (isBarred || isAskedOf(wide, asked)) return;
        expect(capped).toEqual(alone);
      }),
      { numRuns: 2000 },
    );
  });

  it('a target that is refused before it is looked up is refused as whatever', () => {
    fc.assert(
      fc.property(policy, constraints, request, (own, wide, asked) => {
        const rules = { policy: own, constraints: wide };
        if (decideTarget(rules, asked).allowed) return;
        expect(decideRequest(rules, asked).allowed).toBe(false);
        expect(decideOpaque(rules, asked, 'tcp').allowed).toBe(false);
        expect(decideOpaque(rules, asked, 'tls').allowed).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });

  it('one more deny, and one rule less, never lets more through', () => {
    fc.assert(
      fc.property(policy, constraints, request, pattern, (own, wide, asked, more) => {
        if (decideRequest({ policy: own, constraints: wide }, asked).allowed) return;
        const narrower = { ...own, allow: own.allow.slice(1), deny: [...own.deny, more] };
        expect(decideRequest({ policy: narrower, constraints: wide }, asked).allowed).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a rule that asks', () => {
  const ask = (rule: Partial<AskRule> & Pick<AskRule, 'host'>): AskRule => {
    return { ports: [443], access: 'any', path: '/', ...rule };
  };
  const post = (host: string, path = '/') => ({ ...get(host, path), method: 'POST', hasBody: true });

  it('holds what it covers, whether or not another rule allows it', () => {
    for (const allows of [[], [allow({ host: 'a.example', access: 'write' })]]) {
      const rules = rulesWith({ allow: allows, ask: [ask({ host: 'a.example' })] });
      const decision = decideRequest(rules, get('a.example'));
      expect(decision).toMatchObject({ allowed: false, rule: 'ask 1: a.example', ask: 'reviewer' });
      expect(mustBeAsked(decision)).toBe(true);
      expect(decideTarget(rules, { host: 'a.example', port: 443 }).allowed).toBe(true);
    }
    expect(mustBeAsked(decideRequest(rulesWith({ ask: [ask({ host: 'a.example' })] }), get('b.example')))).toBe(false);
  });

  it('of writes leaves reads to the other rules', () => {
    const rules = rulesWith({
      allow: [allow({ host: 'a.example' })],
      ask: [ask({ host: 'a.example', access: 'write' })],
    });
    expect(decideRequest(rules, get('a.example')).allowed).toBe(true);
    expect(mustBeAsked(decideRequest(rules, post('a.example')))).toBe(true);
    const alone = rulesWith({ ask: [ask({ host: 'a.example', access: 'write' })] });
    expect(decideRequest(alone, get('a.example'))).toMatchObject({ allowed: false, rule: 'no rule' });
  });

  it('stands below what denies, and is nothing that a constraint does not let be', () => {
    const asking = { ask: [ask({ host: 'a.example' })] };
    for (const [policy, constraints] of [
      [{ ...asking, deny: ['a.example'] }, {}],
      [asking, { deny: ['a.example'] }],
      [asking, { preset: 'packages' }],
    ] as const) {
      const decision = decideRequest(rulesWith(policy, constraints), get('a.example'));
      expect(decision.allowed || mustBeAsked(decision)).toBe(false);
    }
    const readOnly = decideRequest(rulesWith(asking, { readOnly: ['a.example'] }), post('a.example'));
    expect(mustBeAsked(readOnly)).toBe(false);
  });

  it('of the organisation holds what any policy allows', () => {
    const constraints = { ask: [ask({ host: '*.pay.example', access: 'write' })] };
    const rules = rulesWith({ preset: 'internet' }, constraints);
    expect(decideRequest(rules, post('x.pay.example'))).toMatchObject({
      rule: 'organisation, ask 1: *.pay.example',
      ask: 'reviewer',
    });
    expect(decideRequest(rules, get('x.pay.example')).allowed).toBe(true);
    expect(decideRequest(rules, post('other.example')).allowed).toBe(true);
  });

  it('denies what nothing can be read of', () => {
    const rules = rulesWith({
      preset: 'internet',
      allow: [allow({ host: 'a.example', protocol: 'tls' })],
      ask: [ask({ host: 'a.example', path: '/x' })],
    });
    for (const protocol of ['tls', 'tcp'] as const) {
      const decision = decideOpaque(rules, { host: 'a.example', port: 443 }, protocol);
      expect(decision).toMatchObject({ allowed: false, rule: 'ask 1: a.example', ask: 'owner' });
    }
    expect(decideOpaque(rules, { host: 'b.example', port: 443 }, 'tcp').allowed).toBe(true);
    const upgrade = { ...get('a.example', '/x'), headers: ['upgrade'] };
    expect(decideRequest(rules, upgrade)).toMatchObject({ allowed: false, rule: 'ask 1: a.example', ask: 'owner' });
  });

  it('for a path holds what a server may read as that path', () => {
    const rules = rulesWith({
      allow: [allow({ host: 'a.example', access: 'write' })],
      ask: [ask({ host: 'a.example', path: '/pay' })],
    });
    for (const path of ['/pay', '/pay/now', '/x/../pay', '/%70ay/%2e', '/%70ay', '/PAY', '//pay']) {
      expect(mustBeAsked(decideRequest(rules, get('a.example', path))), path).toBe(true);
    }
    expect(mustBeAsked(decideRequest(rules, { ...get('a.example'), headers: ['x-original-url'] }))).toBe(true);
    expect(decideRequest(rules, get('a.example', '/payments')).allowed).toBe(true);
  });

  it('is within the constraints when they allow as much or ask for it, and an allow for what they ask for is not', () => {
    const asked = { ...NO_CONSTRAINTS, preset: 'none' as const, ask: [ask({ host: '*.pay.example' })] };
    expect(exceeding({ ...NONE, ask: [ask({ host: 'x.pay.example' })] }, asked)).toEqual([]);
    expect(exceeding({ ...NONE, ask: [ask({ host: 'pay.example' })] }, asked)).toEqual(['ask 1: pay.example']);
    const wide = { ...asked, preset: 'internet' as const };
    expect(exceeding({ ...NONE, allow: [allow({ host: 'x.pay.example' })] }, wide)).toEqual([
      'allow 1: x.pay.example (only when asked)',
    ]);
    expect(exceeding({ ...NONE, preset: 'internet' }, wide)).toEqual([]);
  });
});

describe('a host of a rule', () => {
  it.each([
    ['*.Example.COM.', '*.example.com'],
    ['Bücher.example', 'xn--bcher-kva.example'],
    ['*', '*'],
    ['[::1]', '::1'],
    ['*.*.example.com', null],
    ['exa*mple.com', null],
    ['*example.com', null],
    ['*.1.2.3.4', null],
    ['example.com:443', null],
    ['https://example.com', null],
  ])('%s is %s', (text, normal) => {
    expect(normaliseHostPattern(text)).toBe(normal);
  });
});
