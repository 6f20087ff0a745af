/** audit: who did what in the organisation, whether that is what was written, and all of it to take away. */
import { type AuditRecord, audit as auditOf, exportAudit, verifyAudit } from '@space/sdk';
import { type Cli, verb, wholeNumber } from '../cli.ts';
import { CliError, usage } from '../errors.ts';
import { inertJson } from '../inert.ts';
import { defined } from './options.ts';

const DEFAULT_RECORDS = 50;
const CHAINS = ['calls', 'egress'] as const;

export function audit(cli: Cli) {
  const group = verb('audit', 'list who did what in the organisation, newest first')
    .option('--last <count>', `so many at most (default: ${DEFAULT_RECORDS})`, wholeNumber)
    .action(
      cli.run(async ({ out, connection }, { last = DEFAULT_RECORDS }) => {
        const records: AuditRecord[] = [];
        for await (const record of auditOf(connection)) {
          if (records.length >= last) break;
          records.push(record);
        }
        out.table(records, ['AT', 'KEY', 'CALL', 'TARGET', 'OUTCOME'], records.map(rowOf));
      }),
    );
  group.addCommand(
    verb('verify', 'check that nothing in it was changed, taken out or slipped in').action(
      cli.run(async ({ out, connection }) => {
        const verified = await verifyAudit(connection);
        const broken = verified.chains.find(({ brokenAt }) => brokenAt !== null);
        out.result(verified, () => [
          ...verified.chains.map(({ chain, dropped, last, digest, brokenAt, why }) => {
            const links = `${chain}: ${dropped + 1} to ${last}`;
            return brokenAt === null ? `${links}, whole, ${digest}` : `${links}, BROKEN at ${brokenAt}: ${why}`;
          }),
          `not linked yet: ${verified.notLinked}`,
        ]);
        if (broken !== undefined)
          throw new CliError(
            'audit_broken',
            `The audit is not what was written, from ${broken.chain} ${broken.brokenAt} on.`,
            'Compare it with an earlier export; somebody who owns the database has changed it, or its disk has.',
          );
      }),
    ),
  );
  group.addCommand(
    verb('export', 'print all of it in order, as lines of JSON that can be checked')
      .option('--since <time>', 'what was linked then or later, e.g. 2030-01-31', since)
      .option('--chain <chain>', 'only calls, or only egress', chain)
      .option('-f, --follow', 'go on with what comes, until you end it')
      .action(
        cli.run(async ({ out, connection }, { since: from, chain: only, follow = false }) => {
          const asked = defined({ since: from, chain: only });
          for await (const line of exportAudit({ ...connection, ...asked, follow })) out.line(inertJson(line));
        }),
      ),
  );
  return group;
}

function rowOf({ at, apiKey, call, target, outcome }: AuditRecord): string[] {
  return [at, apiKey, call, target ?? '-', outcome];
}

function since(text: string): string {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) throw usage(`"${text}" is no time.`, 'Give it like 2030-01-31T08:00:00Z.');
  return time.toISOString();
}

function chain(text: string): (typeof CHAINS)[number] {
  const known = CHAINS.find((one) => one === text);
  if (known === undefined) throw usage(`"${text}" is no chain.`, `It is one of ${CHAINS.join(', ')}.`);
  return known;
}
