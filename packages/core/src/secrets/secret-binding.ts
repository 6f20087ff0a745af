/**
 * Secrets by name, and what they are bound to. An organisation's secret says where its value comes from; a binding of it says for
 * which requests it is placed, and how. Sandboxes name bindings. Nothing here is a value: those are in the gateway alone.
 *
 * What is left out of a binding is the stricter thing, and a host is never left out.
 */
import type { ProjectId } from '../ids.ts';

/** Of a secret, or of a binding: lower-case letters, digits and dashes. */
export const SECRET_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

export type SecretSource =
  /** Sealed for the gateway by whoever set it, and kept by the gateway. */
  | { readonly kind: 'local' }
  /** In a store that the operator has named; what `path` and `field` are depends on its kind. */
  | { readonly kind: 'store'; readonly store: string; readonly path: string; readonly field: string | null }
  /** Tokens of an authorisation server that the operator has named. The credentials are local secrets of the organisation. */
  | {
      readonly kind: 'oauth2';
      readonly store: string;
      readonly clientId: string;
      readonly clientSecret: string | null;
      /** Left out: client credentials. */
      readonly refreshToken: string | null;
      readonly scope: string | null;
    };

export interface NamedSecret {
  readonly name: string;
  readonly source: SecretSource;
  /** Goes up with each change, so that what was kept of an earlier one is not used. */
  readonly version: number;
}

/** Where it goes. */
export type SecretPlace =
  /** `prefix` stands before the value, as in `token …`. */
  | { readonly in: 'header'; readonly name: string; readonly prefix: string }
  | { readonly in: 'bearer' }
  /** The value is the password. */
  | { readonly in: 'basic'; readonly username: string }
  | { readonly in: 'query'; readonly name: string };

export interface BindingScope {
  /** Names, or `*.` and a name. */
  readonly hosts: readonly string[];
  readonly ports: readonly number[] | 'all';
  readonly methods: readonly string[] | 'all';
  /** Requests for one of them and what lies below, by whole segments. */
  readonly paths: readonly string[];
  readonly place: SecretPlace;
}

export interface SecretBinding extends BindingScope {
  readonly name: string;
  /** Of the secret. */
  readonly secret: string;
  /** Whose sandboxes may name it. */
  readonly projects: readonly ProjectId[] | 'all';
  /** The variable that shows its placeholder to programs; null: none does. */
  readonly env: string | null;
}

/** That a sandbox names a binding, as it was when that was asked for. What it gives is looked up each time. */
export interface SecretGrant {
  readonly binding: string;
  readonly placeholder: string;
  readonly env: string | null;
}

/** A binding that a sandbox may use now, as the gateway has to know it. */
export interface BoundSecret extends BindingScope {
  readonly binding: string;
  readonly placeholder: string;
  readonly secret: NamedSecret;
}

export const MAX_SECRETS = 1_000;
export const MAX_BINDINGS = 1_000;
export const MAX_BINDINGS_OF_SANDBOX = 32;
export const MAX_SECRET_BYTES = 16 * 1024;
/** Ciphertext with what belongs to it, in base64. */
export const MAX_SEALED_LENGTH = 24 * 1024;
export const DEFAULT_BINDING_PORTS: readonly number[] = [443];

export function isGrantedTo({ projects }: Pick<SecretBinding, 'projects'>, projectId: ProjectId): boolean {
  return projects === 'all' || projects.includes(projectId);
}

/** Headers that say where a request goes or how it is framed, or that speak to a proxy; no secret belongs there. */
const NOT_A_PLACE: readonly string[] = [
  'host',
  'connection',
  'content-length',
  'content-type',
  'expect',
  'forwarded',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];

export function isPlaceOfSecret(header: string): boolean {
  const name = header.toLowerCase();
  return !NOT_A_PLACE.includes(name) && !/^(proxy|sec|x-forwarded|x-http-method|x-method)-/.test(name);
}
