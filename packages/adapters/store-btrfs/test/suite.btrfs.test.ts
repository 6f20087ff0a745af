import { vaultSuite } from '@space/testkit/vault-suite';
import { makeWorld } from './world.ts';

vaultSuite('Btrfs', () => makeWorld());
