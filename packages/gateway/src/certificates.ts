/**
 * Certificate authorities of our own, and certificates of hosts by them: ECDSA on P-256, as every client knows it. What is kept of an
 * authority is one text, its certificate and its key.
 */
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { isIPv4 } from 'node:net';
import * as x509 from '@peculiar/x509';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 24 * 60 * 60 * 1000;
const AUTHORITY_MS = 10 * 365 * DAY_MS;
/** The clock of who checks may be behind. */
const BACKDATED_MS = 2 * DAY_MS;

export interface Authority {
  readonly certificate: x509.X509Certificate;
  readonly certificatePem: string;
  readonly key: webcrypto.CryptoKey;
}

export interface HostName {
  readonly type: 'dns' | 'ip';
  readonly value: string;
}

export interface LeafOptions {
  readonly names: readonly HostName[];
  readonly lifetimeMs: number;
  readonly publicKey: webcrypto.CryptoKey;
}

/**
 * The text to keep. `permitted`: the only hosts that anything signed by it can be for, names with all below them; left out: any. Whoever
 * trusts an authority trusts it for all that it may sign.
 */
export async function makeAuthority(name: string, permitted?: readonly HostName[]): Promise<string> {
  const keys = await generateKeys();
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: `CN=${name}`,
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now + AUTHORITY_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(permitted === undefined ? [] : [nameConstraints(permitted)]),
    ],
  });
  return `${certificate.toString('pem')}\n${await pemOf(keys.privateKey)}\n`;
}

export async function authorityFrom(pem: string): Promise<Authority> {
  const keyPem = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----/.exec(pem)?.[0];
  const certificatePem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(pem)?.[0];
  if (keyPem === undefined || certificatePem === undefined) throw new Error('a file of an authority is not whole');
  const der = x509.PemConverter.decodeFirst(keyPem);
  const key = await webcrypto.subtle.importKey('pkcs8', der, ALGORITHM, false, ['sign']);
  return { certificate: new x509.X509Certificate(certificatePem), certificatePem: `${certificatePem}\n`, key };
}

/** The certificate in PEM, without the authority's. */
export async function makeLeaf(
  { certificate: issuer, key: signingKey }: Authority,
  { names, lifetimeMs, publicKey }: LeafOptions,
): Promise<string> {
  const now = Date.now();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    issuer: issuer.subject,
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now + lifetimeMs),
    signingAlgorithm: ALGORITHM,
    publicKey,
    signingKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      // Without a subject, as names of any length fit here, this one is the name.
      new x509.SubjectAlternativeNameExtension([...names], true),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return `${certificate.toString('pem')}\n`;
}

export async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return (await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
}

export async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');
}

/** 126 random bits, positive and of a fixed length. */
function serialNumber(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return Buffer.from(bytes).toString('hex');
}

const NAME_CONSTRAINTS = '2.5.29.30';
/** Tags of DER: a sequence; of GeneralName, a name and an address; and the subtrees that are permitted. */
const [SEQUENCE, DNS_NAME, IP_ADDRESS, PERMITTED] = [0x30, 0x82, 0x87, 0xa0];

/** RFC 5280, 4.2.1.10. The library has no class for it. */
function nameConstraints(permitted: readonly HostName[]): x509.Extension {
  const subtrees = permitted.map(({ type, value }) =>
    der(SEQUENCE, type === 'dns' ? der(DNS_NAME, Buffer.from(value, 'ascii')) : der(IP_ADDRESS, onlyAddress(value))),
  );
  return new x509.Extension(NAME_CONSTRAINTS, true, der(SEQUENCE, der(PERMITTED, ...subtrees)));
}

/** An address and the mask that covers it alone; of IPv6, only `::1`. */
function onlyAddress(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from([...address.split('.').map(Number), 255, 255, 255, 255]);
  if (address !== '::1') throw new Error(`${address} cannot be permitted`);
  return Buffer.concat([Buffer.alloc(15), Buffer.from([1]), Buffer.alloc(16, 255)]);
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length > 0xffff) throw new Error('too long');
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}
