/**
 * The node port over a line: each of its methods with the way that it goes. A method that is added to the port does not
 * compile until it has a row, and a row of the wrong kind does not either.
 */
import { AppError, type IdKind, type NodePort, parseId } from '@space/core';
import type { Calls, KindOf } from './calls.ts';

/** What does not go over a line of its own: the link tells it. */
type Told = 'onLifeEnded' | 'onSpace' | 'onBack';

export const NODE_CALLS = {
  capabilities: 'read',
  vaults: 'read',
  createVault: 'call',
  openVault: 'call',
  closeVault: 'read',
  keepVaultToken: 'call',
  growVault: 'read',
  removeVault: 'read',
  templates: 'read',
  ensureReady: 'read',
  reserveMemory: 'call',
  releaseMemory: 'read',
  start: 'call',
  goOn: 'read',
  snapshot: 'call',
  pause: 'call',
  rewind: 'call',
  destroy: 'read',
  deletePoint: 'read',
  checkPoint: 'read',
  points: 'read',
  pointOwner: 'read',
  changed: 'read',
  exportPoints: 'stream',
  readArchive: 'read',
  readArchiveKey: 'read',
  importPoints: 'abortable',
  handOver: 'abortable',
  arrive: 'abortable',
  listArchives: 'read',
  removeArchive: 'read',
  collectArchives: 'abortable',
  inspect: 'read',
  inspectAll: 'read',
  usage: 'read',
  console: 'read',
  exec: 'stream',
  attach: 'stream',
  writeInput: 'call',
  resizeTerminal: 'read',
  signalProcess: 'call',
  processes: 'read',
  openPort: 'connect',
  readFile: 'download',
  writeFile: 'upload',
  stat: 'read',
  list: 'stream',
  makeDirectory: 'call',
  moveFile: 'call',
  removeFile: 'abortable',
  setAttributes: 'call',
  makeSymlink: 'call',
  xattrs: 'read',
  xattr: 'read',
  setXattr: 'call',
  removeXattr: 'call',
  watch: 'stream',
} as const satisfies { readonly [K in Exclude<keyof NodePort, Told>]: KindOf<NodePort[K]> };

/** The node's calls, and the one by which the link learns that it is there and what ends. */
export const SERVED_CALLS = { ...NODE_CALLS, news: 'stream' } as const satisfies Calls;

export type NodeCall = keyof typeof NODE_CALLS;

/** Which fields of an order are ids, and of which kind. They become names of files: none that is no id passes. */
const ID_FIELDS: Readonly<Record<string, IdKind>> = {
  sandboxId: 'sandbox',
  snapshotId: 'snapshot',
  keepAs: 'snapshot',
  to: 'snapshot',
  from: 'snapshot',
  points: 'snapshot',
  projectId: 'project',
};
const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;
const ORDERS: readonly string[] = [
  'start',
  'goOn',
  'snapshot',
  'pause',
  'rewind',
  'destroy',
  'exportPoints',
  'importPoints',
  'handOver',
  'arrive',
  'createVault',
  'openVault',
  'closeVault',
  'keepVaultToken',
] satisfies readonly NodeCall[];
/** Those whose first argument is no sandbox. */
const OF_A_VAULT: readonly string[] = [
  'ensureReady',
  'growVault',
  'removeVault',
  'inspect',
  'deletePoint',
  'checkPoint',
  'points',
  'pointOwner',
] satisfies readonly NodeCall[];
const OF_A_POINT: readonly string[] = ['deletePoint', 'checkPoint', 'pointOwner'] satisfies readonly NodeCall[];

const OF_AN_ARCHIVE: readonly string[] = [
  'readArchive',
  'readArchiveKey',
  'removeArchive',
] satisfies readonly NodeCall[];

/** Those whose first argument is a list, of sandboxes or of what is for each. */
const OF_MANY: readonly string[] = ['reserveMemory', 'releaseMemory'] satisfies readonly NodeCall[];

/** Throws `bad_request`. */
export function checkNodeArgs(method: string, args: readonly unknown[]): void {
  const [first, second] = args;
  if (OF_AN_ARCHIVE.includes(method)) checkSource(first);
  else if (method === 'listArchives' || method === 'collectArchives') {
    checkOrder(first);
    if (method === 'listArchives' && second !== null) checkId('sandbox', second);
  } else if (ORDERS.includes(method)) checkOrder(first);
  else if (OF_MANY.includes(method)) {
    for (const one of Array.isArray(first) ? first : [first]) checkId('sandbox', idOf(one));
  } else if (OF_A_VAULT.includes(method)) {
    checkName('vault', first);
    if (OF_A_POINT.includes(method)) checkId('snapshot', second);
    if (method === 'inspect') checkId('sandbox', second);
  } else if (first !== undefined) checkId('sandbox', first);
}

function checkOrder(order: unknown): void {
  if (typeof order !== 'object' || order === null) throw new AppError('bad_request', 'An order is no object.');
  if ('archive' in order) checkSource(order);
  for (const [field, value] of Object.entries(order)) {
    if (field === 'vault' || field === 'template' || field === 'location') checkName(field, value);
    const kind = Object.hasOwn(ID_FIELDS, field) ? ID_FIELDS[field] : undefined;
    if (kind === undefined || (field === 'keepAs' && value === null) || (field === 'from' && value === 'crashed'))
      continue;
    for (const id of field === 'points' && Array.isArray(value) ? value : [value]) checkId(kind, id);
  }
}

/** What the two texts are is for the node to say: it knows the places, and reads no path out of the name. */
function checkSource(source: unknown): void {
  const texts = typeof source === 'object' && source !== null ? source : {};
  if (
    'location' in texts &&
    typeof texts.location === 'string' &&
    'archive' in texts &&
    typeof texts.archive === 'string'
  )
    return;
  throw new AppError('bad_request', 'An archive has a place and a name.');
}

function idOf(one: unknown): unknown {
  return typeof one === 'object' && one !== null && 'sandboxId' in one ? one.sandboxId : one;
}

function checkId(kind: IdKind, value: unknown): void {
  if (typeof value === 'string' && parseId(kind, value) !== undefined) return;
  throw new AppError('bad_request', `What should name a ${kind} is no id of one.`);
}

function checkName(what: string, value: unknown): void {
  if (typeof value === 'string' && NAME.test(value)) return;
  throw new AppError('bad_request', `The ${what} has no name that is possible.`);
}
