/**
 * A store of secrets outside, as the operator has configured it. Adapters: `secrets-*`. All of them run in the gateway.
 */
import type { SecretValue } from '../secrets/secret-value.ts';

export interface SecretReference {
  /** What it means is the store's: a path, the name of a variable, an id. */
  readonly path: string;
  readonly field: string | null;
  /** Credentials of OAuth 2, for stores that are authorisation servers. */
  readonly oauth2?: {
    readonly clientId: string;
    readonly clientSecret: SecretValue | null;
    readonly refreshToken: SecretValue | null;
    readonly scope: string | null;
  };
}

export interface FetchedSecret {
  readonly value: SecretValue;
  /** How long it is good for; null: the store does not say. */
  readonly validMs: number | null;
  /** It came with another refresh token, and the one that was used may be good no more. */
  readonly nextRefreshToken?: SecretValue;
}

export interface SecretStore {
  /** Throws `secret_unavailable`; what the message says holds no value and no answer of the store. */
  fetch(reference: SecretReference, signal: AbortSignal): Promise<FetchedSecret>;
}
