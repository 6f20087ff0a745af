import { runtimeSuite } from '@space/testkit/runtime-suite';
import { openQemuWorld } from './qemu-world.ts';

runtimeSuite('QEMU', openQemuWorld, { cycles: 20, timeoutMs: 300_000 });
