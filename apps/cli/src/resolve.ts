/** Which sandbox or snapshot a person means: an id, a name, or the beginning of either when only one begins so. */
import { getSnapshot, listSnapshots, Sandbox, type Snapshot, SpaceError } from '@space/sdk';
import type { Context } from './context.ts';
import { CliError } from './errors.ts';

interface Named {
  readonly id: string;
  readonly name: string | null;
}

const SHOWN = 5;

export async function resolveSandbox(reference: string, { connection }: Context): Promise<Sandbox> {
  const exact = await unlessNotFound(Sandbox.connect(reference, connection));
  return exact ?? pickOne('sandbox', reference, await Sandbox.list(connection), 'space ls');
}

/** One of the sandbox's timeline, or a named one. */
export async function resolveSnapshot(reference: string, context: Context, sandbox?: Sandbox): Promise<Snapshot> {
  const { connection } = context;
  const exact = await unlessNotFound(getSnapshot(reference, connection));
  if (exact !== undefined) return exact;
  const candidates =
    sandbox === undefined ? await listSnapshots(connection) : (await sandbox.timeline(connection)).snapshots;
  const list = sandbox === undefined ? 'space snapshots' : `space timeline ${sandbox.name ?? sandbox.id}`;
  return pickOne('snapshot', reference, candidates, list);
}

/** An exact match wins over prefixes, but names of some kinds are not unique; a prefix of an id may leave its kind (`sbx_`) out. */
export function pickOne<T extends Named>(kind: string, reference: string, candidates: readonly T[], list: string): T {
  const exact = candidates.filter(({ id, name }) => id === reference || name === reference);
  const begins = (text: string | null) => reference !== '' && text?.startsWith(reference) === true;
  const found =
    exact.length > 0 ? exact : candidates.filter(({ id, name }) => begins(id) || begins(name) || begins(bare(id)));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined) {
    throw new CliError('not_found', `There is no ${kind} "${reference}".`, `Run \`${list}\` to see what there is.`);
  }
  const shown = found.slice(0, SHOWN).map(({ id, name }) => (name === null ? id : `${name} (${id})`));
  const more = found.length > SHOWN ? `, and ${found.length - SHOWN} more` : '';
  const detail = `"${reference}" can mean ${found.length} things: ${shown.join(', ')}${more}.`;
  throw new CliError('ambiguous', detail, 'Give more of the id or name.');
}

function bare(id: string): string {
  return id.slice(id.indexOf('_') + 1);
}

/** What is not even the form of a reference (`bad_request`) names nothing either, but may begin a name. */
async function unlessNotFound<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof SpaceError && (error.code === 'not_found' || error.code === 'bad_request')) return undefined;
    throw error;
  }
}
