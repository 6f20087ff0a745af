/**
 * A fault at each step of each operation. The steps are those that the operation takes when nothing goes wrong: they are
 * recorded first, so that none is missing here. After the fault the call, repeated, succeeds, and all that was promised holds.
 */
import { describe, expect, it } from 'vitest';
import { checkAll } from './checks.ts';
import { Client, History } from './client.ts';
import { OneFault, type Place } from './one-fault.ts';
import { ACTS, type ActName, type Setting, setScene } from './operations.ts';
import { isPossible } from './schedule.ts';
import { FAULTS, type Fault } from './steps.ts';
import { World } from './world.ts';

const IS_FULL = process.env['SPACE_FULL'] === '1';
const LIMIT_MS = 6 * 60 * 60_000;
/** What the platform asks for by itself meanwhile is no step of the operation. */
const IDLE_MS = 61_000;

const OPERATIONS: readonly (readonly [string, ActName, Setting])[] = [
  ['exec in a running sandbox', 'exec', { standing: 'running' }],
  ['exec in a paused sandbox', 'exec', { standing: 'paused' }],
  ['pause', 'pause', { standing: 'running' }],
  ['resume', 'resume', { standing: 'paused' }],
  ['resume after a crash', 'resume', { standing: 'crashed' }],
  ['snapshot', 'snapshot', { standing: 'running' }],
  ['snapshot of a paused sandbox', 'snapshot', { standing: 'paused' }],
  ['fork', 'fork', { standing: 'running' }],
  ['fork of a paused sandbox', 'fork', { standing: 'paused' }],
  ['rewind', 'rewind', { standing: 'running' }],
  ['rewind of a paused sandbox', 'rewind', { standing: 'paused' }],
  ['rewind after a crash', 'rewind', { standing: 'crashed' }],
  ['delete', 'delete', { standing: 'running' }],
  ['delete of a paused sandbox', 'delete', { standing: 'paused' }],
  ['pause of an idle one', 'idle', { standing: 'running', idle: true }],
  ['expiry by pause', 'expiry by pause', { standing: 'running', expiry: 'pause' }],
  ['expiry by delete', 'expiry by delete', { standing: 'running', expiry: 'delete' }],
  ['expiry by delete of a paused sandbox', 'expiry by delete', { standing: 'paused', expiry: 'delete' }],
  ['collection', 'collection', { standing: 'running', collected: true }],
];

interface Cell {
  readonly act: ActName | 'nothing' | 'create first';
  readonly setting: Setting;
  readonly memory: 'in_place' | 'written';
  readonly at?: Place & { readonly fault: Fault };
}

/** The steps that were taken during the operation. */
async function play({ act, setting, memory, at }: Cell): Promise<readonly Place[]> {
  const fate = new OneFault(at ?? null);
  const world = new World({ seed: 1, memory, fate: () => fate });
  const steps: Place[] = [];
  await world.time.run(async () => {
    await world.boot();
    const history = new History(world);
    const counts = new Map<string, number>();
    const record = () => {
      world.steps.onStep = (label, step) => {
        const nth = (counts.get(label) ?? 0) + 1;
        counts.set(label, nth);
        steps.push({ label, step, nth });
      };
      fate.armed = true;
    };
    const client = new Client(history, 'a');
    if (act === 'create first') {
      record();
      const { happenings } = await client.create('scene');
      if (happenings.some(({ maybe }) => maybe)) throw new Error(`the retry failed: ${happenings[0]?.text}`);
    } else {
      const scene = await setScene(world, client, setting);
      record();
      if (act === 'nothing') return world.time.sleep(IDLE_MS);
      const told = await ACTS[act](client, scene);
      // What dies takes what was not in a point with it; its user decides.
      const mayFail = at?.fault === 'kill vmm';
      if (told !== null && told.kind !== 'ok' && !mayFail) {
        throw new Error(`the retry failed: ${scene.sandbox.happenings.at(-1)?.text}`);
      }
    }
    world.steps.onStep = () => undefined;
    fate.armed = false;
    await checkAll(history, new Client(history, 'z'));
  }, LIMIT_MS);
  return steps;
}

/** The labels of what goes on by itself. */
async function noise(setting: Setting): Promise<ReadonlySet<string>> {
  const steps = await play({ act: 'nothing', setting: { standing: setting.standing }, memory: 'in_place' });
  return new Set(steps.map(({ label }) => label));
}

async function allFaults(act: Cell['act'], setting: Setting): Promise<void> {
  const ignored = act === 'create first' ? new Set<string>() : await noise(setting);
  const failures: string[] = [];
  let index = 0;
  for (const memory of ['in_place', 'written'] as const) {
    const steps = (await play({ act, setting, memory })).filter(({ label }) => !ignored.has(label));
    for (const place of steps) {
      for (const fault of FAULTS.filter((one) => isPossible(one, place.step))) {
        // The kinds of memory take the same steps: unless all are asked for, each has every fourth cell, and not the same ones.
        index += 1;
        if (!IS_FULL && index % 4 !== (memory === 'in_place' ? 0 : 2)) continue;
        await play({ act, setting, memory, at: { ...place, fault } }).catch((thrown: unknown) =>
          failures.push(`${fault} at ${place.label} #${place.nth}, memory ${memory}: ${String(thrown)}`),
        );
      }
    }
  }
  expect(failures).toEqual([]);
}

describe('a fault at any step', { timeout: 1_200_000 }, () => {
  it('of create', () => allFaults('create first', { standing: 'running' }));
  it.each(OPERATIONS)('of %s', (_, act, setting) => allFaults(act, setting));
});
