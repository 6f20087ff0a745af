import { describe, expect, it } from 'vitest';
import { ConfigError, configFrom } from './config.ts';

describe('configuration', () => {
  it('has safe defaults', () => {
    expect(configFrom([], {})).toMatchObject({
      listen: { host: '127.0.0.1', port: 7070 },
      dataDir: '/var/lib/space',
      vault: { kind: 'loop' },
      encrypted: true,
      newKey: false,
    });
  });

  it('takes flags before the environment, and gives null for help', () => {
    expect(configFrom(['--listen', '[::1]:80'], { SPACE_LISTEN: '127.0.0.1:1' })?.listen).toEqual({
      host: '::1',
      port: 80,
    });
    expect(configFrom(['--help'], {})).toBeNull();
  });

  it('traces when an address is given, by flag or by the standard variables, and not when they are switched off', () => {
    const traces = (argv: string[], env: NodeJS.ProcessEnv = {}) => configFrom(argv, env)?.traces;
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
    expect(traces([])).toBeUndefined();
    expect(traces(['--otlp', 'http://127.0.0.1:4318'])).toEqual({ url: 'http://127.0.0.1:4318' });
    expect(traces([], endpoint)).toEqual({ url: undefined });
    expect(traces([], { ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBeUndefined();
    expect(traces([], { ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toBeUndefined();
  });

  it('names sandboxes below a domain, and proves the names by what is made, by files, or by a proxy', () => {
    const names = (argv: string[], env: NodeJS.ProcessEnv = {}) => {
      const { domain, tls, previews } = configFrom(argv, env) ?? {};
      return { domain, tls, previews };
    };
    const made = { kind: 'made', domain: 'sbx.localhost' };
    expect(names([])).toEqual({});
    expect(names(['--domain', 'SBX.localhost'])).toEqual({ domain: { name: 'sbx.localhost' }, tls: made });
    expect(names([], { SPACE_DOMAIN: 'sbx.localhost:8443', SPACE_TLS: 'made' })).toEqual({
      domain: { name: 'sbx.localhost', port: 8443 },
      tls: made,
    });
    const files = ['--tls-cert', '/etc/hostname', '--tls-key', '/etc/hostname'];
    expect(names(['--domain', 'a.example', ...files]).tls).toMatchObject({ kind: 'files', certPath: '/etc/hostname' });
    expect(names(['--domain', 'a.example', '--tls', 'proxy'])).toEqual({ domain: { name: 'a.example', port: 443 } });
    for (const domain of [
      'localhost',
      'a..b',
      '-a.b',
      'a.b:0',
      'a.b:70000',
      'a.1',
      'https://a.b',
      `${'a.'.repeat(120)}b`,
    ]) {
      expect(() => names(['--domain', domain]), domain).toThrow(ConfigError);
    }
    for (const argv of [
      ['--tls', 'made'],
      ['--domain', 'a.b', '--tls', 'x'],
      ['--domain', 'a.b', '--tls', 'made', ...files],
      ['--domain', 'a.b', '--previews', 'https://c.d'],
      ['--domain', 'a.b', '--tls', 'proxy', '--listen', '0.0.0.0:1'],
    ]) {
      expect(() => names(argv), argv.join(' ')).toThrow(ConfigError);
    }
  });

  it('tells the gateway whom to ask for names, by address only, and which authorities to believe', () => {
    const gateway = (argv: string[]) => configFrom(argv, {})?.gateway;
    expect(gateway([])).toEqual({ upstreamAuthorities: [], holdMs: 30_000 });
    const servers = ['9.9.9.9', '127.0.0.1:5353', '[::1]:53'];
    expect(gateway(servers.flatMap((server) => ['--dns', server]))?.dnsServers).toEqual(servers);
    for (const server of ['dns.example', '9.9.9', '[9.9.9.9', '9.9.9.9:x']) {
      expect(() => gateway(['--dns', server])).toThrow(ConfigError);
    }
    expect(() => gateway(['--upstream-ca', '/etc/hostname'])).toThrow(ConfigError);
  });

  it('tells the gateway how long a request waits for a reviewer, within bounds', () => {
    const holdMs = (argv: string[], env: NodeJS.ProcessEnv = {}) => configFrom(argv, env)?.gateway.holdMs;
    expect(holdMs(['--hold-requests', '5'])).toBe(5_000);
    expect(holdMs([], { SPACE_HOLD_SECONDS: '300' })).toBe(300_000);
    for (const text of ['0', '301', '1.5', 'x', '-1']) {
      expect(() => holdMs([`--hold-requests=${text}`]), text).toThrow(ConfigError);
    }
  });

  it('tells the gateway of a proxy, and its password to nobody else', () => {
    const gateway = (argv: string[], env: NodeJS.ProcessEnv = {}) => configFrom(argv, env)?.gateway.upstreamProxy;
    expect(gateway([])).toBeUndefined();
    expect(gateway(['--upstream-proxy', 'http://proxy.corp:3128'])).toEqual({ host: 'proxy.corp', port: 3128 });
    const given = gateway([], { SPACE_UPSTREAM_PROXY: 'http://me:p%40ss@[::1]' });
    expect(given).toEqual({ host: '::1', port: 80, authorization: `Basic ${btoa('me:p@ss')}` });
    for (const text of [
      'proxy:3128',
      'https://proxy',
      'socks5://me:secret@proxy',
      'http://me:secret@proxy/path',
      'http://',
    ]) {
      expect(() => gateway(['--upstream-proxy', text]), text).toThrow(ConfigError);
      expect(() => gateway(['--upstream-proxy', text]), text).not.toThrow(/secret/);
    }
  });

  it('has places for archives, which are folders or buckets', () => {
    const archives = (argv: string[], env: NodeJS.ProcessEnv = {}) => configFrom(argv, env)?.archives;
    expect(archives([])).toEqual({});
    const s3 = 's3://bucket/some/where/?region=eu-central-1&endpoint=https://minio.example.com';
    expect(archives(['--archive', 'default=/mnt/archive', '--archive', `far=${s3}`])).toEqual({
      default: { kind: 'folder', path: '/mnt/archive' },
      far: {
        ...{ kind: 's3', bucket: 'bucket', prefix: 'some/where/' },
        ...{ region: 'eu-central-1', endpoint: 'https://minio.example.com' },
      },
    });
    expect(archives([], { SPACE_ARCHIVES: 'a=/a b=s3://b?region=x' })).toEqual({
      a: { kind: 'folder', path: '/a' },
      b: { kind: 's3', bucket: 'b', prefix: '', region: 'x' },
    });
  });

  it.each([
    [['--archive', '/mnt/archive'], 'NAME=PLACE'],
    [['--archive', '../up=/mnt/archive'], 'NAME=PLACE'],
    [['--archive', 'default=relative/path'], 'absolute path'],
    [['--archive', 'default=s3://bucket'], 'region'],
    [['--archive', 'default=s3://id:secret@bucket?region=x'], 'not given there'],
    [['--archive', 'default=s3://bucket?region=x&endpoint=nowhere'], 'it must be a URL'],
    [['--listen', '0.0.0.0:7070'], 'without TLS'],
    [['--listen', 'nonsense'], 'HOST:PORT'],
    [['--listen', '127.0.0.1:70000'], 'HOST:PORT'],
    [['--data', 'relative'], 'absolute path'],
    [['--database', 'nope'], 'postgres://'],
    [['--vault-size', '1'], 'at least 4'],
    [['--vault-device', '/nope'], 'there is nothing by that name'],
    [['--vault-device', '/etc'], 'that is no block device'],
    [['--tls-cert', '/x'], 'together'],
    [['--log-level', 'loud'], 'debug, info'],
    [['--previews', 'previews.example.com'], 'URL without a path'],
    [['--previews', 'https://example.com/x'], 'URL without a path'],
    [['--otlp', '127.0.0.1:4318'], 'http://127.0.0.1:4318'],
    [['--what'], 'what'],
  ])('refuses %j with a sentence', (argv, text) => {
    expect(() => configFrom(argv, {})).toThrow(ConfigError);
    expect(() => configFrom(argv, {})).toThrow(text);
  });
});
