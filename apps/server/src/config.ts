/**
 * Configuration: defaults, then environment, then flags. A value that makes no sense stops the start with a sentence that
 * says which one and what is possible; nothing is guessed.
 */
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { freemem, totalmem } from 'node:os';
import { isAbsolute } from 'node:path';
import { parseArgs } from 'node:util';
import { isLoopback } from '@space/http/hosts';
import type { ArchiveLocation, ArchiveLocations } from './archives.ts';
import { type KmsConfig, parseKms } from './kms.ts';
import { parseStores, type SecretStoresConfig } from './secret-stores.ts';

export interface Listen {
  readonly host: string;
  readonly port: number;
}

type TlsSource =
  | { readonly kind: 'files'; readonly certPath: string; readonly keyPath: string }
  | { readonly kind: 'made'; readonly domain: string };

export interface Config {
  readonly listen: Listen;
  /** Folder of the vaults, the private database and the run-time state; made when it is missing. */
  readonly dataDir: string;
  /** Folder of VM sockets; a short path, since socket paths have a limit. */
  readonly runDir: string;
  /** Anybody's PostgreSQL; undefined: a private one. */
  readonly databaseUrl?: string;
  /** The default vault: a sparse file of this size in the data folder, or a block device. */
  readonly vault:
    | { readonly kind: 'loop'; readonly sizeBytes: number }
    | { readonly kind: 'device'; readonly path: string };
  /** Whether each organisation's sandboxes lie in an encrypted vault of its own. What lies in the default one already stays there. */
  readonly encrypted: boolean;
  /** Files in PEM, which may be replaced while it runs; or an authority and certificates that are made for the domain. */
  readonly tls?: TlsSource;
  /** Names that requests may address the server by, beside loopback ones. */
  readonly hosts: readonly string[];
  /** The base of the names of previews; undefined: `localhost` only. */
  readonly previews?: string;
  /** What the names of the API (`api.NAME`) and of ports of sandboxes end in, over TLS; `port`: where it is not the one that is listened on. */
  readonly domain?: { readonly name: string; readonly port?: number };
  /** Places for archives, by the names that callers use. */
  readonly archives: ArchiveLocations;
  /** Where organisations may keep the keys of their vaults, beside the key of the installation, and which of them each may use. */
  readonly kms?: KmsConfig;
  readonly gateway: {
    /** DNS servers that it asks; undefined: as the machine does. */
    readonly dnsServers?: readonly string[];
    /** Stores of secrets, by name, and what of each an organisation may use. */
    readonly secretStores?: SecretStoresConfig;
    /** Certificates (PEM) of authorities that it believes beside the machine's. */
    readonly upstreamAuthorities: readonly string[];
    /** A proxy that all leaves by. */
    readonly upstreamProxy?: { readonly host: string; readonly port: number; readonly authorization?: string };
    /** How long a request is held for a reviewer before the program is told to send it again. */
    readonly holdMs?: number;
  };
  /** Memory that VMs may take in all, MiB. */
  readonly memoryMib: number;
  /** What the pool of ready sandboxes may take of it, MiB; 0: there is no pool. */
  readonly poolMib: number;
  /** Whether to make an API key at this start, though there is one already. */
  readonly newKey: boolean;
  /** User ids for VMMs, one for each that runs; nothing else on the machine may use them. */
  readonly vmmUids: { readonly first: number; readonly count: number };
  /** Where traces go; `url` undefined: where OTEL_EXPORTER_OTLP_* say. Left out: nobody asked for traces. */
  readonly traces?: { readonly url: string | undefined };
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent';
}

