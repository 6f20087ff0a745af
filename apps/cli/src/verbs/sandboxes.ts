/** create, ls, get, rm, pause, resume. */
import { Sandbox, type SandboxFields } from '@space/sdk';
import { type Cli, keyValue, verb } from '../cli.ts';
import type { Context } from '../context.ts';
import { usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { ageText } from '../output.ts';
import { resolveSandbox, resolveSnapshot } from '../resolve.ts';
import { archivingLines } from './archives.ts';
import { createOptionsOf, creating, defined, EXEC_HELP } from './options.ts';

const STATUSES = [
  'creating',
  'running',
  'pausing',
  'paused',
  'resuming',
  'rewinding',
  'crashed',
  'moved',
  'deleting',
] as const;

export function create(cli: Cli) {
  return creating('create', 'create a sandbox; prints its id')
    .option(EXEC_HELP.env, 'environment of every command in it (again for more)', keyValue)
    .action(
      cli.run(async (context, options) => {
        const snapshot = options.snapshot === undefined ? undefined : await resolveSnapshot(options.snapshot, context);
        context.out.note('Creating a sandbox. The first of a template in a size takes tens of seconds.');
        const given = defined({ ...createOptionsOf(options, snapshot?.id), env: options.env });
        const { fields } = await Sandbox.create({ ...context.connection, ...given });
        context.out.result(fields, () => fields.id);
      }),
    );
}

export function ls(cli: Cli) {
  return verb('ls', 'list sandboxes, newest first')
    .option('--status <status>', `only those that are ${STATUSES.join(', ')}`)
    .action(
      cli.run(async ({ out, connection }, { status }) => {
        const known = STATUSES.find((one) => one === status);
        if (status !== undefined && known === undefined)
          throw usage(`There is no status "${status}".`, `Use one of ${STATUSES.join(', ')}.`);
        const sandboxes = await Sandbox.list({ ...connection, ...defined({ status: known }) });
        const rows = sandboxes.map(({ fields }) => rowOf(fields));
        out.table(
          sandboxes.map(({ fields }) => fields),
          ['ID', 'NAME', 'STATUS', 'TEMPLATE', 'SIZE', 'AGE'],
          rows,
        );
      }),
    );
}

export function get(cli: Cli) {
  return verb('get', 'show a sandbox')
    .argument('<sandbox>')
    .action(
      cli.run(async (context, _, reference) => {
        const { fields } = await resolveSandbox(reference, context);
        context.out.result(fields, () => describe(fields));
      }),
    );
}

export function rm(cli: Cli) {
  return verb('rm', 'delete sandboxes, with their unnamed snapshots')
    .alias('delete')
    .argument('<sandbox...>')
    .action(
      cli.run(async (context, _, references) => {
        await onEach(references, context, async (sandbox) => {
          await sandbox.delete();
          context.out.item({ id: sandbox.id, deleted: true }, () => sandbox.id);
        });
      }),
    );
}

export function pause(cli: Cli) {
  return verb('pause', 'keep sandboxes on disk and free their microVMs; the next use wakes them')
    .argument('<sandbox...>')
    .option('--keep <what>', '`disk`, everything, or `files` only: then the next use boots', keepOf)
    .action(
      cli.run(async (context, { keep }, references) => {
        await onEach(references, context, async (sandbox) => tell(await sandbox.pause(keep && { keep }), context));
      }),
    );
}

export function resume(cli: Cli) {
  return verb('resume', 'resume sandboxes; a crashed one goes on from its last point')
    .argument('<sandbox...>')
    .action(
      cli.run(async (context, _, references) => {
        await onEach(references, context, async (sandbox) => tell(await sandbox.resume(), context));
      }),
    );
}

function keepOf(text: string): 'disk' | 'files' {
  if (text === 'disk' || text === 'files') return text;
  throw usage(`--keep is "${text}".`, 'Give disk (everything) or files.');
}

/** Nothing is done before it is known what every reference means. */
async function onEach(
  references: readonly string[],
  context: Context,
  act: (sandbox: Sandbox) => Promise<void>,
): Promise<undefined> {
  const sandboxes: Sandbox[] = [];
  for (const reference of references) sandboxes.push(await resolveSandbox(reference, context));
  for (const sandbox of sandboxes) await act(sandbox);
}

function tell({ fields }: Sandbox, { out }: Context): void {
  out.item(fields, () => `${fields.id}  ${fields.status}`);
}

function rowOf(fields: SandboxFields): string[] {
  const { id, name, status, template, createdAt } = fields;
  return [id, name ?? '-', status, template, sizeText(fields), ageText(createdAt)];
}

function sizeText({ size }: SandboxFields): string {
  return `${size.vcpus} CPU, ${size.memoryMib} MiB, ${Math.round(size.diskMib / 1024)} GiB`;
}

function networkText({ network: { preset, allow, deny } }: SandboxFields): string {
  const more = [
    ...(allow.length === 0 ? [] : [`${allow.length} allowed`]),
    ...(deny.length === 0 ? [] : [`${deny.length} denied`]),
  ];
  return [preset, ...more].join(', ');
}

function crashLines({ detail, at, resumesFrom, lost }: NonNullable<SandboxFields['crash']>): [string, string][] {
  const from = resumesFrom === null || lost === null;
  const loss = from
    ? 'what was in memory alone: it boots from its disk'
    : `${Math.round(lost.seconds)} s, from ${lost.from} on: it goes on from ${resumesFrom}`;
  return [
    ['crash', `${detail} (${at})`],
    ['lost', loss],
  ];
}

function describe(fields: SandboxFields): string[] {
  const { crash, expiry, forkedFrom, idle, pauseFailure } = fields;
  const pauses = idle.pauseAfterMs === null ? 'never paused by itself' : `paused after ${idle.pauseAfterMs / 1000} s`;
  const lines: [string, string][] = [
    ['id', fields.id],
    ['name', fields.name ?? '-'],
    ['status', fields.status],
    ...(crash === null ? [] : crashLines(crash)),
    ...(pauseFailure === null
      ? []
      : [
          ['not paused', `${pauseFailure.detail} (since ${pauseFailure.since}) ${pauseFailure.nextStep}`] as [
            string,
            string,
          ],
        ]),
    ['template', fields.template],
    ['size', sizeText(fields)],
    ['when idle', pauses],
    ['network', networkText(fields)],
    ...(expiry === null ? [] : [['expires', `${expiry.at}, by ${expiry.action}`] as [string, string]]),
    ['created', `${fields.createdAt} (${ageText(fields.createdAt)} ago)`],
    ['changed', fields.updatedAt],
    ['generation', `${fields.generation}`],
    ['head', fields.head ?? '-'],
    ...(fields.archiving === null ? [] : archivingLines(fields).map((line): [string, string] => ['archived', line])),
    ...(forkedFrom === null
      ? []
      : [['forked from', `${forkedFrom.sandboxId} at ${forkedFrom.snapshotId}`] as [string, string]]),
    ...Object.entries(fields.metadata).map(([name, value]) => [`label ${name}`, value] as [string, string]),
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  return lines.map(([name, value]) => `${inert(name).padEnd(width)}  ${inert(value)}`);
}
