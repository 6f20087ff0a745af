/** conformance: proves on a live installation what is promised of it. What it does is loaded when it is asked for. */
import { type Cli, verb } from '../cli.ts';
import { CliError, EXIT, usage } from '../errors.ts';

/** In the default policy of every sandbox. */
const DEFAULT_HOST = 'pypi.org';

export function conformance(cli: Cli) {
  const group = verb('conformance', 'prove on this installation what is promised of it');
  group.addCommand(
    verb('egress', 'try every way around the gateway, from within a sandbox that is made for it; fails on any miss')
      .option('--host <host>', `a public host of HTTPS that sandboxes may be let read (default: ${DEFAULT_HOST})`)
      .option('--local', 'with hosts and a platform of its own, on this machine: more cases (needs root or sudo)')
      .option('--full', 'with --local: cases that take minutes, too')
      .action(
        cli.run(async ({ io, out, connection }, { host = DEFAULT_HOST, local, full }) => {
          if (local === true || full === true) {
            throw usage(
              '--local and --full start a platform on this machine.',
              'Run ./space of a checkout, as for `up`.',
            );
          }
          const { countOf, failed, lineOf, runCases, summaryOf } = await import('@space/conformance');
          const stop = new AbortController();
          const abort = () => stop.abort();
          for (const signal of ['SIGINT', 'SIGTERM'] as const) io.signals.on(signal, abort);
          try {
            const places = { open: host, shut: 'shut.conformance.test', https: 443, own: null };
            const outcomes = [];
            for await (const outcome of runCases({ connection, places, hosts: null, has: [], signal: stop.signal })) {
              outcomes.push(outcome);
              out.item(outcome, () => lineOf(outcome));
            }
            const count = countOf(outcomes);
            out.item(count, () => summaryOf(count));
            return failed(count) ? EXIT.failed : 0;
          } catch (thrown) {
            if (!stop.signal.aborted) throw thrown;
            throw new CliError(
              'interrupted',
              'The proof was interrupted, and its sandbox deleted.',
              'Run it again.',
              EXIT.signal + 2,
            );
          } finally {
            for (const signal of ['SIGINT', 'SIGTERM'] as const) io.signals.off(signal, abort);
          }
        }),
      ),
  );
  return group.action(() => group.help());
}
