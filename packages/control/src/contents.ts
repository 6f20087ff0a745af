/**
 * The tenant's content in the records, as ciphertext under the content key of its vault: environment and metadata of sandboxes, notes of
 * snapshots. It is
 * sealed on its way into the records and opened on its way out, so that the database has neither, and the rest of control knows nothing
 * of it. So are the answers that are kept of calls.
 *
 * - What is kept of metadata beside the ciphertext are keyed digests of its pairs, by which a list is filtered.
 * - While the vault is closed there is no key, and a read opens no vault: what is read then is *hidden*. It can be handed on, and shown as
 *   absent; whoever uses it is told `vault_closed`, so that nothing is ever taken for empty that is not.
 * - Content that is empty is kept as it is: it says nothing.
 */
import {
  AppError,
  asAppError,
  type ContentPlace,
  contentDigest,
  DEFAULT_VAULT,
  type KeyBytes,
  type OrganisationId,
  openContent,
  type SandboxId,
  sealContent,
  type VaultName,
} from '@space/core';
import { type RunsAsked, runBeganAt } from './face-records.ts';
import type { ControlPorts } from './ports.ts';
import type { NewSandbox, RecordedSandbox, RecordedSnapshot, Records } from './records.ts';
import type { VaultKeys } from './vault-keys.ts';

type Texts = Readonly<Record<string, string>>;
type Content = Pick<RecordedSandbox, 'env' | 'metadata'>;
/** The answer of a call, in the row of `calls` that it is kept in, and the sandbox that it is about, if it is about one. */
export interface AnswerToKeep {
  readonly organisationId: OrganisationId;
  readonly row: string;
  readonly answer: string;
  readonly sandboxId: SandboxId | null;
}
type NoteOwner = Pick<RecordedSnapshot, 'id' | 'vault'>;

const TABLE = 'sandboxes';
const COLUMN = 'content';
const ANSWERS = { table: 'calls', column: 'answer' } as const;
const NOTES = { table: 'snapshots', column: 'note' } as const;
const SEALED = 'sealed:1:';
const DIGEST_LETTERS = 32;
const HIDDEN = new WeakSet<object>();

/** Whether it is content that cannot be shown now. Using it throws. */
export function isHidden(content: Texts): boolean {
  return HIDDEN.has(content);
}

export class Contents {
  readonly #ports: Pick<ControlPorts, 'kms' | 'chance' | 'records'>;
  readonly #keys: VaultKeys;
  readonly #ensureOpen: (vault: VaultName) => Promise<void>;

  constructor(
    ports: Pick<ControlPorts, 'kms' | 'chance' | 'records'>,
    keys: VaultKeys,
    ensureOpen: (vault: VaultName) => Promise<void>,
  ) {
    this.#ports = ports;
    this.#keys = keys;
    this.#ensureOpen = ensureOpen;
  }

