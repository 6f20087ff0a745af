/**
 * The names of previews: `3000-sbx-0123456789abcdef.localhost` is port 3000 of that sandbox. Each port of each sandbox so has
 * an origin of its own, apart from that of the API. Below `localhost` browsers and curl need no set-up.
 */
import { hostnameOf, parseId, type SandboxId } from '@space/core';
import { hostNameIn } from '../hosts.ts';

export interface Preview {
  readonly sandboxId: SandboxId;
  readonly port: number;
}

const LABEL = /^([1-9][0-9]{0,4})-sbx-([0-9a-z]{16})$/;
const MAX_PORT = 65_535;
const LOCAL = 'localhost';

/** Where the names lead, which is not below `localhost`. */
export interface NamesBase {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  /** As it stands after a name, or nothing where it is the usual one. */
  readonly port: () => string;
}

/** Of an origin, e.g. `https://previews.example.com`. */
export function namesBaseOf(origin: string): NamesBase {
  const { protocol, hostname, port } = new URL(origin);
  return {
    protocol: protocol === 'https:' ? 'https:' : 'http:',
    hostname,
    port: () => (port === '' ? '' : `:${port}`),
  };
}

export class PreviewNames {
  readonly #base: NamesBase | undefined;

  constructor(base: NamesBase | undefined) {
    this.#base = base;
  }

  /** What a Host header means; undefined: no preview. */
  previewIn(host: string | undefined): Preview | undefined {
    const [, port, letters] = LABEL.exec(this.labelIn(host) ?? '') ?? [];
    const sandboxId = parseId('sandbox', `sbx_${letters}`);
    return sandboxId === undefined || Number(port) > MAX_PORT ? undefined : { sandboxId, port: Number(port) };
  }

  /** The first part of a name that is below one of ours; undefined: it is not. */
  labelIn(host: string | undefined): string | undefined {
    const { label, domain } = partsOf(host);
    return domain === LOCAL || (domain !== undefined && domain === this.#base?.hostname) ? label : undefined;
  }

  /** What names end in that are reached by TLS, with its port; undefined: there are none. */
  get encryptedBase(): string | undefined {
    return this.#base?.protocol === 'https:' ? hostOf(this.#base) : undefined;
  }

  /** Whether browsers reach that name by TLS, which may end at a proxy in front of this server. */
  isEncrypted(host: string | undefined): boolean {
    return this.#base?.protocol === 'https:' && partsOf(host).domain === this.#base.hostname;
  }

  /** With `{port}` and `{sandbox}` in it; null when who calls by that address can reach no preview by name. */
  template(reachedBy: { readonly host: string | undefined; readonly encrypted: boolean; readonly loopback: boolean }) {
    if (this.#base !== undefined) return `${this.#base.protocol}//{port}-{sandbox}.${hostOf(this.#base)}`;
    if (!reachedBy.loopback || reachedBy.host === undefined) return null;
    const port = /:[0-9]{1,5}$/.exec(reachedBy.host)?.[0] ?? '';
    return `${reachedBy.encrypted ? 'https' : 'http'}://{port}-{sandbox}.${LOCAL}${port}`;
  }
}

function hostOf({ hostname, port }: NamesBase): string {
  return hostname + port();
}

/** The first label of a name, and the rest of it; undefined: it has none. */
function partsOf(host: string | undefined): { readonly label: string; readonly domain?: string } {
  const name = host === undefined ? undefined : hostNameIn(host);
  const [, label = '', domain] = /^([^.]*)\.(.*)$/s.exec(name ?? '') ?? [];
  return domain === undefined ? { label } : { label, domain };
}

export function previewUrl(template: string | null, { sandboxId, port }: Preview): string | null {
  return template?.replace('{port}', String(port)).replace('{sandbox}', hostnameOf(sandboxId)) ?? null;
}
