/**
 * The real control and the real node on fakes, with an ear at each agent: what each life was told of who it is, when, and what
 * came before and after.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Caller } from '@space/contract';
import { type Control, createControl } from '@space/control';
import { MemoryRecords } from '@space/control/testing';
import {
  DEFAULT_ORGANISATION,
  DEFAULT_PROJECT,
  type Guest,
  type GuestIdentity,
  newId,
  SIZE_LIMITS,
  type Vm,
} from '@space/core';
import { createNode } from '@space/node';
import {
  connectFakeGuest,
  FakeArchive,
  FakeContainers,
  FakeGateway,
  FakeRuntime,
  realClock,
  seededChance,
} from '@space/testkit';

export const SIZE = { vcpus: 1, memoryMib: 1, diskMib: 1 };
const ANY = { min: 1, max: 8, step: 1 };

/** What a life was told, and the calls of its agent in order. */
interface Heard {
  readonly identities: GuestIdentity[];
  readonly calls: string[];
}

export interface World extends AsyncDisposable {
  readonly control: Control;
  readonly runtime: FakeRuntime;
  readonly heard: ReadonlyMap<string, Heard>;
  readonly records: MemoryRecords;
  caller(): Caller;
}

export async function makeWorld(memory: 'in_place' | 'written'): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'space-identity-'));
  const diskPath = join(folder, 'base.img');
  await writeFile(diskPath, '{}');
  const runtime = new FakeRuntime(memory);
  const chance = seededChance(5);
  const clock = realClock();
  const heard = new Map<string, Heard>();
  const node = createNode({
    archives: new Map([['default', new FakeArchive()]]),
    egress: new FakeGateway(),
    runtime,
    connectGuest: async (vm) => listening(await connectFakeGuest(vm), vm, heard),
    containers: await FakeContainers.withDefault(folder),
    templates: [{ name: 'base', diskPath, digest: 'base-digest' }],
    ...{ clock, chance, memoryMib: 1000, pool: { memoryMib: 0 } },
    limits: { ...SIZE_LIMITS, memoryMib: ANY, diskMib: ANY },
    facts: {
      runtime: 'fake',
      accelerator: { name: 'tcg', reason: 'a fake', remedy: null },
      vmmVersion: '1',
      jail: { inForce: [], missing: [] },
    },
  });
  await node.open();
  const quiet = () => undefined;
  const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  const records = new MemoryRecords();
  const control = createControl({ node, records, clock, chance, logger }, new FakeGateway());
  await control.start();
  let requests = 0;
  return {
    ...{ control, runtime, heard, records },
    caller: () => ({
      principal: {
        apiKeyId: newId('apiKey', chance),
        organisationId: DEFAULT_ORGANISATION,
        operator: true,
        onlyProject: null,
        roles: ['admin'],
      },
      projectId: DEFAULT_PROJECT,
      requestId: `req_${++requests}`,
      signal: new AbortController().signal,
    }),
    async [Symbol.asyncDispose]() {
      await control.close();
      await node.release();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function listening(guest: Guest, vm: Vm, heard: Map<string, Heard>): Guest {
  const of: Heard = heard.get(vm.record.lifeId) ?? { identities: [], calls: [] };
  heard.set(vm.record.lifeId, of);
  const noted =
    (name: string, call: (...args: unknown[]) => unknown) =>
    (...args: unknown[]) => {
      of.calls.push(name);
      if (name === 'assumeIdentity') of.identities.push(args[0] as GuestIdentity);
      return call.apply(guest, args);
    };
  return new Proxy(guest, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' && typeof name === 'string' ? noted(name, value as never) : value;
    },
  });
}
