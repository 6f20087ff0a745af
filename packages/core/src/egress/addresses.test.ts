import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classifyAddress, liesInNetwork, normaliseNetwork, parseAddress } from './addresses.ts';

describe('the class of an address', () => {
  it.each([
    ['1.1.1.1', 'public'],
    ['11.0.0.1', 'public'],
    ['172.32.0.1', 'public'],
    ['198.20.0.1', 'public'],
    ['2606:4700::1111', 'public'],
    ['2a00:1450:4001::200e', 'public'],
    ['127.0.0.1', 'private'],
    ['127.255.255.254', 'private'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['100.64.0.1', 'private'],
    ['::1', 'private'],
    ['fd12:3456::1', 'private'],
    ['fc00::1', 'private'],
    ['169.254.169.254', 'metadata'],
    ['168.63.129.16', 'metadata'],
    ['100.100.100.200', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['0.0.0.0', 'reserved'],
    ['0.1.2.3', 'reserved'],
    ['169.254.1.1', 'reserved'],
    ['192.0.2.1', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['198.19.255.255', 'reserved'],
    ['224.0.0.1', 'reserved'],
    ['255.255.255.255', 'reserved'],
    ['240.0.0.1', 'reserved'],
    ['::', 'reserved'],
    ['fe80::1', 'reserved'],
    ['fec0::1', 'reserved'],
    ['ff02::1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    // Forms that stand for an IPv4 address.
    ['::ffff:127.0.0.1', 'private'],
    ['::ffff:7f00:1', 'private'],
    ['::ffff:169.254.169.254', 'metadata'],
    ['::ffff:a9fe:a9fe', 'metadata'],
    ['::ffff:1.1.1.1', 'public'],
    ['64:ff9b::10.0.0.1', 'private'],
    ['64:ff9b::a00:1', 'private'],
    ['64:ff9b:1::10.0.0.1', 'reserved'],
    ['2002:7f00:1::', 'reserved'],
    ['2002:a00:1::1', 'reserved'],
    ['::127.0.0.1', 'reserved'],
    ['2001:0:1::1', 'reserved'],
    ['::ffff:0:127.0.0.1', 'reserved'],
  ])('%s is %s', (address, is) => {
    expect(classifyAddress(address)).toBe(is);
  });

  it.each([
    '',
    '1.2.3',
    '1.2.3.4.5',
    '01.2.3.4',
    '256.1.1.1',
    '0x7f.0.0.1',
    '1',
    ':::',
    '1::2::3',
    'fe80::1%eth0',
    '12345::',
    'g::',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7',
    '::1.2.3',
    '1.2.3.4::',
  ])('%j is no address', (text) => expect(classifyAddress(text)).toBeNull());

  it('of a mapped IPv4 address is that of the address, in whichever notation', () => {
    const byte = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(fc.tuple(byte, byte, byte, byte), (bytes) => {
        const [a, b, c, d] = bytes;
        const is = classifyAddress(bytes.join('.'));
        const groups = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
        for (const prefix of ['::ffff:', '0:0:0:0:0:ffff:', '64:ff9b::']) {
          expect(classifyAddress(`${prefix}${bytes.join('.')}`)).toBe(is);
          expect(classifyAddress(`${prefix}${groups.toUpperCase()}`)).toBe(is);
        }
      }),
    );
  });

  it('does not depend on how an IPv6 address is written', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const bytes = parseAddress(text);
        expect(bytes).not.toBeNull();
        const long = Array.from({ length: 8 }, (_, index) =>
          (((bytes?.[index * 2] ?? 0) << 8) | (bytes?.[index * 2 + 1] ?? 0)).toString(16).padStart(4, '0'),
        ).join(':');
        expect(parseAddress(long)).toEqual(bytes);
        expect(classifyAddress(long)).toBe(classifyAddress(text));
      }),
    );
  });
});

describe('a network', () => {
  it.each([
    ['10.1.2.3', '10.0.0.0/8', true],
    ['11.0.0.0', '10.0.0.0/8', false],
    ['10.0.0.127', '10.0.0.0/25', true],
    ['10.0.0.128', '10.0.0.0/25', false],
    ['8.8.8.8', '8.8.8.8/32', true],
    ['8.8.8.9', '8.8.8.8/31', true],
    ['8.8.8.10', '8.8.8.8/31', false],
    ['2001:4860:4860::8888', '2001:4860::/32', true],
    ['2001:4861::1', '2001:4860::/32', false],
    // In whatever form.
    ['::ffff:10.1.2.3', '10.0.0.0/8', true],
    ['64:ff9b::a01:203', '10.0.0.0/8', true],
    ['::ffff:10.1.2.3', '::ffff:0:0/96', true],
    ['10.1.2.3', '::/1', false],
    ['a.example', '10.0.0.0/8', false],
    ['10.1.2.3', 'nonsense', false],
  ])('of %s and %s: %s', (address, network, lies) => expect(liesInNetwork(address, network)).toBe(lies));

  it('is an address and a length that fits', () => {
    expect(normaliseNetwork('2001:DB8::/32')).toBe('2001:db8::/32');
    for (const text of [
      '10.0.0.0',
      '10.0.0.0/33',
      '10.0.0.0/08',
      '10.0.0.0/',
      '/8',
      '::/129',
      '10.0.0/8',
      '0.0.0.0/0',
      'a/8',
      '1.1.1.1/8/8',
    ]) {
      expect(normaliseNetwork(text), text).toBeNull();
    }
  });
});
