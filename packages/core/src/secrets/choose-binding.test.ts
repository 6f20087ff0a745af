import { describe, expect, it } from 'vitest';
import type { EgressRequest } from '../egress/decide-egress.ts';
import { chooseBinding, whyNotFor } from './choose-binding.ts';
import type { BoundSecret } from './secret-binding.ts';

function bound(changes: Partial<BoundSecret> = {}): BoundSecret {
  return {
    binding: 'github',
    placeholder: 'space-secret-00000000000000000000',
    secret: { name: 'token', source: { kind: 'local' }, version: 1 },
    hosts: ['api.github.com'],
    ports: [443],
    methods: 'all',
    paths: ['/'],
    place: { in: 'bearer' },
    ...changes,
  };
}

function asked(changes: Partial<EgressRequest> = {}): EgressRequest {
  return { host: 'api.github.com', port: 443, method: 'GET', path: '/user', headers: [], hasBody: false, ...changes };
}

describe('a binding is for a request', () => {
  it('to its host', () => {
    expect(chooseBinding([bound()], asked())).toMatchObject({ kind: 'one', bound: { binding: 'github' } });
  });

  it('to what lies below its wildcard, and not to its name', () => {
    const below = bound({ hosts: ['*.github.com'] });
    expect(whyNotFor(below, asked())).toBeNull();
    expect(whyNotFor(below, asked({ host: 'github.com' }))).toMatch(/host/);
    expect(whyNotFor(below, asked({ host: 'evilgithub.com' }))).toMatch(/host/);
  });

  it.each<[string, Partial<BoundSecret>, Partial<EgressRequest>]>([
    ['host', {}, { host: 'api.github.com.evil.example' }],
    ['port', {}, { port: 8443 }],
    ['method', { methods: ['GET'] }, { method: 'DELETE' }],
    ['method in a header', { methods: ['GET'] }, { headers: ['x-http-method-override'] }],
    ['method in a header, with an underscore', { methods: ['GET'] }, { headers: ['x_http_method_override'] }],
    ['path', { paths: ['/user'] }, { path: '/users' }],
    ['path with dots', { paths: ['/user'] }, { path: '/user/../admin' }],
    ['path with encoded dots', { paths: ['/user'] }, { path: '/user/%2e%2e/admin' }],
    ['path in a header', { paths: ['/user'] }, { headers: ['x-original-url'] }],
  ])('not with another %s', (_what, binding, request) => {
    expect(chooseBinding([bound(binding)], asked(request))).toEqual({ kind: 'none' });
  });

  it('below each of its paths, by whole segments', () => {
    const two = bound({ paths: ['/repos/a', '/user'] });
    expect(whyNotFor(two, asked({ path: '/repos/a/b' }))).toBeNull();
    expect(whyNotFor(two, asked({ path: '/user' }))).toBeNull();
    expect(whyNotFor(two, asked({ path: '/repos/ab' }))).toMatch(/path/);
  });
});

it('two that fit are named, and neither is chosen', () => {
  const other = bound({ binding: 'bot', paths: ['/user'] });
  expect(chooseBinding([bound(), other], asked())).toEqual({ kind: 'several', names: ['github', 'bot'] });
  expect(chooseBinding([bound(), other], asked({ path: '/' }))).toMatchObject({ bound: { binding: 'github' } });
});