export const USAGE = `Usage: space up [OPTION…]      (or: npm start -- [OPTION…])

  --listen HOST:PORT     where to serve the API            SPACE_LISTEN        127.0.0.1:7070
  --data DIR             where everything is kept          SPACE_DATA          /var/lib/space
  --database URL         a PostgreSQL of your own          DATABASE_URL        a private one in the data folder
  --vault-device PATH    a block device for the vault      SPACE_VAULT_DEVICE  a sparse file in the data folder
  --vault-size GIB       size of that sparse file          SPACE_VAULT_GIB     64
  --vaults encrypted|plain  where new sandboxes lie: in an encrypted vault of their organisation, or all in the one above
                                                           SPACE_VAULTS        encrypted
  --memory MIB           memory that VMs may take in all   SPACE_MEMORY_MIB    three quarters of the machine's
  --pool-memory MIB      what the pool of ready sandboxes may take of it; 0: none
                                                           SPACE_POOL_MIB      an eighth of it, at most 4096
  --vmm-uids FIRST       64,000 user ids that only VMMs use  SPACE_VMM_UIDS    1900000000
  --tls-cert FILE, --tls-key FILE                          SPACE_TLS_CERT, SPACE_TLS_KEY
                         they may be replaced while it runs
  --domain NAME[:PORT]   serve api.NAME, and PORT-SANDBOX.NAME for each port of each sandbox, over TLS, as E2B's SDKs
                         know them by E2B_DOMAIN           SPACE_DOMAIN        none
  --tls made|proxy       of --domain without certificate files: an authority is made for you, or a proxy in front
                         of this server ends TLS           SPACE_TLS           made
  --host NAME            a name to be addressed by (again for more)
  --previews URL         what names of previews end in     SPACE_PREVIEWS      localhost, for callers on this machine
  --archive NAME=PLACE   where archives may be kept (again for more): a folder, or
                         s3://BUCKET/PREFIX?region=…[&endpoint=URL]; keys as AWS's tools find them
  --dns IP[:PORT]        a DNS server for what leaves sandboxes (again for more)  as the machine is configured
  --upstream-ca FILE     authorities (PEM) that hosts may have certificates of, beside the machine's (again for more)
  --secret-stores FILE   stores that secrets may come from (JSON; see the guide)  SPACE_SECRET_STORES  the gateway alone
  --kms FILE             KMSs that keep keys of vaults (JSON; see the guide)  SPACE_KMS  a key of the installation's own
  --upstream-proxy URL   an HTTP proxy that all leaves by; it resolves the names, so their addresses are not checked
                                                           SPACE_UPSTREAM_PROXY  none
  --hold-requests SECONDS  how long a program waits for a reviewer, before it is told to send it again (1 to 300)
                                                           SPACE_HOLD_SECONDS  30
  --otlp URL             where to send traces (OTLP/HTTP)  OTEL_EXPORTER_OTLP_ENDPOINT  nowhere
  --log-level LEVEL      debug, info, warn, error, silent  SPACE_LOG           error
  --new-key              print a new API key at this start (the first start always does)
  --help

Without TLS only loopback addresses are served: API keys would cross the network in clear text.`;

/** Above the ranges that distributions, user namespaces and systemd take. */
const FIRST_VMM_UID = '1900000000';
const VMM_UID_COUNT = 64_000;

const MAX_HOLD_SECONDS = 300;
const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

/** Thrown for a value that cannot be used; its message is for the person who typed it. */
export class ConfigError extends Error {}

/** `null` when help was asked for. */
export function configFrom(argv: readonly string[], env: NodeJS.ProcessEnv): Config | null {
  const { values } = parse(argv);
  if (values.help === true) return null;
  const pick = (flag: string | undefined, variable: string, fallback: string) => flag ?? env[variable] ?? fallback;
  const dataDir = absolute('--data', pick(values.data, 'SPACE_DATA', '/var/lib/space'));
  const databaseUrl = databaseFrom(values.database ?? env['DATABASE_URL']);
  const names = namesFrom(values, env);
  const { tls } = names;
  const listen = listenFrom(pick(values.listen, 'SPACE_LISTEN', '127.0.0.1:7070'));
  if (tls === undefined && !isLoopback(listen.host)) {
    throw new ConfigError(
      `--listen is "${listen.host}", which others can reach: without TLS, API keys would cross the network in clear text. ` +
        'Give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy that has them.',
    );
  }
  const memoryMib = wholeNumber('--memory', pick(values.memory, 'SPACE_MEMORY_MIB', `${defaultMemoryMib()}`), 256);
  return {
    listen,
    dataDir,
    runDir: runDirOf(dataDir),
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    vault: vaultFrom(
      values['vault-device'] ?? env['SPACE_VAULT_DEVICE'],
      pick(values['vault-size'], 'SPACE_VAULT_GIB', '64'),
    ),
    encrypted: encryptedFrom(pick(values.vaults, 'SPACE_VAULTS', 'encrypted')),
    ...names,
    hosts: values.host ?? [],
    ...tracesFrom(values.otlp, env),
    ...kmsFrom(values.kms ?? env['SPACE_KMS']),
    archives: Object.fromEntries((values.archive ?? archivesOf(env['SPACE_ARCHIVES'])).map(archiveFrom)),
    gateway: {
      ...gatewayFrom(values.dns, values['upstream-ca']),
      ...storesFrom(values['secret-stores'] ?? env['SPACE_SECRET_STORES']),
      ...proxyFrom(values['upstream-proxy'] ?? env['SPACE_UPSTREAM_PROXY']),
      holdMs: holdFrom(pick(values['hold-requests'], 'SPACE_HOLD_SECONDS', '30')),
    },
    memoryMib,
    poolMib: wholeNumber(
      '--pool-memory',
      pick(values['pool-memory'], 'SPACE_POOL_MIB', `${defaultPoolMib(memoryMib)}`),
      0,
    ),
    newKey: values['new-key'] === true,
    logLevel: levelFrom(pick(values['log-level'], 'SPACE_LOG', 'error')),
    vmmUids: {
      first: wholeNumber('--vmm-uids', pick(values['vmm-uids'], 'SPACE_VMM_UIDS', FIRST_VMM_UID), 1000),
      count: VMM_UID_COUNT,
    },
  };
}

