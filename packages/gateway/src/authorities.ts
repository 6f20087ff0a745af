/**
 * The certificate authorities of organisations: each has one, made on first use and kept in the gateway's own folder, whose
 * key never leaves it. Certificates of hosts are made when they are needed, for a short time, and kept in memory.
 */
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { join } from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import * as x509 from '@peculiar/x509';
import { isAddress, type OrganisationId } from '@space/core';
import { findOwn, keepOwn } from './own-files.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 24 * 60 * 60 * 1000;
const AUTHORITY_MS = 10 * 365 * DAY_MS;
const LEAF_MS = 30 * DAY_MS;
/** A guest's clock may be behind. */
const BACKDATED_MS = 2 * DAY_MS;
/** Certificates are made anew long before they end. */
const RENEW_AFTER_MS = DAY_MS;
const MAX_LEAVES = 1_000;
/** The way from the guest does not leave the machine: nobody keeps what passes for a computer of later times to read. */
const CURVES = 'X25519:P-256:P-384';

interface Authority {
  readonly certificate: x509.X509Certificate;
  readonly certificatePem: string;
  readonly key: webcrypto.CryptoKey;
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
  readonly #authorities = new Map<OrganisationId, Promise<Authority>>();
  readonly #leaves = new Map<string, Leaf>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async certificateOf(organisationId: OrganisationId): Promise<string> {
    return (await this.#authority(organisationId)).certificatePem;
  }

  /** What to show a guest of the organisation that asks for the host. */
  contextFor(organisationId: OrganisationId, host: string): Promise<SecureContext> {
    const key = `${organisationId} ${host}`;
    const known = this.#leaves.get(key);
    if (known !== undefined && Date.now() - known.madeAtMs < RENEW_AFTER_MS) return known.context;
    const context = this.#authority(organisationId).then((authority) => makeLeaf(authority, host));
    this.#leaves.delete(key);
    this.#leaves.set(key, { context, madeAtMs: Date.now() });
    context.catch(() => this.#leaves.delete(key));
    const [oldest] = this.#leaves.keys();
    if (this.#leaves.size > MAX_LEAVES && oldest !== undefined) this.#leaves.delete(oldest);
    return context;
  }

  #authority(organisationId: OrganisationId): Promise<Authority> {
    const known = this.#authorities.get(organisationId);
    if (known !== undefined) return known;
    const opened = this.#open(organisationId);
    this.#authorities.set(organisationId, opened);
    opened.catch(() => this.#authorities.delete(organisationId));
    return opened;
  }

  async #open(organisationId: OrganisationId): Promise<Authority> {
    const path = join(this.#folder, `${organisationId}.pem`);
    const kept = (await findOwn(path))?.toString() ?? null;
    const pem = kept ?? (await makeAuthority(organisationId));
    if (kept === null) await keepOwn(path, pem);
    return authorityFrom(pem);
  }
}

async function makeAuthority(organisationId: OrganisationId): Promise<string> {
  const keys = await generateKeys();
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: `CN=SPACE gateway of ${organisationId}`,
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now + AUTHORITY_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return `${certificate.toString('pem')}\n${await pemOf(keys.privateKey)}\n`;
}

async function authorityFrom(pem: string): Promise<Authority> {
  const keyPem = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----/.exec(pem)?.[0];
  const certificatePem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(pem)?.[0];
  if (keyPem === undefined || certificatePem === undefined) throw new Error('a file of an authority is not whole');
  const der = x509.PemConverter.decodeFirst(keyPem);
  const key = await webcrypto.subtle.importKey('pkcs8', der, ALGORITHM, false, ['sign']);
  const leafKeys = await generateKeys();
  const leafKeyPem = await pemOf(leafKeys.privateKey);
  return {
    certificate: new x509.X509Certificate(certificatePem),
    certificatePem: `${certificatePem}\n`,
    key,
    leafKeys,
    leafKeyPem,
  };
}

async function makeLeaf(authority: Authority, host: string): Promise<SecureContext> {
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    issuer: authority.certificate.subject,
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now + LEAF_MS),
    signingAlgorithm: ALGORITHM,
    publicKey: authority.leafKeys.publicKey,
    signingKey: authority.key,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      // Without a subject, as names of any length fit here, this one is the name.
      new x509.SubjectAlternativeNameExtension([{ type: isAddress(host) ? 'ip' : 'dns', value: host }], true),
      await x509.AuthorityKeyIdentifierExtension.create(authority.certificate),
    ],
  });
  return createSecureContext({
    cert: `${certificate.toString('pem')}\n${authority.certificatePem}`,
    key: authority.leafKeyPem,
    minVersion: 'TLSv1.2',
    ecdhCurve: CURVES,
  });
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return (await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');
}

/** 126 random bits, positive and of a fixed length. */
function serialNumber(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return Buffer.from(bytes).toString('hex');
}
