/**
 * Ready snapshots: a template, booted once per (vault, template, size), warmed up, frozen and kept as a point, from which
 * every create is a copy. Built on first use; concurrent callers share one build; a build that fails leaves nothing and
 * can be tried again.
 */
import {
  AppError,
  asAppError,
  kindOf,
  type MachineFacts,
  newId,
  type Size,
  type SnapshotId,
  sizeKey,
  type TemplateStatus,
  type Vault,
  type VaultName,
} from '@space/core';
import { capture } from './capture.ts';
import { nobody, runInTurn } from './nobody.ts';
import { endLife, type LifeMachinery, prepareLife } from './start-life.ts';
import type { VaultUse } from './vaults.ts';

/** A template's root disk, as set-up built it. */
export interface TemplateSource {
  readonly name: string;
  readonly diskPath: string;
  readonly digest: string;
}

export interface ReadySnapshot {
  readonly snapshotId: SnapshotId;
  readonly vault: Vault;
  readonly template: string;
  readonly size: Size;
}

/** Run once before the ready snapshot is taken, so that what they read is in the guest's page cache in every copy. */
const WARM_UP = ['true', 'ls / >/dev/null', 'python3 -c "print(1)" >/dev/null'];

const FREEZE_TIMEOUT_MS = 20_000;

const NEVER = new AbortController().signal;

type ReadyKey = string;
type BuildStatus = TemplateStatus['ready'][number];

export class ReadySnapshots {
  readonly #machinery: LifeMachinery;
  readonly #templates: ReadonlyMap<string, TemplateSource>;
  readonly #ready = new Map<ReadyKey, { readonly vault: VaultName; readonly snapshotId: SnapshotId }>();
  readonly #builds = new Map<ReadyKey, Promise<SnapshotId>>();
  readonly #loads = new Map<VaultName, { readonly ended: Promise<void>; readonly stop: AbortController }>();
  readonly #status = new Map<string, Map<ReadyKey, BuildStatus>>();
  readonly #onReady: (ready: ReadySnapshot) => void;
  readonly #vmmBuilds = new Set<string>();
  #isUnsure = false;

  /** `onReady` is told of each that there is, once. */
  constructor(machinery: LifeMachinery, templates: readonly TemplateSource[], onReady: (ready: ReadySnapshot) => void) {
    this.#machinery = machinery;
    this.#onReady = onReady;
    this.#templates = new Map(templates.map((template) => [template.name, template]));
  }

