/**
 * `space conformance egress --local`: the cases on hosts and a platform of their own, as its processes run in use, in a folder that
 * is removed at the end.
 */
import { parseArgs } from 'node:util';
import { countOf, failed, lineOf, type Outcome, runCases, summaryOf } from '@space/conformance';
import { Hosts } from '@space/conformance/hosts';
import { openPlatform } from './platform.ts';

const USAGE = 'Usage: space conformance egress --local [--full] [--json]';

process.exitCode = await main();

async function main(): Promise<number> {
  const values = optionsOf(process.argv.slice(2));
  if (values === null) return 2;
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => stop.abort(new Error('The proof was interrupted.')));
  }
  const outcomes: Outcome[] = [];
  try {
    await using hosts = await Hosts.open();
    await using platform = await openPlatform(hosts, (step) => {
      if (!values.json) console.error(`… ${step}`);
    });
    const has = ['own hosts', 'own platform', ...(values.full ? (['full'] as const) : [])] as const;
    const { connection } = platform;
    const run = {
      connection,
      places: hosts.places,
      hosts,
      killGateway: platform.killGateway,
      has,
      signal: stop.signal,
    };
    for await (const outcome of runCases(run)) {
      outcomes.push(outcome);
      console.log(values.json ? JSON.stringify(outcome) : lineOf(outcome));
    }
  } catch (error) {
    console.error(`space: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
  const count = countOf(outcomes);
  console.log(values.json ? JSON.stringify(count) : summaryOf(count));
  return failed(count) ? 1 : 0;
}

function optionsOf(args: string[]) {
  const flag = { type: 'boolean', default: false } as const;
  try {
    const options = { local: flag, json: flag, full: flag };
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
    if (positionals.join(' ') === 'conformance egress') return values;
    console.error(USAGE);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
  }
  return null;
}
