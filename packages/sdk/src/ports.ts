/** The TCP ports of a sandbox: opened in a browser, shared, called, or forwarded to this machine. */
import type { Capabilities, CreatedShare, Share, ShareList } from '@space/contract';
import { misused } from './errors.ts';
import { type Forwarded, type ForwardOptions, forwardPort } from './forward.ts';
import { refuseUnknown } from './options.ts';
import type { CallOptions, Transport } from './transport.ts';

export type { CreatedShare, Share };

export interface ShareOptions extends CallOptions {
  /** For people; need not be unique. */
  readonly name?: string;
  /** From now on; default 24 hours, at most 30 days. */
  readonly expiresInMs?: number;
}

export class Ports {
  readonly #transport: Transport;
  readonly #sandboxId: string;
  readonly #path: string;
  #template: Promise<string | null> | undefined;

  constructor(transport: Transport, sandboxId: string) {
    this.#transport = transport;
    this.#sandboxId = sandboxId;
    this.#path = `/v1/sandboxes/${sandboxId}`;
  }

  /**
   * Where a port can be opened in a browser. It is private: who opens it needs a share (see `share`), or sends a key of the
   * project in the header `X-Space-Key`. Throws `misused` where the server has no names for previews.
   */
  async url(port: number, { signal, ...unknown }: CallOptions = {}): Promise<string> {
    refuseUnknown(unknown);
    this.#template ??= this.#askTemplate(signal);
    this.#template.catch(() => {
      this.#template = undefined;
    });
    const template = await this.#template;
    if (template === null) {
      throw misused(
        'The server has no names for previews.',
        'Start it with --previews URL, or use ports.fetch and ports.forward.',
      );
    }
    return template.replace('{port}', String(port)).replace('{sandbox}', this.#sandboxId.replace('_', '-'));
  }

  /** Lets whoever holds the token reach that port, until it expires or is revoked. `url` opens it in a browser. */
  async share(port: number, { name, expiresInMs, signal, ...unknown }: ShareOptions = {}): Promise<CreatedShare> {
    refuseUnknown(unknown);
    const json = { port, name, expiresInMs };
    return this.#transport.json({ method: 'POST', path: `${this.#path}/shares`, json, signal });
  }

  /** Those that work, oldest first. The sandbox is not woken. */
  async shares({ port, signal, ...unknown }: CallOptions & { readonly port?: number } = {}): Promise<Share[]> {
    refuseUnknown(unknown);
    const call = { method: 'GET', path: `${this.#path}/shares`, signal } as const;
    const { shares } = await this.#transport.json<ShareList>(call);
    return port === undefined ? shares : shares.filter((share) => share.port === port);
  }

  /** Connections by it end within 2 seconds. Throws `not_found`. */
  async revoke(share: Share | CreatedShare | string, { signal, ...unknown }: CallOptions = {}): Promise<void> {
    refuseUnknown(unknown);
    const id = typeof share === 'string' ? share : share.id;
    await this.#transport.done({ method: 'DELETE', path: `${this.#path}/shares/${encodeURIComponent(id)}`, signal });
  }

  /**
   * Calls an HTTP server in the sandbox with the key of this client. Whatever it answers is the result; a redirect is not
   * followed. Throws `misused` for a path that leads out of the port.
   */
  fetch(port: number, path: string, init: RequestInit = {}): Promise<Response> {
    return this.#transport.raw(`${this.#path}/ports/${port}/http`, path, init);
  }

  /** Listens on a port of this machine's loopback, and connects what comes to the port in the sandbox. Needs Node. */
  forward(port: number, options: ForwardOptions = {}): Promise<Forwarded> {
    return forwardPort(this.#transport.upgradeTo(`${this.#path}/ports/${port}/tcp`), options);
  }

  async #askTemplate(signal: AbortSignal | undefined): Promise<string | null> {
    const call = { method: 'GET', path: '/v1/capabilities', signal } as const;
    return (await this.#transport.json<Capabilities>(call)).previews.url;
  }
}
