/**
 * Values of secrets, when they are needed: fetched from where they come from, and kept in memory for a short time at most. However
 * many requests wait for one, it is fetched once. Of what cannot be had nothing is made up: the request fails, and can be repeated.
 */
import {
  AppError,
  type FetchedSecret,
  type NamedSecret,
  type OrganisationId,
  type SecretSource,
  type SecretStore,
  type SecretValue,
} from '@space/core';
import { until } from '../until.ts';
import type { LocalSecrets } from './local-secrets.ts';

const KEPT_MS = 60_000;
/** Before its end, so that it is not one that has just ended when it arrives. */
const BEFORE_END_MS = 5_000;
const FETCH_WITHIN_MS = 10_000;
const MAX_KEPT = 1_000;
/** One that a host refuses is fetched again, and not more often than that. */
const REFUSED_AFTER_MS = 2_000;

/** A store of the operator's, and what of it each organisation may use: paths as they are, or ending in `*`. */
interface OpenStore {
  readonly store: SecretStore;
  readonly grants: Readonly<Record<string, readonly string[]>>;
}

export type SecretStores = Readonly<Record<string, OpenStore>>;

interface Kept {
  readonly value: Promise<SecretValue>;
  readonly sinceMs: number;
  /** Of the monotonic clock; it is not known before it has been fetched. */
  untilMs: number;
}

interface SecretsOptions {
  readonly local: LocalSecrets;
  readonly stores: SecretStores;
  readonly nowMs?: () => number;
}

export class Secrets {
  readonly #local: LocalSecrets;
  readonly #stores: SecretStores;
  readonly #nowMs: () => number;
  readonly #kept = new Map<string, Kept>();

  constructor({ local, stores, nowMs = () => performance.now() }: SecretsOptions) {
    this.#local = local;
    this.#stores = stores;
    this.#nowMs = nowMs;
  }

  /** Throws `secret_unavailable`. */
  async valueOf(organisationId: OrganisationId, secret: NamedSecret, signal: AbortSignal): Promise<SecretValue> {
    signal.throwIfAborted();
    const key = keyOf(organisationId, secret);
    const known = this.#kept.get(key);
    const kept =
      known !== undefined && this.#nowMs() < known.untilMs ? known : this.#fetch(key, organisationId, secret);
    return until(signal, kept.value);
  }

  /** A host did not believe it: it may have been changed where it comes from. */
  refused(organisationId: OrganisationId, secret: NamedSecret): void {
    const key = keyOf(organisationId, secret);
    const known = this.#kept.get(key);
    if (known !== undefined && this.#nowMs() - known.sinceMs > REFUSED_AFTER_MS) this.#kept.delete(key);
  }

  /** What is kept of the organisation is fetched again when it is needed. */
  forget(organisationId: OrganisationId): void {
    for (const key of this.#kept.keys()) if (key.startsWith(`${organisationId} `)) this.#kept.delete(key);
  }

  #fetch(key: string, organisationId: OrganisationId, secret: NamedSecret): Kept {
    const fetched = this.#read(organisationId, secret.source, secret.name);
    const kept: Kept = {
      value: fetched.then(({ value }) => value),
      sinceMs: this.#nowMs(),
      untilMs: this.#nowMs() + FETCH_WITHIN_MS,
    };
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    fetched.then(
      ({ validMs }) => {
        const forMs = validMs === null ? KEPT_MS : Math.min(KEPT_MS, validMs - BEFORE_END_MS);
        kept.untilMs = this.#nowMs() + Math.max(0, forMs);
      },
      () => {
        if (this.#kept.get(key) === kept) this.#kept.delete(key);
      },
    );
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest);
    return kept;
  }

  async #read(organisationId: OrganisationId, source: SecretSource, name: string): Promise<FetchedSecret> {
    try {
      if (source.kind === 'local') return { value: await this.#own(organisationId, name), validMs: null };
      const path = source.kind === 'store' ? source.path : source.clientId;
      const store = this.#storeFor(organisationId, source.store, path);
      const reference =
        source.kind === 'store' ? { path, field: source.field } : await this.#oauth2(organisationId, source);
      const limit = AbortSignal.timeout(FETCH_WITHIN_MS);
      const fetched = await until(limit, store.fetch(reference, limit));
      if (source.kind === 'oauth2' && source.refreshToken !== null && fetched.nextRefreshToken !== undefined) {
        await this.#local.put({ organisationId, name: source.refreshToken }, fetched.nextRefreshToken);
      }
      return fetched;
    } catch (thrown) {
      const why = thrown instanceof AppError ? ` ${thrown.message}` : '';
      throw new AppError('secret_unavailable', `The secret "${name}" cannot be had from its source now.${why}`);
    }
  }

  /** What an organisation may not use, and what there is not, are the same. */
  #storeFor(organisationId: OrganisationId, name: string, path: string): SecretStore {
    const found = Object.hasOwn(this.#stores, name) ? this.#stores[name] : undefined;
    const granted = found?.grants[organisationId] ?? [];
    const isGranted = granted.some((one) => (one.endsWith('*') ? isBelow(one.slice(0, -1), path) : path === one));
    if (found !== undefined && isGranted) return found.store;
    throw new AppError('secret_unavailable', `No store "${name}" gives this organisation "${path.slice(0, 200)}".`);
  }

  async #oauth2(organisationId: OrganisationId, source: Extract<SecretSource, { kind: 'oauth2' }>) {
    const { clientId, scope } = source;
    const own = async (name: string | null) => (name === null ? null : this.#own(organisationId, name));
    const [clientSecret, refreshToken] = await Promise.all([own(source.clientSecret), own(source.refreshToken)]);
    return { path: clientId, field: null, oauth2: { clientId, clientSecret, refreshToken, scope } };
  }

  async #own(organisationId: OrganisationId, name: string): Promise<SecretValue> {
    const value = await this.#local.find({ organisationId, name });
    if (value === null) throw new AppError('secret_unavailable', `The gateway keeps no value of "${name}".`);
    return value;
  }
}

/** Paths are text to us, and not to every store. */
function isBelow(prefix: string, path: string): boolean {
  return path.startsWith(prefix) && !/(^|\/)\.{1,2}(\/|$)|[%\\?#\p{Cc}]/u.test(path);
}

function keyOf(organisationId: OrganisationId, { name, version, source }: NamedSecret): string {
  return `${organisationId} ${JSON.stringify([name, version, source])}`;
}
