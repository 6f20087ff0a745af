/** approvals: requests of sandboxes that wait for a reviewer, and the decision. */
import {
  type Approval,
  type ApprovalDetail,
  approve,
  deny,
  events,
  getApproval,
  getWebhook,
  latestEvent,
  listApprovals,
  removeWebhook,
  setWebhook,
} from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import type { Context } from '../context.ts';
import { usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { ageText } from '../output.ts';
import { pickOne } from '../resolve.ts';
import { defined } from './options.ts';

/** Of `--all`. */
const MAX_LISTED = 500;

export function approvals(cli: Cli) {
  const group = verb('approvals', 'requests of sandboxes that wait for a reviewer, and what was decided');
  group.addCommand(ls(cli), { isDefault: true });
  for (const make of [show, approving, denying, webhook]) group.addCommand(make(cli));
  return group;
}

function ls(cli: Cli) {
  return verb('ls', 'list those that wait, newest first; also without `ls`')
    .option('-s, --sandbox <sandbox>', 'only those of this one')
    .option('-a, --all', 'also those that were decided')
    .option('-f, --follow', 'go on with those that come, until you end it')
    .action(
      cli.run(async (context, { sandbox, all, follow }) => {
        // First, so that what comes while the list is printed is not missed.
        const after = follow ? await latestEvent(context.connection) : null;
        const state = all ? undefined : ('pending' as const);
        const listed: Approval[] = [];
        for await (const one of listApprovals({ ...context.connection, ...defined({ sandbox, state }) })) {
          if (listed.push(one) >= MAX_LISTED) break;
        }
        if (after === null) {
          context.out.table(listed, ['ID', 'STATE', 'AGE', 'SANDBOX', 'REQUEST', 'RULE'], listed.map(rowOf));
          return;
        }
        for (const one of listed.toReversed()) context.out.item(one, () => lineOf(one));
        const shown = new Set(listed.map(({ id }) => id));
        for await (const event of events({ ...context.connection, after })) {
          const { approvalId: id } = event;
          if (event.kind !== 'approval.requested' || id === undefined || shown.has(id)) continue;
          const one = await getApproval(id, context.connection);
          if (sandbox === undefined || one.sandbox === sandbox) context.out.item(one, () => lineOf(one));
        }
      }),
    );
}

function show(cli: Cli) {
  return verb('show', 'show all that would be sent; secrets are masked, hidden characters shown')
    .argument('<approval>', 'its id, or the beginning of it')
    .action(
      cli.run(async (context, _, reference) => {
        const one = await find(reference, context, undefined);
        context.out.result(one, () => linesOf(one));
      }),
    );
}

function approving(cli: Cli) {
  return verb('approve', 'let exactly that request leave, once')
    .argument('<approval>', 'its id, or the beginning of it')
    .option('-m, --reason <text>', 'for the record')
    .action(
      cli.run(async (context, { reason }, reference) => {
        const { id } = await find(reference, context, 'pending');
        const decided = await approve(id, { ...context.connection, ...defined({ reason }) });
        context.out.result(decided, () => id);
      }),
    );
}

function denying(cli: Cli) {
  return verb('deny', 'do not let it leave')
    .argument('<approval>', 'its id, or the beginning of it')
    .option('-m, --reason <text>', 'for the record; the program in the sandbox is told it')
    .action(
      cli.run(async (context, { reason }, reference) => {
        const { id } = await find(reference, context, 'pending');
        const decided = await deny(id, { ...context.connection, ...defined({ reason }) });
        context.out.result(decided, () => id);
      }),
    );
}

function webhook(cli: Cli) {
  return verb('webhook', 'have an address told of requests that wait; without one, show which is')
    .argument('[url]', 'an https address; its signing key is printed')
    .option('--off', 'tell nobody any more')
    .action(
      cli.run(async ({ out, connection }, { off }, url) => {
        if (off && url !== undefined) throw usage('There is an address, and --off.', 'Give one of them.');
        if (off) {
          await removeWebhook(connection);
          out.result({ url: null }, () => []);
        } else if (url === undefined) {
          const found = await getWebhook(connection);
          const failure = found.failure === null ? [] : [`failed  ${found.failure.at}: ${found.failure.code}`];
          out.result(found, () => [`url     ${found.url}`, ...failure].map(inert));
        } else {
          const set = await setWebhook(url, connection);
          out.result(set, () => set.secretKey ?? '');
        }
      }),
    );
}

async function find(reference: string, { connection }: Context, state: 'pending' | undefined): Promise<ApprovalDetail> {
  if (/^apr_[0-9a-z]{16}$/.test(reference)) return getApproval(reference, connection);
  const candidates: (Approval & { readonly name: null })[] = [];
  for await (const one of listApprovals({ ...connection, ...defined({ state }) })) {
    if (candidates.push({ ...one, name: null }) >= MAX_LISTED) break;
  }
  const { id } = pickOne('approval', reference, candidates, 'space approvals ls');
  return getApproval(id, connection);
}

function urlOf({ request: { scheme, host, port, url } }: Pick<Approval, 'request'>): string {
  const standard = (scheme === 'https' && port === 443) || (scheme === 'http' && port === 80);
  const name = host.includes(':') ? `[${host}]` : host;
  return `${scheme}://${name}${standard ? '' : `:${port}`}${url}`;
}

function rowOf(one: Approval): string[] {
  const { id, state, requestedAt, sandbox, request, rule } = one;
  return [id, state, ageText(requestedAt), sandbox, `${request.method} ${urlOf(one)}`, rule];
}

function lineOf(one: Approval): string {
  return inert(`${one.requestedAt}  ${one.id}  ${one.state}  ${one.sandbox}  ${one.request.method} ${urlOf(one)}`);
}

function addedLines({ added }: ApprovalDetail): string[] {
  if (added === null) return [];
  return [`(on its way out, in ${added.place}: the secret "${added.secret}", by the binding "${added.binding}")`];
}

function linesOf(one: ApprovalDetail): string[] {
  const { body, snapshot } = one;
  const { text } = body;
  const size = `${body.sizeBytes} bytes, sha256 ${body.sha256}${body.readAs.map((how) => `, read as ${how}`).join('')}`;
  const facts = [
    `approval   ${one.id}: ${one.state}, ${one.state === 'pending' ? 'waits' : 'held'} until ${one.expiresAt}`,
    `sandbox    ${one.sandbox}, generation ${one.generation}`,
    `rule       ${one.rule}`,
    ...(one.decidedAt === null ? [] : [`decided    ${one.decidedAt} by ${one.decidedBy ?? '-'}`]),
    ...(one.reason === null ? [] : [`reason     ${one.reason}`]),
    ...(snapshot === null ? [] : [`snapshot   ${'id' in snapshot ? snapshot.id : `none: ${snapshot.code}`}`]),
    '',
    `${one.request.method} ${urlOf(one)}`,
    ...one.headers.map(({ name, value }) => `${name}: ${value}`),
    ...addedLines(one),
    ...(one.moreHeaders === 0 ? [] : [`(${one.moreHeaders} more headers are not shown)`]),
    '',
    ...(text === null ? [] : text.split('\n').map((line) => line.replaceAll('\t', '    '))),
    text === null ? `(a body that is no text: ${size})` : `(${body.isWhole ? '' : 'not all of it is shown; '}${size})`,
  ];
  return facts.map(inert);
}
