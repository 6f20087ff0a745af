import { describe, expect, test } from 'vitest';
import { loadOrder, moduleName, readDependencies } from './modules.ts';

const module = (entries: readonly string[]): Buffer =>
  Buffer.from(`\x7fELF code\0${entries.join('\0')}\0more`, 'latin1');

describe('readDependencies', () => {
  test('reads the list, in the kernel’s spelling', () => {
    const file = module(['license=GPL', 'depends=nf_tables,nf-nat', 'retpoline=Y']);
    expect(readDependencies(file)).toEqual(['nf_tables', 'nf_nat']);
  });

  test('an empty list is none', () => {
    expect(readDependencies(module(['depends=', 'name=virtio']))).toEqual([]);
  });

  test('refuses a file without a list', () => {
    expect(() => readDependencies(Buffer.from('text'))).toThrow('no kernel module');
  });
});

describe('loadOrder', () => {
  const graph: Record<string, readonly string[]> = {
    virtio_ring: [],
    virtio: [],
    virtio_mmio: ['virtio_ring', 'virtio'],
    crc: [],
    nf_tables: ['crc'],
    nft_nat: ['nf_tables', 'nf_nat'],
    nf_nat: ['crc'],
    left: ['right'],
    right: ['left'],
  };
  const order = (...wanted: string[]) => loadOrder(wanted, (name) => graph[name]);

  test('puts what is needed first, once', () => {
    expect(order('nft_nat', 'nf_nat')).toEqual(['crc', 'nf_tables', 'nf_nat', 'nft_nat']);
  });

  test('keeps the wanted order where dependencies leave it open', () => {
    expect(order('virtio_ring', 'virtio', 'virtio_mmio')).toEqual(['virtio_ring', 'virtio', 'virtio_mmio']);
  });

  test('names a module that does not exist, and who needs it', () => {
    expect(() => loadOrder(['a'], (name) => (name === 'a' ? ['b'] : undefined))).toThrow('no module b (needed by a)');
  });

  test('refuses a circle', () => {
    expect(() => order('left')).toThrow('depend on each other');
  });
});

test('moduleName turns a file name into what the kernel calls it', () => {
  expect(moduleName('nft-compat.ko')).toBe('nft_compat');
});
