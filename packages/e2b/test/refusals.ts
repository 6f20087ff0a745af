/** What is E2B's and not here, by name: for the test that shows it, and for the page that says it. */

/** Fields of a create, and what the answer says. */
export const REFUSED_FIELDS: readonly (readonly [field: object, message: string])[] = [
  [{ secure: false }, 'secure: false is not supported'],
  [{ mcp: {} }, 'mcp is not supported'],
  [{ iam: { tokens: {} } }, 'iam is not supported'],
  [{ volumeMounts: [{ name: 'a', path: '/a' }] }, 'volumeMounts is not supported'],
  [{ network: { maskRequestHost: 'a' } }, 'network.maskRequestHost is not supported'],
  [{ network: { httpsPorts: [443] } }, 'network.httpsPorts is not supported'],
  [{ network: { rules: { 'a.example': [] } } }, 'network.rules is not supported'],
  [{ network: { egressProxy: { address: 'a:1' } } }, 'network.egressProxy is not supported'],
  [{ network: { allowOut: ['10.0.0.0/8'] } }, 'Allowing the network 10.0.0.0/8 is not supported'],
  [{ network: { allowOut: ['8.8.8.8'], denyOut: ['8.8.8.8/32'] } }, 'Both allowing and denying 8.8.8.8'],
  [{ network: { allowOut: ['8.8.8.8'], denyOut: ['8.0.0.0/8'] } }, 'Both allowing and denying 8.8.8.8'],
];

export interface RefusedCall {
  readonly method: string;
  readonly path: string;
  /** Methods of the SDKs that make it. */
  readonly of: readonly string[];
}

/** What is done with a volume needs one. */
const VOLUME_CONTENT = ['create', 'exists', 'makeDir', 'readFile', 'remove', 'updateMetadata', 'writeFile'].map(
  (method) => `Volume.${method}`,
);

export const REFUSED_CALLS: readonly RefusedCall[] = [
  { method: 'POST', path: '/volumes', of: VOLUME_CONTENT },
  { method: 'GET', path: '/volumes', of: ['Volume.list'] },
  { method: 'GET', path: '/volumes/x', of: ['Volume.getInfo', 'Volume.connect'] },
  { method: 'DELETE', path: '/volumes/x', of: ['Volume.destroy'] },
  { method: 'POST', path: '/secrets', of: ['Secret.create', 'Secret.fill', 'Secret.iamToken'] },
  { method: 'GET', path: '/secrets', of: ['Secret.list'] },
  { method: 'GET', path: '/secrets/x', of: ['Secret.getInfo', 'Secret.exists'] },
  { method: 'POST', path: '/secrets/x', of: ['Secret.update'] },
  { method: 'DELETE', path: '/secrets/x', of: ['Secret.destroy'] },
];