  /** Opens the vault, which what is being made needs anyway. Throws rather than keep anything in clear. */
  async seal(sandbox: NewSandbox): Promise<NewSandbox> {
    const { env, metadata, vault, id } = sandbox;
    const isEmpty = Object.keys(env).length + Object.keys(metadata).length === 0;
    if (isEmpty || this.#isPlain(vault)) return sandbox;
    const { key, organisationId } = await this.#keyOf(vault);
    const place = { organisationId, vault, table: TABLE, column: COLUMN, row: id };
    const sealed = sealContent(key, place, JSON.stringify({ env, metadata }), this.#ports.chance);
    return { ...sandbox, env: {}, metadata: await this.digests(vault, metadata), sealed };
  }

  /** For those of the vault that have these among their metadata. */
  async digests(vault: VaultName, metadata: Texts): Promise<Texts> {
    const { key, organisationId } = await this.#keyOf(vault);
    const place = { organisationId, vault, table: TABLE, column: 'metadata' };
    const digestOf = (pair: readonly string[]) =>
      contentDigest(key, place, JSON.stringify(pair)).slice(0, DIGEST_LETTERS);
    return Object.fromEntries(Object.entries(metadata).map((pair) => [digestOf(pair), '']));
  }

  /** The same record; its content is opened when it is looked at, since most who have a record do not. */
  reveal<T extends RecordedSandbox | null>(recorded: T): T {
    if (recorded === null || recorded.sealed === null) return recorded;
    const { id, vault, sealed } = recorded;
    let opened: Content | null = null;
    const look = (): Content => {
      try {
        opened ??= this.#opened(id, vault, sealed);
      } catch (thrown) {
        // Of one that is damaged the others are shown all the same.
        return hidden(asAppError(thrown));
      }
      return (
        opened ??
        hidden(new AppError('vault_closed', `The vault ${vault} is closed, and what it holds cannot be read.`))
      );
    };
    return Object.defineProperties(
      { ...recorded },
      {
        env: { enumerable: true, get: () => look().env },
        metadata: { enumerable: true, get: () => look().metadata },
      },
    );
  }

  /**
   * The answer of a call, to be kept: under the key of the vault that it tells of, where several of the caller's are open. Where that key
   * is not at hand, as after a restart until the vault is used, what is kept is that the call was carried out, and not what it said.
   */
  async sealAnswer({ organisationId, row, answer, sandboxId }: AnswerToKeep): Promise<string> {
    const vault = await this.#vaultOf(organisationId, sandboxId);
    if (vault === null) return answer;
    const held = this.#keys.content(vault);
    if (held === null) {
      const detail = `This was carried out once. What it answered was not kept, since the key of the vault ${vault} was not at hand then.`;
      return JSON.stringify({ error: { code: 'vault_closed', detail, facts: {} } });
    }
    const place = { organisationId, vault, ...ANSWERS, row };
    const sealed = sealContent(held.key, place, answer, this.#ports.chance);
    return `${SEALED}${vault}:${Buffer.from(sealed).toString('base64')}`;
  }

  /** The one whose key is held, where there is one; the record is asked only where that is in doubt. Null: what is said is of none. */
  async #vaultOf(organisationId: OrganisationId, sandboxId: SandboxId | null): Promise<VaultName | null> {
    if (this.#ports.kms === undefined) return null;
    const [one, ...more] = this.#keys.heldOf(organisationId);
    const isSure = one !== undefined && more.length === 0;
    if (isSure || sandboxId === null) return one ?? null;
    const vault = (await this.#ports.records.findSandbox(sandboxId))?.vault;
    return vault === undefined || this.#isPlain(vault) ? (one ?? null) : vault;
  }

  /** A snapshot as it is kept. What was kept of its note is kept again as it was. */
  async sealNote<T extends RecordedSnapshot | null>(snapshot: T): Promise<T> {
    if (snapshot === null || (snapshot.note === null && snapshot.sealedNote === undefined)) return snapshot;
    const { sealedNote, ...rest } = snapshot;
    return { ...rest, note: sealedNote ?? (await this.noteToKeep(snapshot, snapshot.note)) } as T;
  }

  async noteToKeep({ id, vault }: NoteOwner, note: string | null): Promise<string | null> {
    if (note === null || this.#isPlain(vault)) return note;
    const { key, organisationId } = await this.#keyOf(vault);
    const sealed = sealContent(key, { organisationId, vault, ...NOTES, row: id }, note, this.#ports.chance);
    return `${SEALED}${Buffer.from(sealed).toString('base64')}`;
  }

  revealNote<T extends RecordedSnapshot | null>(snapshot: T): T {
    if (snapshot === null || snapshot.note === null || this.#isPlain(snapshot.vault)) return snapshot;
    const { id, vault, note: kept } = snapshot;
    if (!kept.startsWith(SEALED)) return snapshot;
    const held = this.#keys.content(vault);
    const place = { organisationId: held?.organisationId ?? ('' as OrganisationId), vault, ...NOTES, row: id };
    return {
      ...snapshot,
      sealedNote: kept,
      note: held === null ? null : opened(held.key, place, kept.slice(SEALED.length)),
    };
  }

  /** What `sealAnswer` gave. Opens the vault. */
  async openAnswer(row: string, kept: string): Promise<string> {
    // An answer in clear is JSON, which begins otherwise.
    if (!kept.startsWith(SEALED)) return kept;
    const [vault = '', sealed = ''] = kept.slice(SEALED.length).split(':');
    const { key, organisationId } = await this.#keyOf(vault as VaultName);
    const place = { organisationId, vault: vault as VaultName, ...ANSWERS, row };
    return openContent(key, place, Buffer.from(sealed, 'base64'));
  }

  /** Null: its vault is closed. */
  #opened(id: SandboxId, vault: VaultName, sealed: Uint8Array): Content | null {
    const held = this.#keys.content(vault);
    if (held === null) return null;
    const place = { organisationId: held.organisationId, vault, table: TABLE, column: COLUMN, row: id };
    return JSON.parse(openContent(held.key, place, sealed)) as Content;
  }

  #isPlain(vault: VaultName): boolean {
    return this.#ports.kms === undefined || vault === DEFAULT_VAULT;
  }

  async #keyOf(vault: VaultName) {
    await this.#ensureOpen(vault);
    const held = this.#keys.content(vault);
    // It is open since before this process was there, and its KMS has not answered since.
    if (held === null) throw new AppError('kms_unavailable', `The KMS of the vault ${vault} does not answer.`);
    return held;
  }
}

/** The same records, with what is a tenant's sealed on its way in and opened on its way out. */
export function sealing(records: Records, contents: Contents): Records {
  const reveal = <T extends RecordedSandbox | null>(one: T) => contents.reveal(one);
  const note = <T extends RecordedSnapshot | null>(one: T) => contents.revealNote(one);
  const { faces, history } = records;
  const own: Partial<Records> = {
    addSandboxes: async (sandboxes) =>
      records.addSandboxes(await Promise.all(sandboxes.map((one) => contents.seal(one)))),
    findSandbox: async (id) => reveal(await records.findSandbox(id)),
    findSandboxByName: async (...named) => reveal(await records.findSandboxByName(...named)),
    listSandboxes: async (page) => {
      const { items, next } = await records.listSandboxes(page);
      return { items: items.map(reveal), next };
    },
    allSandboxes: async () => (await records.allSandboxes()).map(reveal),
    updateSandbox: async (...update) => reveal(await records.updateSandbox(...update)),
    sandboxesToWake: async (...asked) => (await records.sandboxesToWake(...asked)).map(reveal),
    sandboxesToExpire: async (...asked) => (await records.sandboxesToExpire(...asked)).map(reveal),
    beginOperation: async (begin) =>
      reveal(await records.beginOperation({ ...begin, taking: await contents.sealNote(begin.taking) })),
    endOperation: async (end) => {
      const points = await Promise.all(end.points.map((point) => contents.sealNote(point)));
      return reveal(await records.endOperation({ ...end, points }));
    },
    findSnapshot: async (id) => note(await records.findSnapshot(id)),
    findSnapshotByName: async (...named) => note(await records.findSnapshotByName(...named)),
    snapshotsOf: async (id) => (await records.snapshotsOf(id)).map(note),
    listSnapshots: async (page) => {
      const { items, next } = await records.listSnapshots(page);
      return { items: items.map(note), next };
    },
    updateSnapshot: async (id, changes) => {
      if (changes.note === undefined || changes.note === null) return note(await records.updateSnapshot(id, changes));
      const found = await records.findSnapshot(id);
      if (found === null) return null;
      return note(
        await records.updateSnapshot(id, { ...changes, note: await contents.noteToKeep(found, changes.note) }),
      );
    },
    history: over(history, {
      newest: async (id) => note(await history.newest(id)),
      tip: async (...asked) => note(await history.tip(...asked)),
      newestAt: async (...asked) => note(await history.newestAt(...asked)),
      unchecked: async (...asked) => (await history.unchecked(...asked)).map(note),
    }),
    faces: over(faces, {
      findReach: async (id) => {
        const reach = await faces.findReach(id);
        return reach === null ? null : { ...reach, sandbox: reveal(reach.sandbox) };
      },
      listByRun: async (page) => {
        const alike = (await filters(page)).map((metadata) => faces.listByRun({ ...page, metadata }));
        const found = (await Promise.all(alike)).flat();
        return found.toSorted(byRun(page.order)).slice(0, page.limit).map(reveal);
      },
      countByRun: async (asked) => {
        const counts = (await filters(asked)).map((metadata) => faces.countByRun({ ...asked, metadata }));
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
      },
    }),
  };

  /** A filter reads content, so it opens the vaults that it looks into. As it is, for what is kept in clear. */
  async function filters({ metadata, projectId }: RunsAsked): Promise<readonly Texts[]> {
    if (Object.keys(metadata).length === 0) return [metadata];
    const organisationId = await records.tenants.organisationOf(projectId);
    const all = organisationId === null ? [] : await records.vaults.list(organisationId);
    // In one that was never opened lies nothing.
    const sealed = all.filter(({ keyring, state }) => keyring !== null && state === 'ready');
    return [metadata, ...(await Promise.all(sealed.map(({ name }) => contents.digests(name, metadata))))];
  }
  return over(records, own);
}

/** Null: it is damaged, or another's. */
function opened(key: KeyBytes, place: ContentPlace, base64: string): string | null {
  try {
    return openContent(key, place, Buffer.from(base64, 'base64'));
  } catch (thrown) {
    if (asAppError(thrown).code !== 'vault_key_wrong') throw thrown;
    return null;
  }
}

function byRun(order: 'asc' | 'desc') {
  const sign = order === 'asc' ? 1 : -1;
  return (a: RecordedSandbox, b: RecordedSandbox) =>
    sign * (runBeganAt(a).getTime() - runBeganAt(b).getTime()) || (a.id < b.id ? -1 : 1);
}

/** Content that is not to be had: whoever looks into it is told why, and so is who copies or sends it. */
function hidden(why: AppError): Content {
  const tell = () => {
    throw why;
  };
  const content = Object.freeze(Object.defineProperty({}, 'hidden', { enumerable: true, get: tell })) as Texts;
  HIDDEN.add(content);
  return { env: content, metadata: content };
}

function over<T extends object>(target: T, own: Partial<T>): T {
  return new Proxy(target, {
    get(inner, name) {
      if (Object.hasOwn(own, name)) return own[name as keyof T];
      const value: unknown = Reflect.get(inner, name, inner);
      return typeof value === 'function' ? value.bind(inner) : value;
    },
  });
}
