import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ACTIONS,
  type Action,
  authorise,
  type Principal,
  type Resource,
  ROLE_ACTIONS,
  ROLES,
  type Role,
} from './authority.ts';
import type { ApiKeyId, OrganisationId, ProjectId } from './ids.ts';

const OURS = 'org_ours' as OrganisationId;
const THEIRS = 'org_theirs' as OrganisationId;
const ONE = 'prj_one' as ProjectId;
const TWO = 'prj_two' as ProjectId;
const NAMES = Object.keys(ACTIONS) as Action[];

const principal = (changes: Partial<Principal> = {}): Principal => {
  const apiKeyId = 'key_x' as ApiKeyId;
  return {
    apiKeyId,
    organisationId: OURS,
    operator: false,
    onlyProject: null,
    roles: ['admin'],
    ...changes,
  };
};

const resourceFor = (action: Action, organisationId = OURS, projectId = ONE): Resource => {
  const kind = ACTIONS[action];
  if (kind === 'installation') return { kind };
  return kind === 'organisation' ? { kind, organisationId } : { kind, organisationId, projectId };
};

const anyPrincipal = fc.record({
  apiKeyId: fc.constant('key_x' as ApiKeyId),
  organisationId: fc.constant(OURS),
  operator: fc.boolean(),
  onlyProject: fc.constantFrom(null, ONE, TWO),
  roles: fc.subarray([...ROLES]),
});

describe('authorise', () => {
  it('lets nobody see that another organisation has anything, whatever the roles are', () => {
    fc.assert(
      fc.property(anyPrincipal, fc.constantFrom(...NAMES), (who, action) => {
        fc.pre(ACTIONS[action] !== 'installation');
        expect(authorise(who, action, resourceFor(action, THEIRS))).toEqual({ allowed: false, code: 'not_found' });
      }),
    );
  });

  it('hides the other projects from a key of one', () => {
    for (const action of NAMES.filter((name) => ACTIONS[name] === 'project')) {
      const limited = principal({ onlyProject: ONE });
      expect(authorise(limited, action, resourceFor(action, OURS, TWO))).toEqual({ allowed: false, code: 'not_found' });
      const here = authorise(limited, action, resourceFor(action, OURS, ONE));
      expect(here).toEqual(action === 'approval.decide' ? { allowed: false, code: 'forbidden' } : { allowed: true });
    }
  });

  it('lets a key of one project do nothing above projects but see which it is', () => {
    const limited = principal({ onlyProject: ONE, operator: true });
    const above = NAMES.filter((name) => ACTIONS[name] !== 'project');
    const allowed = above.filter((action) => authorise(limited, action, resourceFor(action)).allowed);
    expect(allowed).toEqual(['project.read']);
  });

  it('keeps the installation to the organisation that runs it', () => {
    for (const action of NAMES.filter((name) => ACTIONS[name] === 'installation')) {
      expect(authorise(principal(), action, resourceFor(action))).toEqual({ allowed: false, code: 'forbidden' });
      expect(authorise(principal({ operator: true }), action, resourceFor(action))).toEqual({ allowed: true });
    }
  });

  it('lets a reviewer decide, and nobody who has sandboxes or makes keys, whatever else they are', () => {
    const resource = resourceFor('approval.decide');
    fc.assert(
      fc.property(anyPrincipal, (who) => {
        const isOwner = who.roles.includes('admin') || who.roles.includes('developer');
        const isReviewer = who.roles.includes('reviewer') && !isOwner && who.onlyProject !== TWO;
        expect(authorise(who, 'approval.decide', resource).allowed).toBe(isReviewer);
      }),
    );
  });

  it('allows what one of the roles has, and never more for fewer roles', () => {
    fc.assert(
      fc.property(anyPrincipal, fc.constantFrom(...NAMES), (who, action) => {
        fc.pre(action !== 'approval.decide');
        const { allowed } = authorise(who, action, resourceFor(action));
        if (allowed) expect(who.roles.some((role) => ROLE_ACTIONS[role].includes(action))).toBe(true);
        for (const role of who.roles) {
          const fewer = { ...who, roles: who.roles.filter((one) => one !== role) };
          if (authorise(fewer, action, resourceFor(action)).allowed) expect(allowed).toBe(true);
        }
      }),
    );
  });

  it('gives tenant content to those who work with it, and authority to admins only', () => {
    const having = (action: Action) => ROLES.filter((role: Role) => ROLE_ACTIONS[role].includes(action));
    expect(having('sandbox.use')).toEqual(['admin', 'developer']);
    expect(having('key.manage')).toEqual(['admin']);
    expect(having('organisation.manage')).toEqual(['admin']);
    expect(having('approval.decide')).toEqual(['reviewer']);
    expect(having('project.manage')).toEqual(['admin']);
    expect(having('audit.read')).toEqual(['admin', 'auditor']);
    expect(having('sandbox.read')).toEqual(['admin', 'developer', 'viewer', 'reviewer']);
  });

  it('takes an action on a resource of another kind for a bug', () => {
    expect(() => authorise(principal(), 'key.read', { kind: 'installation' })).toThrow('is not done on');
  });
});
