/**
 * The certificate authorities of organisations: each has one, made on first use and kept in the gateway's own folder, whose
 * key never leaves it. Certificates of hosts are made when they are needed, for a short time, and kept in memory.
 */
import type { webcrypto } from 'node:crypto';
import { join } from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import { isAddress, type OrganisationId } from '@space/core';
import { type Authority, authorityFrom, generateKeys, makeAuthority, makeLeaf, pemOf } from './certificates.ts';
import { findOwn, keepOwn } from './own-files.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const LEAF_MS = 30 * DAY_MS;
/** Certificates are made anew long before they end. */
const RENEW_AFTER_MS = DAY_MS;
const MAX_LEAVES = 1_000;
/** The way from the guest does not leave the machine: nobody keeps what passes for a computer of later times to read. */
const CURVES = 'X25519:P-256:P-384';

interface Signing {
  readonly authority: Authority;
  /** Of all certificates of hosts: who has it has this process. */
  readonly leafKeys: webcrypto.CryptoKeyPair;
  readonly leafKeyPem: string;
}

interface Leaf {
  readonly context: Promise<SecureContext>;
  readonly madeAtMs: number;
}

export class Authorities {
  readonly #folder: string;
  readonly #authorities = new Map<OrganisationId, Promise<Signing>>();
  readonly #leaves = new Map<string, Leaf>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async certificateOf(organisationId: OrganisationId): Promise<string> {
    return (await this.#authority(organisationId)).authority.certificatePem;
  }

  /** What to show a guest of the organisation that asks for the host. */
  contextFor(organisationId: OrganisationId, host: string): Promise<SecureContext> {
    const key = `${organisationId} ${host}`;
    const known = this.#leaves.get(key);
    if (known !== undefined && Date.now() - known.madeAtMs < RENEW_AFTER_MS) return known.context;
    const context = this.#authority(organisationId).then((signing) => contextOf(signing, host));
    this.#leaves.delete(key);
    this.#leaves.set(key, { context, madeAtMs: Date.now() });
    context.catch(() => this.#leaves.delete(key));
    const [oldest] = this.#leaves.keys();
    if (this.#leaves.size > MAX_LEAVES && oldest !== undefined) this.#leaves.delete(oldest);
    return context;
  }

  #authority(organisationId: OrganisationId): Promise<Signing> {
    const known = this.#authorities.get(organisationId);
    if (known !== undefined) return known;
    const opened = this.#open(organisationId);
    this.#authorities.set(organisationId, opened);
    opened.catch(() => this.#authorities.delete(organisationId));
    return opened;
  }

  async #open(organisationId: OrganisationId): Promise<Signing> {
    const path = join(this.#folder, `${organisationId}.pem`);
    const kept = (await findOwn(path))?.toString() ?? null;
    const pem = kept ?? (await makeAuthority(`SPACE gateway of ${organisationId}`));
    if (kept === null) await keepOwn(path, pem);
    const leafKeys = await generateKeys();
    const leafKeyPem = await pemOf(leafKeys.privateKey);
    return { authority: await authorityFrom(pem), leafKeys, leafKeyPem };
  }
}

async function contextOf({ authority, leafKeys, leafKeyPem }: Signing, host: string): Promise<SecureContext> {
  const certificate = await makeLeaf(authority, {
    names: [{ type: isAddress(host) ? 'ip' : 'dns', value: host }],
    lifetimeMs: LEAF_MS,
    publicKey: leafKeys.publicKey,
  });
  return createSecureContext({
    cert: certificate + authority.certificatePem,
    key: leafKeyPem,
    minVersion: 'TLSv1.2',
    ecdhCurve: CURVES,
  });
}
