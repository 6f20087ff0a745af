/** What every implementation of `VaultContainers` promises: the fake, and the real one where there is root. */
import type { KeyBytes, VaultContainers, VaultName } from '@space/core';
import { KeyBytes as Key } from '@space/core';
import { describe, expect, it, onTestFinished } from 'vitest';

export interface ContainersBench {
  readonly containers: VaultContainers;
  /** What the next process sees after the death of the one that used `containers`. */
  afterCrash(): Promise<VaultContainers>;
  dispose(): Promise<void>;
}

/** The least that a file system of the real kind fits in. */
const SIZE_BYTES = 512 * 2 ** 20;
const ONE = 'vault-one' as VaultName;
const TWO = 'vault-two' as VaultName;
const SANDBOX = 'sbx_0123456789abcdef' as never;

export function containersSuite(name: string, makeBench: () => Promise<ContainersBench>): void {
  const begin = async (): Promise<ContainersBench> => {
    const bench = await makeBench();
    onTestFinished(() => bench.dispose());
    return bench;
  };
  const plain = { sizeBytes: SIZE_BYTES, key: null, token: null };
  const locked = (key: KeyBytes) => ({ sizeBytes: SIZE_BYTES, key, token: 'wrapped' });
  const key = (fill: number) => new Key(bytesOf(fill));
  const bytesOf = (fill: number) => Uint8Array.from({ length: 64 }, (_, index) => fill + index);
  const stateOf = async (containers: VaultContainers, vault: VaultName) =>
    (await containers.list()).find((one) => one.vault === vault);

  describe(`containers: ${name}`, () => {
    it('are made closed, and made again without harm', async () => {
      const { containers } = await begin();
      await containers.create(ONE, plain);
      await containers.create(ONE, plain);
      expect(await stateOf(containers, ONE)).toMatchObject({ encrypted: false, open: false, way: 'plain' });
    });

    it('keep what was written in one, apart from the other, over a close', async () => {
      const { containers } = await begin();
      await containers.create(ONE, plain);
      await containers.create(TWO, locked(key(2)));
      const [one, two] = [await containers.open(ONE, null), await containers.open(TWO, key(2))];
      await one.writeSandbox(record());
      expect((await two.sandboxes()).records).toEqual([]);
      await one.close();
      expect(await stateOf(containers, ONE)).toMatchObject({ open: false });
      expect(await stateOf(containers, TWO)).toMatchObject({ open: true, encrypted: true });
      const again = await containers.open(ONE, null);
      expect((await again.sandboxes()).records).toEqual([record()]);
      await Promise.all([again.close(), two.close()]);
    });

    it('refuse a wrong key and none, and change nothing by that', async () => {
      const { containers } = await begin();
      await containers.create(ONE, locked(key(1)));
      await expect(containers.open(ONE, key(2))).rejects.toMatchObject({ code: 'vault_key_wrong' });
      await expect(containers.open(ONE, null)).rejects.toMatchObject({ code: 'vault_key_wrong' });
      await expect(containers.create(ONE, locked(key(2)))).rejects.toMatchObject({ code: 'vault_key_wrong' });
      const opened = await containers.open(ONE, key(1));
      await opened.close();
    });

    it('leave the key to who gave it', async () => {
      const { containers } = await begin();
      const own = key(7);
      await containers.create(ONE, locked(own));
      const opened = await containers.open(ONE, own);
      expect(own.reveal()).toEqual(bytesOf(7));
      await opened.close();
    });

    it('are open to one process only', async () => {
      const { containers } = await begin();
      await containers.create(ONE, plain);
      const opened = await containers.open(ONE, null);
      await expect(containers.open(ONE, null)).rejects.toMatchObject({ code: 'vault_busy' });
      await expect(containers.remove(ONE)).rejects.toMatchObject({ code: 'vault_in_use' });
      await opened.close();
    });

    it('are taken up open by the next process, without their key', async () => {
      const { containers, afterCrash } = await begin();
      await containers.create(ONE, locked(key(1)));
      const opened = await containers.open(ONE, key(1));
      await opened.writeSandbox(record());
      const next = await afterCrash();
      expect(await stateOf(next, ONE)).toMatchObject({ open: true });
      const taken = await next.open(ONE, null);
      expect((await taken.sandboxes()).records).toEqual([record()]);
      await taken.close();
      await expect(next.open(ONE, null)).rejects.toMatchObject({ code: 'vault_key_wrong' });
    });

    it('grow, and are gone when they are removed', async () => {
      const { containers } = await begin();
      await containers.create(ONE, plain);
      await containers.grow(ONE, 2 * SIZE_BYTES);
      await containers.remove(ONE);
      await containers.remove(ONE);
      expect(await stateOf(containers, ONE)).toBeUndefined();
      await expect(containers.open(ONE, null)).rejects.toMatchObject({ code: 'not_found' });
      await expect(containers.grow(ONE, SIZE_BYTES)).rejects.toMatchObject({ code: 'not_found' });
    });
  });
}

function record() {
  return {
    format: 1,
    sandboxId: SANDBOX,
    epoch: 1,
    generation: 1,
    size: { vcpus: 1, memoryMib: 256, diskMib: 1024 },
    template: 'base',
    head: 'snp_0123456789abcdef' as never,
    life: null,
  } as const;
}
