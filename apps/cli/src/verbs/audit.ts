/** audit: who did what in the organisation, whether that is what was written, and all of it to take away. */
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import {
  type AuditRecord,
  audit as auditOf,
  type CheckedAuditChain,
  checkAuditExport,
  exportAudit,
  parseAuditHeads,
  verifyAudit,
} from '@space/sdk';
import { type Cli, verb, wholeNumber } from '../cli.ts';
import type { Context } from '../context.ts';
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
    verb('verify', 'check that nothing in it was changed, taken out or slipped in')
      .argument(
        '[export]',
        'an export (a file, or "-"), which is checked here, without a server (default: what the server has)',
      )
      .option(
        '--head <file>',
        'heads that were kept (see `space audit head`): that what they stand for was not written anew',
      )
      .action(
        cli.run(async (context, { head }, file) => {
          if (file === undefined && head === undefined) {
            await verifyThere(context);
            return;
          }
          const heads = head === undefined ? [] : parseAuditHeads(await readFile(head, 'utf8'));
          const checked = await checkAuditExport(linesOf(context, file), heads);
          context.out.result({ chains: checked }, () => checked.flatMap(linesOfChecked));
          const broken = checked.find(({ brokenAt }) => brokenAt !== null);
          if (broken !== undefined) throw brokenAudit(broken.chain, broken.brokenAt);
          const unheard = heads.filter(
            (one) => !checked.some(({ agreed, older }) => [...agreed, ...older].includes(one)),
          );
          if (unheard.length > 0) {
            throw usage('Heads of chains were given that the export does not have.', 'Give an export of all chains.');
          }
        }),
      ),
  );
  group.addCommand(
    verb(
      'head',
      'check it, and print what its chains come to now: to be kept where nobody of the platform writes',
    ).action(
      cli.run(async ({ out, connection }) => {
        const { organisation, chains } = await verifyAudit(connection);
        const broken = chains.find(({ brokenAt }) => brokenAt !== null);
        if (broken !== undefined) throw brokenAudit(broken.chain, broken.brokenAt);
        const at = new Date().toISOString();
        for (const { chain, last: number, digest } of chains) {
          out.line(inertJson({ type: 'head', at, organisation, chain, number, digest }));
        }
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

async function verifyThere({ out, connection }: Context): Promise<void> {
  const verified = await verifyAudit(connection);
  out.result(verified, () => [
    ...verified.chains.map(({ chain, dropped, last, digest, brokenAt, why }) => {
      const links = `${chain}: ${dropped + 1} to ${last}`;
      return brokenAt === null ? `${links}, whole, ${digest}` : `${links}, BROKEN at ${brokenAt}: ${why}`;
    }),
    `not linked yet: ${verified.notLinked}`,
  ]);
  const broken = verified.chains.find(({ brokenAt }) => brokenAt !== null);
  if (broken !== undefined) throw brokenAudit(broken.chain, broken.brokenAt);
}

function linesOfChecked(checked: CheckedAuditChain): string[] {
  const { organisation, chain, first, last, digest, brokenAt, line, why, agreed, older } = checked;
  const links = `${chain} of ${organisation}: ${first} to ${last}`;
  return [
    brokenAt === null ? `${links}, whole, ${digest}` : `${links}, BROKEN at ${brokenAt} (line ${line}): ${why}`,
    ...agreed.map(({ number }) => `  agrees with the head ${number} that was kept`),
    ...older.map(
      ({ number }) => `  the head ${number} is of what is older than this export, so nothing can be said of it`,
    ),
  ];
}

function brokenAudit(chain: string, at: number | null): CliError {
  return new CliError(
    'audit_broken',
    `The audit is not what was written, from ${chain} ${at} on.`,
    'Compare it with an earlier export; somebody who owns the database has changed it, or its disk has.',
  );
}

/** Of a file, of standard input, or, without either, of what the server has. */
async function* linesOf({ io, connection }: Context, file: string | undefined): AsyncGenerator<string> {
  if (file === undefined) {
    for await (const line of exportAudit(connection)) yield JSON.stringify(line);
    return;
  }
  const input = file === '-' ? io.stdin : createReadStream(file);
  yield* createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
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