  /**
   * Finds the ready snapshots that earlier runs left in the vault, and removes those that no longer fit this node or its
   * templates, and the images of such templates: nothing that started from them depends on them. What cannot be removed now
   * is met again at the next start.
   */
  async load(vault: Vault, signal = NEVER): Promise<void> {
    await this.#loadPoints(vault, signal);
    const digests = new Set([...this.#templates.values()].map(({ digest }) => digest));
    for (const digest of await vault.images()) {
      if (digests.has(digest) || signal.aborted) continue;
      await vault.deleteImage(digest).catch((thrown: unknown) => this.#stays(`the image ${digest}`, vault, thrown));
    }
  }

  /** The same, beside what the vault was opened for: there may be thousands of points. Who asks for a ready snapshot waits for it. */
  beginLoad(vault: Vault): void {
    const stop = new AbortController();
    const ended = this.load(vault, stop.signal).catch((thrown: unknown) => {
      this.#machinery.onWarning?.(
        `The ready snapshots in the vault ${vault.name} were not looked for: ${asAppError(thrown).message}`,
      );
    });
    this.#loads.set(vault.name, { ended, stop });
  }

  /** The vault is about to be closed. */
  async leave(name: VaultName): Promise<void> {
    const load = this.#loads.get(name);
    this.#loads.delete(name);
    load?.stop.abort();
    await load?.ended;
  }

  /** The builds of the VMM that points of what was loaded need; null: one could not be read, and may need any. */
  vmmBuilds(): ReadonlySet<string> | null {
    return this.#isUnsure ? null : this.#vmmBuilds;
  }

  async #loadPoints(vault: Vault, signal: AbortSignal): Promise<void> {
    for (const snapshotId of await vault.points()) {
      if (signal.aborted) return;
      const manifest = await vault.readManifest(snapshotId).catch((thrown: unknown) => {
        // What is bad can never be restored.
        if (asAppError(thrown).code !== 'snapshot_bad') this.#isUnsure = true;
        return null;
      });
      if (manifest === null) continue;
      if (manifest.owner.kind !== 'ready') {
        if (kindOf(manifest) === 'memory') this.#vmmBuilds.add(manifest.machine.vmmBuild);
        continue;
      }
      const template = this.#templates.get(manifest.owner.template);
      const fits =
        template?.digest === manifest.owner.imageDigest &&
        sameMachine(manifest.machine, this.#machinery.runtime.machine);
      const isWhole = fits && (await readsWhole(vault, snapshotId));
      if (isWhole === null) continue;
      if (template === undefined || !isWhole) {
        const what = `the ready snapshot ${snapshotId}`;
        await vault.deletePoint(snapshotId).catch((thrown: unknown) => this.#stays(what, vault, thrown));
        continue;
      }
      this.#isReady(vault, template, manifest.size, snapshotId);
    }
  }

  #stays(what: string, { name }: Vault, thrown: unknown): void {
    const { onWarning } = this.#machinery;
    onWarning?.(
      `In the vault ${name}, ${what} is not needed any more and could not be removed: ${asAppError(thrown).message}`,
    );
  }

  /** The vault is closed. */
  unload(name: VaultName): void {
    for (const [key, { vault }] of this.#ready) if (vault === name) this.#ready.delete(key);
    for (const statuses of this.#status.values()) {
      for (const [key, { vault }] of statuses) if (vault === name) statuses.delete(key);
    }
  }

  status(): readonly TemplateStatus[] {
    return [...this.#templates.keys()].map((name) => ({ name, ready: [...(this.#status.get(name)?.values() ?? [])] }));
  }

  /** Of an open vault, which is held so until this ends. A build is given up when its signal aborts. */
  async ensure(
    { vault, signal }: Pick<VaultUse, 'vault' | 'signal'>,
    templateName: string,
    size: Size,
  ): Promise<SnapshotId> {
    await this.#loads.get(vault.name)?.ended;
    const template = this.#templates.get(templateName);
    if (template === undefined) {
      const known = [...this.#templates.keys()].join(', ');
      throw new AppError('template_unknown', `There is no template "${templateName}". There are: ${known}.`);
    }
    const key = this.#key(vault, template, size);
    const ready = this.#ready.get(key);
    if (ready !== undefined) return ready.snapshotId;
    let build = this.#builds.get(key);
    if (build === undefined) {
      build = this.#build(vault, template, size, { key, signal }).finally(() => this.#builds.delete(key));
      this.#builds.set(key, build);
    }
    return build;
  }

  async #build(
    vault: Vault,
    template: TemplateSource,
    size: Size,
    { key, signal }: { readonly key: ReadyKey; readonly signal: AbortSignal },
  ): Promise<SnapshotId> {
    const report = (step: string, progress: number) => {
      signal.throwIfAborted();
      this.#report(template, key, { vault: vault.name, size, step, progress });
    };
    try {
      report('importing the image', 0.05);
      await vault.importImage(template.digest, template.diskPath);
      report('booting', 0.2);
      const snapshotId = await this.#bootAndCapture(vault, template, size, report);
      this.#isReady(vault, template, size, snapshotId);
      return snapshotId;
    } catch (error) {
      this.#status.get(template.name)?.delete(key);
      throw error;
    }
  }

  async #bootAndCapture(
    vault: Vault,
    template: TemplateSource,
    size: Size,
    report: (step: string, progress: number) => void,
  ): Promise<SnapshotId> {
    const machinery = this.#machinery;
    const prepared = await prepareLife(machinery, {
      vault,
      size,
      from: {
        kind: 'image',
        digest: template.digest,
        diskBytes: size.diskMib * 2 ** 20,
        memoryBytes: size.memoryMib * 2 ** 20,
      },
      identity: { sandboxId: nobody(machinery.chance), generation: 0 },
      check: () => undefined,
    }).catch((error: unknown) => {
      const cause = asAppError(error);
      throw cause.code === 'insufficient_memory' || cause.code === 'insufficient_space'
        ? cause
        : new AppError('boot_failed', `Template "${template.name}" did not boot: ${cause.message}`, { cause });
    });
    machinery.unready.add(prepared.life);
    try {
      await prepared.thaw();
      report('warming up', 0.7);
      await runInTurn(await prepared.life.guest(), WARM_UP, machinery);
      report('taking the ready snapshot', 0.9);
      const snapshotId = newId('snapshot', machinery.chance);
      await capture(prepared.life, {
        snapshotId,
        owner: { kind: 'ready', template: template.name, imageDigest: template.digest },
        parent: null,
        size,
        clock: machinery.clock,
        tracer: machinery.tracer,
        spares: machinery.spares,
        freezeTimeoutMs: FREEZE_TIMEOUT_MS,
        check: () => undefined,
      });
      return snapshotId;
    } finally {
      machinery.unready.delete(prepared.life);
      await endLife(machinery, prepared.life, 'the ready snapshot is taken');
    }
  }

  #isReady(vault: Vault, template: TemplateSource, size: Size, snapshotId: SnapshotId): void {
    const key = this.#key(vault, template, size);
    this.#ready.set(key, { vault: vault.name, snapshotId });
    this.#report(template, key, { vault: vault.name, size, step: 'ready', progress: 1 });
    this.#onReady({ snapshotId, vault, template: template.name, size });
  }

  #key(vault: Vault, template: TemplateSource, size: Size): ReadyKey {
    return `${vault.name}/${template.digest}/${sizeKey(size)}`;
  }

  #report(template: TemplateSource, key: ReadyKey, status: Omit<BuildStatus, 'state'>): void {
    let statuses = this.#status.get(template.name);
    if (statuses === undefined) {
      statuses = new Map();
      this.#status.set(template.name, statuses);
    }
    statuses.set(key, { ...status, state: status.progress === 1 ? 'ready' : 'building' });
  }
}

function sameMachine(a: MachineFacts, b: MachineFacts): boolean {
  return (Object.keys(a) as (keyof MachineFacts)[]).every((key) => a[key] === b[key]);
}

/** Null: that cannot be told now. */
function readsWhole(vault: Vault, snapshotId: SnapshotId): Promise<boolean | null> {
  return vault.readPoint(snapshotId).then(
    () => true,
    (thrown: unknown) => (asAppError(thrown).code === 'snapshot_bad' ? false : null),
  );
}