function encryptedFrom(text: string): boolean {
  if (text !== 'encrypted' && text !== 'plain') {
    throw new ConfigError(`--vaults is "${text}"; it can be encrypted or plain.`);
  }
  return text === 'encrypted';
}

/** One short folder per data folder, under /run, where sockets of this boot belong. */
function runDirOf(dataDir: string): string {
  let hash = 5381;
  for (const letter of dataDir) hash = (Math.imul(hash, 33) ^ letter.charCodeAt(0)) >>> 0;
  return `/run/space/${hash.toString(36)}`;
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      strict: true,
      options: {
        listen: { type: 'string' },
        data: { type: 'string' },
        database: { type: 'string' },
        'vault-device': { type: 'string' },
        'vault-size': { type: 'string' },
        vaults: { type: 'string' },
        memory: { type: 'string' },
        'pool-memory': { type: 'string' },
        'vmm-uids': { type: 'string' },
        'tls-cert': { type: 'string' },
        'tls-key': { type: 'string' },
        domain: { type: 'string' },
        tls: { type: 'string' },
        host: { type: 'string', multiple: true },
        previews: { type: 'string' },
        archive: { type: 'string', multiple: true },
        dns: { type: 'string', multiple: true },
        'upstream-ca': { type: 'string', multiple: true },
        'secret-stores': { type: 'string' },
        kms: { type: 'string' },
        'upstream-proxy': { type: 'string' },
        'hold-requests': { type: 'string' },
        otlp: { type: 'string' },
        'log-level': { type: 'string' },
        'new-key': { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new ConfigError(error instanceof Error ? error.message : String(error));
  }
}

function listenFrom(text: string): Listen {
  const match = /^(?:\[([0-9a-f:]+)\]|([^:]+)):(\d{1,5})$/i.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535) {
    throw new ConfigError(`--listen is "${text}"; it must be HOST:PORT, e.g. 127.0.0.1:7070 or [::1]:7070.`);
  }
  return { host, port };
}

function databaseFrom(text: string | undefined): string | undefined {
  if (text === undefined || /^postgres(ql)?:\/\//.test(text)) return text;
  throw new ConfigError('--database must be a URL that starts with postgres:// or postgresql://.');
}

function vaultFrom(device: string | undefined, gib: string): Config['vault'] {
  if (device !== undefined) return { kind: 'device', path: blockDevice(absolute('--vault-device', device)) };
  return { kind: 'loop', sizeBytes: wholeNumber('--vault-size', gib, 4) * 2 ** 30 };
}

function blockDevice(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isBlockDevice()) return path;
  const what = found === undefined ? 'there is nothing by that name' : 'that is no block device';
  throw new ConfigError(
    `--vault-device is "${path}", and ${what}. Give a device that is empty (lsblk lists them), or leave the option out: ` +
      'then the vault is a file in the data folder.',
  );
}

/** All names below it lead to this server; it must not be the name of the API, or lie above that. */
function previewsFrom(text: string | undefined): { readonly previews?: string } {
  if (text === undefined) return {};
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol) && text.replace(/\/$/, '') === url.origin)
    return { previews: url.origin };
  throw new ConfigError(`--previews is "${text}"; it must be a URL without a path, e.g. https://previews.example.com.`);
}

