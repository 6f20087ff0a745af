import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseHost, parseAuthority } from './hosts.ts';

describe('the one form of a host', () => {
  it.each([
    ['Example.COM', 'example.com'],
    ['example.com.', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['ｅｘａｍｐｌｅ.com', 'example.com'],
    ['exam。com', 'exam.com'],
    ['_dmarc.example.com', '_dmarc.example.com'],
    // Notations of 127.0.0.1 that resolvers read as that.
    ['127.1', '127.0.0.1'],
    ['0x7f.0.0.1', '127.0.0.1'],
    ['0177.0.0.1', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['0x7f000001', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['①②⑦.0.0.1', '127.0.0.1'],
    ['[::1]', '::1'],
    ['::FFFF:127.0.0.1', '::ffff:7f00:1'],
    ['0:0:0:0:0:0:0:1', '::1'],
  ])('%s is %s', (text, host) => {
    expect(normaliseHost(text)).toBe(host);
  });

  it.each([
    '',
    '.',
    '..',
    'a..b',
    '.example.com',
    'example.com..',
    'exa mple.com',
    'example.com/',
    'example.com/x',
    'example.com:80',
    'user@example.com',
    'example.com#',
    'example.com?x',
    'example.com\\x',
    'example.com%2eevil',
    'exa\tmple.com',
    'exa\nmple.com',
    'exa\0mple.com',
    '-a.example',
    'a-.example',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(130)}com`,
    '[::1',
    '[example.com]',
    'fe80::1%eth0',
    '*.example.com',
    '*',
    '256.256.256.256',
    '1.2.3.4.5',
    'exa\u00admple.com\u2028',
    "a'b.example",
    'a!b.example',
  ])('%j is no host', (text) => expect(normaliseHost(text)).toBeNull());

  it('is its own form', () => {
    fc.assert(
      fc.property(fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6(), fc.string(), fc.string({ unit: 'grapheme' })), (text) => {
        const host = normaliseHost(text);
        if (host !== null) expect(normaliseHost(host)).toBe(host);
      }),
    );
  });

  it('is the same for all letters in upper or lower case, and with a dot at the end', () => {
    fc.assert(
      fc.property(fc.domain(), (domain) => {
        const host = normaliseHost(domain);
        expect(normaliseHost(domain.toUpperCase())).toBe(host);
        expect(normaliseHost(`${domain}.`)).toBe(host);
      }),
    );
  });
});

describe('an authority', () => {
  it.each([
    ['example.com', { host: 'example.com', port: 443 }],
    ['EXAMPLE.com.:8443', { host: 'example.com', port: 8443 }],
    ['[::1]:80', { host: '::1', port: 80 }],
    ['example.com:', null],
    ['example.com:0', null],
    ['example.com:65536', null],
    ['example.com:80:80', null],
    ['a@example.com', null],
    ['::1', null],
    ['', null],
  ])('%s', (authority, parsed) => {
    expect(parseAuthority(authority, 443)).toEqual(parsed);
  });
});
