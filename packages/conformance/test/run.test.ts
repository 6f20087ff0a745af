/** What the cases say of an installation, with programs in place of the guest's that tell of ways out that are as asked for. */
import { Sandbox } from '@space/sdk';
import { createTestPlatform, type TestPlatform, type TestPrograms } from '@space/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { EGRESS_CASES } from '../src/cases/cases.ts';
import { countOf, failed, lineOf } from '../src/report.ts';
import { type Outcome, runCases } from '../src/run.ts';

const ARRIVED = 'HTTP/1.1 200 OK\r\n\r\nwell\n';
const REFUSED = 'HTTP/1.1 403 Forbidden\r\nx-space-egress: egress_refused\r\n\r\n';
const PLACES = { open: 'open.example', shut: 'shut.example', https: 443, own: null };

let platform: TestPlatform;
afterEach(() => platform.close());

type Asked = { readonly do: string; readonly host?: string; readonly say?: readonly string[] };

/** The program that cases are played by, in a guest whose way out answers so. */
function answering(answer: (asked: Asked) => object): TestPrograms {
  return {
    async python3({ input, print }) {
      let held = '';
      for await (const bytes of input) {
        held += Buffer.from(bytes).toString();
        for (let end = held.indexOf('\n'); end >= 0; end = held.indexOf('\n')) {
          const asked = JSON.parse(held.slice(0, end)) as readonly Asked[];
          held = held.slice(end + 1);
          print(`${JSON.stringify(asked.map((one) => ({ error: null, said: '', seconds: 0, ...answer(one) })))}\n`);
        }
      }
      return 0;
    },
  };
}

async function outcomesWith(answer: (asked: Asked) => object): Promise<readonly Outcome[]> {
  platform = await createTestPlatform({ programs: answering(answer) });
  return Array.fromAsync(runCases({ connection: platform.connection, places: PLACES, hosts: null, has: [] }));
}

describe('a way out', () => {
  it('that lets everything through misses every refusal', { timeout: 60_000 }, async () => {
    const outcomes = await outcomesWith(() => ({ said: ARRIVED, code: 0, count: 1 }));
    const ran = outcomes.filter(({ outcome }) => outcome !== 'not run');
    const wrong = ran.filter(
      ({ outcome, name }) =>
        (outcome === 'ok') !== /is reached|^so it is|^labels of names|^one that speaks nonsense/.test(name),
    );
    expect(wrong).toEqual([]);
    expect(failed(countOf(outcomes))).toBe(true);
    expect(ran.map(lineOf)).toContainEqual(
      expect.stringMatching(/^MISS {4}one host: Host of another than SNI {2}\(the answer was "HTTP/),
    );
  });

  it('that lets nothing through proves nothing that it refuses a host for, and says so', async () => {
    const outcomes = await outcomesWith(({ do: what }) =>
      what === 'tcp' ? { said: REFUSED } : { error: 'EPERM', code: 0, count: 0 },
    );
    const needing = EGRESS_CASES.filter(({ needs }) => needs.includes('open host')).map(({ name }) => name);
    const told = outcomes.filter(({ name }) => needing.includes(name));
    expect(told.map(({ outcome, why }) => `${outcome} ${why}`)).toEqual(
      told.map(() => expect.stringMatching(/^not run open\.example cannot be reached from a sandbox/)),
    );
  });

  it('that says nothing is no refusal', async () => {
    const outcomes = await outcomesWith(() => ({ error: 'timeout' }));
    // But where it is only asked whether something is reached.
    const refusals = outcomes.filter(({ name }) => !name.startsWith('another sandbox is no way'));
    expect(refusals.filter(({ outcome }) => outcome === 'ok')).toEqual([]);
  });
});

it('no two cases have one name', () => {
  const names = EGRESS_CASES.map(({ topic, name }) => `${topic}: ${name}`);
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

it('leaves no sandbox, also when it is interrupted', async () => {
  platform = await createTestPlatform({ programs: answering(() => ({ said: REFUSED })) });
  const stop = new AbortController();
  const options = { connection: platform.connection, places: PLACES, hosts: null, has: [], signal: stop.signal };
  const playing = (async () => {
    for await (const _ of runCases(options)) stop.abort(new Error('enough'));
  })();
  await expect(playing).rejects.toThrow('enough');
  expect(await Sandbox.list(platform.connection)).toEqual([]);
});