/** By which names it is reached, and how those are proved. */
function namesFrom(
  values: ReturnType<typeof parse>['values'],
  env: NodeJS.ProcessEnv,
): Pick<Config, 'tls' | 'domain' | 'previews'> {
  const files = tlsFrom(values['tls-cert'] ?? env['SPACE_TLS_CERT'], values['tls-key'] ?? env['SPACE_TLS_KEY']);
  const mode = values.tls ?? env['SPACE_TLS'];
  const previews = previewsFrom(values.previews ?? env['SPACE_PREVIEWS']);
  const text = values.domain ?? env['SPACE_DOMAIN'];
  if (text === undefined) {
    if (mode !== undefined) throw new ConfigError('--tls says how the names of --domain are proved: give that, too.');
    return { ...(files === undefined ? {} : { tls: files }), ...previews };
  }
  if (previews.previews !== undefined) {
    throw new ConfigError('--domain names previews, too: leave --previews out, or --domain.');
  }
  const domain = domainFrom(text);
  if (mode !== undefined && mode !== 'made' && mode !== 'proxy') {
    throw new ConfigError(
      `--tls is "${mode}"; it can be made or proxy. For files of your own give --tls-cert and --tls-key.`,
    );
  }
  if (files !== undefined && mode !== undefined) {
    throw new ConfigError(`--tls ${mode} and --tls-cert exclude each other.`);
  }
  if (mode === 'proxy') return { domain: { port: HTTPS_PORT, ...domain } };
  return { domain, tls: files ?? { kind: 'made', domain: domain.name } };
}

const HTTPS_PORT = 443;
/** Names of hosts have 253 letters, and before it stand a port and a sandbox. */
const MAX_DOMAIN_LENGTH = 200;

function domainFrom(text: string): NonNullable<Config['domain']> {
  const [, name = '', port] =
    /^((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)(?::([0-9]{1,5}))?$/i.exec(text) ??
    [];
  if (name === '' || name.length > MAX_DOMAIN_LENGTH || Number(port ?? 1) < 1 || Number(port ?? 1) > 65_535) {
    throw new ConfigError(
      `--domain is "${text}"; it must be a name of at least two parts, since no client believes a certificate for *.NAME of ` +
        'one, e.g. sbx.localhost, or sandboxes.example.com:8443 where that port leads here.',
    );
  }
  return { name: name.toLowerCase(), ...(port === undefined ? {} : { port: Number(port) }) };
}

function tlsFrom(cert: string | undefined, key: string | undefined): TlsSource | undefined {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) throw new ConfigError('--tls-cert and --tls-key are needed together.');
  fileOf('--tls-cert', cert);
  fileOf('--tls-key', key);
  return { kind: 'files', certPath: cert, keyPath: key };
}

/** As OpenTelemetry's specification has it: an address asks for traces, unless they are switched off. */
function tracesFrom(url: string | undefined, env: NodeJS.ProcessEnv): Pick<Config, 'traces'> {
  if (url !== undefined && !/^https?:\/\//.test(url)) {
    throw new ConfigError(`--otlp is "${url}"; it must be a URL like http://127.0.0.1:4318.`);
  }
  const isOff = env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none';
  const isAsked = url ?? env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] ?? env['OTEL_EXPORTER_OTLP_ENDPOINT'];
  return isAsked === undefined || isAsked === '' || isOff ? {} : { traces: { url } };
}

/** In the environment they stand between blanks. */
function archivesOf(text: string | undefined): readonly string[] {
  return text === undefined ? [] : text.split(/\s+/).filter(Boolean);
}

function archiveFrom(text: string): readonly [string, ArchiveLocation] {
  const [, name, place = ''] = /^([a-z0-9][a-z0-9-]{0,62})=(.+)$/.exec(text) ?? [];
  if (name === undefined) {
    throw new ConfigError(
      `--archive is "${text}"; it must be NAME=PLACE, and the name of small letters, digits and dashes.`,
    );
  }
  if (isAbsolute(place)) return [name, { kind: 'folder', path: place }];
  const url = URL.parse(place);
  const [region, endpoint] = ['region', 'endpoint'].map((part) => url?.searchParams.get(part) ?? undefined);
  if (url?.protocol !== 's3:' || url.hostname === '' || region === undefined || url.username !== '') {
    throw new ConfigError(
      `--archive ${name} is "${place.slice(0, 100)}"; it must be an absolute path or s3://BUCKET/PREFIX?region=REGION. Keys are not ` +
        'given there, but in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or by the machine.',
    );
  }
  const prefix = decodeURIComponent(url.pathname).replace(/^\/+|\/+$/g, '');
  const where = { kind: 's3', bucket: url.hostname, prefix: prefix === '' ? '' : `${prefix}/`, region } as const;
  return [name, endpoint === undefined ? where : { ...where, endpoint: endpointOf(name, endpoint) }];
}

