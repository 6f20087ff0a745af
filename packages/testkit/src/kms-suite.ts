/** What every KMS keeps to. */
import { randomBytes } from 'node:crypto';
import { type AppError, KeyBytes, type KeyContext, type Kms, newId, type VaultName } from '@space/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

export interface KmsUnderTest {
  readonly kms: Kms;
  /** Another key of the same KMS. */
  readonly other: Kms;
  /** Of the first key. */
  disable(): Promise<void>;
  enable(): Promise<void>;
  remove(): Promise<void>;
  /** The ways in which it can fail to answer. Each ends a question within the adapter's own time, set short here. */
  readonly outages: Readonly<Record<string, { begin(): Promise<void>; end(): Promise<void> }>>;
  dispose(): Promise<void>;
}

const chance = { bytes: (count: number) => randomBytes(count) };
const newContext = (): KeyContext => ({ organisationId: newId('organisation', chance), vault: 'v1' as VaultName });
/** What the caller would wait at most; adapters end before. */
const signal = () => AbortSignal.timeout(20_000);
const code = (expected: AppError['code']) => expect.objectContaining({ code: expected });

export function kmsSuite(name: string, makeKms: () => Promise<KmsUnderTest>, outages: readonly string[]): void {
  describe(`${name} as a KMS`, () => {
    let world: KmsUnderTest;
    let kms: Kms;
    const context = newContext();
    beforeEach(async () => {
      world = await makeKms();
      kms = world.kms;
    });
    afterEach(() => world?.dispose());

    const wrapped = (bytes: Uint8Array, of = kms) => of.wrap(new KeyBytes(bytes), context, signal());

    it('gives back what it wrapped, of any length that a keyring has, and shows nothing of it', async () => {
      for (const length of [1, 32, 129, 1024]) {
        const bytes = randomBytes(length);
        const kept = new KeyBytes(Uint8Array.from(bytes));
        const blob = await kms.wrap(kept, context, signal());
        expect(kept.wiped).toBe(false);
        if (length > 1) expect(Buffer.from(blob).includes(bytes)).toBe(false);
        if (length > 1) expect(Buffer.from(blob).toString().includes(bytes.toString('base64'))).toBe(false);
        using back = await kms.unwrap(blob, context, signal());
        expect(Buffer.compare(back.reveal(), bytes)).toBe(0);
        await kms.check(blob, context, signal());
      }
    });

    it('wraps the same key differently each time', async () => {
      const bytes = randomBytes(32);
      const [one, two] = await Promise.all([wrapped(Uint8Array.from(bytes)), wrapped(Uint8Array.from(bytes))]);
      expect(Buffer.compare(one, two)).not.toBe(0);
    });

    it('unwraps it for its own organisation and vault only, and by its own key', async () => {
      const blob = await wrapped(randomBytes(129));
      const strangers = [
        { ...context, organisationId: newContext().organisationId },
        { ...context, vault: 'v2' as VaultName },
        { organisationId: `${context.organisationId}v` as never, vault: '1' as VaultName },
      ];
      for (const stranger of strangers) {
        await expect(kms.unwrap(blob, stranger, signal())).rejects.toEqual(code('vault_key_wrong'));
        await expect(kms.check(blob, stranger, signal())).rejects.toEqual(code('vault_key_wrong'));
      }
      await expect(world.other.unwrap(blob, context, signal())).rejects.toEqual(code('vault_key_wrong'));
      (await kms.unwrap(blob, context, signal())).wipe();
    });

    it('unwraps nothing that is damaged, cut, or none of its own', async () => {
      const blob = await wrapped(randomBytes(129));
      // Not at the very ends: the last letters of a text in base 64 may mean nothing, nor may a head.
      const damaged = [Math.floor(blob.length / 2), blob.length - 6].map((at) => {
        const changed = Uint8Array.from(blob);
        changed[at] = changed[at] === 65 ? 66 : 65;
        return changed;
      });
      for (const bad of [...damaged, blob.subarray(0, blob.length - 8), randomBytes(200), randomBytes(3)]) {
        await expect(kms.unwrap(bad, context, signal())).rejects.toEqual(code('vault_key_wrong'));
      }
    });

    it('refuses while the key is disabled, which is no outage, and goes on once it is enabled', async () => {
      const blob = await wrapped(randomBytes(129));
      await world.disable();
      await expect(kms.unwrap(blob, context, signal())).rejects.toEqual(code('kms_refused'));
      await expect(kms.check(blob, context, signal())).rejects.toEqual(code('kms_refused'));
      await expect(wrapped(randomBytes(8))).rejects.toEqual(code('kms_refused'));
      // Another key has nothing to do with it.
      await wrapped(randomBytes(8), world.other);
      await world.enable();
      (await kms.unwrap(blob, context, signal())).wipe();
    });

    it('refuses when the key is deleted, and makes none in its place', async () => {
      const blob = await wrapped(randomBytes(129));
      await world.remove();
      await expect(kms.unwrap(blob, context, signal())).rejects.toEqual(code('kms_refused'));
      await expect(wrapped(randomBytes(8))).rejects.toEqual(code('kms_refused'));
    });

    it.each(outages)('says that it does not answer, which is no refusal: %s', async (kind) => {
      const blob = await wrapped(randomBytes(129));
      const outage = world.outages[kind];
      if (outage === undefined) throw new Error(`the world has no outage "${kind}"`);
      await outage.begin();
      await expect(kms.unwrap(blob, context, signal())).rejects.toEqual(code('kms_unavailable'));
      await expect(kms.check(blob, context, signal())).rejects.toEqual(code('kms_unavailable'));
      await expect(wrapped(randomBytes(8))).rejects.toEqual(code('kms_unavailable'));
      await outage.end();
      (await kms.unwrap(blob, context, signal())).wipe();
    });

    it('is not asked for a caller who has left', async () => {
      const blob = await wrapped(randomBytes(129));
      await expect(kms.unwrap(blob, context, AbortSignal.abort())).rejects.toThrow();
    });

    it('tells no byte of a key in an error', async () => {
      const bytes = randomBytes(129);
      const blob = await wrapped(Uint8Array.from(bytes));
      const other = { ...context, vault: 'v2' as VaultName };
      const thrown = await kms.unwrap(blob, other, signal()).catch((error: Error) => error);
      const told = JSON.stringify([thrown, String(thrown), String((thrown as Error).cause)]);
      for (const form of ['hex', 'base64'] as const) expect(told).not.toContain(bytes.toString(form).slice(0, 12));
    });
  });
}
