/** What the sandbox may reach while a case is tried. */
import type { NetworkChoice } from '@space/sdk';
import { FLIPPING } from './hosts/zone.ts';
import type { OwnPlaces, Places } from './places.ts';

/** Below this path the open host may be read in most scenes. */
export const OPEN_PATH = '/open';

export type SceneName = keyof typeof SCENES;

export const SCENES = {
  nothing: () => ({ preset: 'none' }),
  /** The one host, reading, below one path. */
  reading: ({ open, https, own }: Places) => ({
    preset: 'none',
    allow: [{ host: open, access: 'read', path: OPEN_PATH, ports: [https, ...httpPortsOf(own)] }],
  }),
  writing: ({ open, https, own }: Places) => ({
    preset: 'none',
    allow: [{ host: open, access: 'write', path: OPEN_PATH, ports: [https, ...httpPortsOf(own)] }],
  }),
  /** Both hosts, so that what is refused is not refused for its name. */
  both: ({ open, shut, https, own }: Places) => ({
    preset: 'none',
    allow: [open, shut].map((host) => ({ host, access: 'write' as const, ports: [https, ...httpPortsOf(own)] })),
  }),
  /** Any bytes to one port of the one host; and requests to any. */
  bytes: ({ open, own }: Places) => ({
    preset: 'none',
    allow: [
      { host: open, protocol: 'tcp', ports: own === null ? [22] : [own.echo, own.greeter] },
      { host: open, access: 'write', ports: 'all' },
    ],
  }),
  unopened: ({ open, https }: Places) => ({
    preset: 'none',
    allow: [{ host: open, protocol: 'tls', ports: [https] }],
  }),
  git: ({ open, https }: Places) => ({
    preset: 'none',
    allow: [{ host: open, access: 'read', path: OPEN_PATH, ports: [https], speaks: 'git' }],
  }),
  mcp: ({ open, https }: Places) => ({
    preset: 'none',
    allow: [{ host: open, access: 'read', path: OPEN_PATH, ports: [https], speaks: 'mcp', tools: ['search'] }],
  }),
  internet: () => ({ preset: 'internet' }),
  /** The name that leads elsewhere each time; it may be private, and never what else it leads to. */
  flipping: ({ own }: Places) => ({
    preset: 'none',
    allow: own === null ? [] : [{ host: `${FLIPPING}.${own.domain}`, access: 'write', ports: [own.http] }],
  }),
} as const satisfies Record<string, (places: Places) => NetworkChoice>;

function httpPortsOf(own: OwnPlaces | null): readonly number[] {
  return own === null ? [] : [own.http, own.h2];
}
