/** A world whose organisation has a vault of its own, under a key of a KMS. */
import { randomBytes } from 'node:crypto';
import type { Caller } from '@space/contract';
import { DEFAULT_ORGANISATION } from '@space/core';
import { FakeKms, fakeKmsDirectory } from '@space/testkit';
import { createControl } from '../src/control.ts';
import { vaultNameOf } from '../src/vault-keys.ts';
import { eventually, World } from './test-world.ts';

export const OWN = vaultNameOf(DEFAULT_ORGANISATION);
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const chance = { bytes: (count: number) => randomBytes(count) };

export class Keyed extends World {
  readonly kms: FakeKms;

  constructor(kms = new FakeKms()) {
    super();
    this.kms = kms;
    this.restart();
  }

  /** As a new process on the same node, records and KMS. */
  restart(): void {
    const { node, records } = this;
    const clock = { now: () => Date.now(), monotonicMs: () => performance.now() };
    const kms = fakeKmsDirectory(this.kms);
    this.control = createControl({ node, records, chance, clock, logger: silent, kms }, this.gateway);
  }

  holder(): Caller {
    const caller = this.caller();
    return { ...caller, principal: { ...caller.principal, roles: ['key_holder'] } };
  }

  revoke() {
    return this.control.revokeVault(this.holder(), { id: OWN });
  }

  reinstate() {
    return this.control.reinstateVault(this.holder(), { id: OWN });
  }

  isOpen = () => this.node.fakeVaults.isOpen(OWN);

  async untilClosed() {
    await eventually(
      async () => this.isOpen(),
      (isOpen) => !isOpen,
    );
  }
}