function endpointOf(name: string, text: string): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text;
  throw new ConfigError(
    `--archive ${name} has the endpoint "${text}"; it must be a URL like https://minio.example.com.`,
  );
}

function gatewayFrom(
  servers: readonly string[] | undefined,
  files: readonly string[] = [],
): Pick<Config['gateway'], 'dnsServers' | 'upstreamAuthorities'> {
  for (const server of servers ?? []) {
    const [, v6, v4 = server] = /^(?:\[([^\]]+)\]|([0-9.]+))(?::[0-9]{1,5})?$/.exec(server) ?? [];
    if (isIP(v6 ?? v4) === 0) {
      throw new ConfigError(`--dns is "${server}"; it must be an address, e.g. 9.9.9.9, 10.0.0.1:5353 or [::1]:53.`);
    }
  }
  const upstreamAuthorities = files.flatMap((path) => {
    const found = fileOf('--upstream-ca', path).match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
    if (found === null) throw new ConfigError(`--upstream-ca: ${path} holds no certificate in PEM.`);
    return found;
  });
  return { ...(servers === undefined ? {} : { dnsServers: servers }), upstreamAuthorities };
}

function storesFrom(path: string | undefined): Pick<Config['gateway'], 'secretStores'> {
  if (path === undefined) return {};
  try {
    return { secretStores: parseStores(fileOf('--secret-stores', path)) };
  } catch (error) {
    throw new ConfigError(`--secret-stores: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function kmsFrom(path: string | undefined): Pick<Config, 'kms'> {
  if (path === undefined) return {};
  try {
    return { kms: parseKms(fileOf('--kms', path)) };
  } catch (error) {
    throw new ConfigError(`--kms: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** A user and a password in it are better told by the variable: whoever lists processes reads options. */
function proxyFrom(text: string | undefined): Pick<Config['gateway'], 'upstreamProxy'> {
  if (text === undefined || text === '') return {};
  const url = URL.parse(text);
  const isPlain = url?.protocol === 'http:' && url.pathname === '/' && url.search === '' && url.hash === '';
  if (url === null || !isPlain || url.hostname === '') {
    // Not the text itself: it may hold a password.
    throw new ConfigError('--upstream-proxy must be a URL like http://proxy.example.com:3128, without a path.');
  }
  const { hostname, port, username, password } = url;
  const said = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const authorization = username === '' ? {} : { authorization: `Basic ${Buffer.from(said).toString('base64')}` };
  return { upstreamProxy: { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80), ...authorization } };
}

function fileOf(flag: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${flag}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function absolute(flag: string, path: string): string {
  if (!isAbsolute(path)) throw new ConfigError(`${flag} is "${path}"; it must be an absolute path.`);
  return path;
}

/** Longer than programs and what lies between wait for an answer is of no use. */
function holdFrom(text: string): number {
  const seconds = wholeNumber('--hold-requests', text, 1);
  if (seconds > MAX_HOLD_SECONDS) {
    throw new ConfigError(`--hold-requests is "${text}"; it must be ${MAX_HOLD_SECONDS} seconds at most.`);
  }
  return seconds * 1000;
}

function wholeNumber(flag: string, text: string, min: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < min) {
    throw new ConfigError(`${flag} is "${text}"; it must be a whole number of at least ${min}.`);
  }
  return value;
}

function levelFrom(text: string): Config['logLevel'] {
  const level = LOG_LEVELS.find((known) => known === text);
  if (level === undefined) throw new ConfigError(`--log-level is "${text}"; it can be ${LOG_LEVELS.join(', ')}.`);
  return level;
}

function defaultMemoryMib(): number {
  return Math.floor(Math.min(totalmem() * 0.75, Math.max(freemem(), totalmem() * 0.5)) / 2 ** 20);
}

/** Too little for a sandbox of the usual size where memory is short: then there is no pool. */
function defaultPoolMib(memoryMib: number): number {
  return Math.min(4096, Math.floor(memoryMib / 8));
}
