/** The names that our name server knows. All lead to loopback, where the hosts are, but those that try to lead elsewhere. */

export const DOMAIN = 'conformance.test';

/** By the label before the domain; to where nobody may be led, whatever the name is. */
export const LEADING_ASTRAY: Readonly<Record<string, readonly string[]>> = {
  'to-loopback': ['127.0.0.1'],
  'to-private': ['10.0.0.1'],
  'to-metadata': ['169.254.169.254'],
  'to-nobody': ['0.0.0.0'],
  'to-mapped': ['::ffff:7f00:1'],
  'to-nat64': ['64:ff9b::7f00:1'],
  'to-6to4': ['2002:7f00:1::'],
  'to-loopback6': ['::1'],
  'to-local6': ['fd00::1'],
  'to-metadata6': ['fd00:ec2::254'],
  'to-both': ['1.1.1.1', '127.0.0.1'],
};

/** At the metadata service and at the hosts in turn. */
export const FLIPPING = 'flips';

export function zone(name: string, asked: number): readonly string[] | null {
  if (!name.endsWith(`.${DOMAIN}`)) return null;
  const label = name.slice(0, -DOMAIN.length - 1);
  if (label === FLIPPING) return [asked % 2 === 0 ? '169.254.169.254' : '127.0.0.1'];
  return LEADING_ASTRAY[label] ?? ['127.0.0.1'];
}
