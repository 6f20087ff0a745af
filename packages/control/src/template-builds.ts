/**
 * Builds of templates: from a recipe to a point that sandboxes start from.
 *
 * - What a layer has made is kept as a named point of the platform's own, found again by the layer's key. A build begins after the
 *   last layer that is kept, and where the last of all is, it needs no sandbox.
 * - Two builds run at a time, the others wait in line. A build that its process leaves behind is recorded as failed by the next
 *   process: started again, it goes on after the layers that it has kept.
 * - What fails, ends or is cancelled leaves no sandbox; points that neither a layer nor a build names any more are removed.
 */
import {
  AppError,
  asAppError,
  type BuildId,
  type BuildState,
  checkSize,
  FIRST_STATE,
  type ImageSource,
  imageKey,
  type Layer,
  layersOf,
  type ProjectId,
  type Recipe,
  type Size,
  type SnapshotId,
  type TemplateId,
  type VaultName,
} from '@space/core';
import { BuildLog } from './build-log.ts';
import { type BuildPlace, BuildSandbox, StepError } from './build-sandbox.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import { checkSameSize, findReadyBuild, isInstalled, unknownTemplate } from './ready-builds.ts';
import type { RecordedSnapshot } from './records.ts';
import { removePoint } from './remove-point.ts';
import type { BuildFailure, RecordedBuild } from './template-records.ts';
import { pinned } from './timeline.ts';
import { eachInTurn, Slots } from './turns.ts';

const PARALLEL_BUILDS = 2;
const BUILD_TIMEOUT_MS = 2 * 60 * 60 * 1000;
/** Until it is started. */
const WAITS_MS = 60 * 60 * 1000;
const LAYERS_OF_PROJECT = 200;
const LAYER_UNUSED_MS = 30 * 24 * 60 * 60 * 1000;
const FILE_UNUSED_MS = 24 * 60 * 60 * 1000;
/** A point that nothing names yet may be about to be named. */
const STRAY_AFTER_MS = 10 * 60 * 1000;
/** The template of the installation that has what opens images. */
const IMAGE_MAKER = 'base';
/** Of a template, beside those that have a tag. */
const UNTAGGED_BUILDS = 10;

/** What a build starts from. */
interface Base {
  readonly key: string;
  readonly state: BuildState;
  readonly place: Omit<BuildPlace, 'network' | 'projectId'>;
  /** Kept from removal until it is let go. */
  readonly pinnedId: SnapshotId | null;
}

interface Built {
  readonly snapshotId: SnapshotId;
  readonly state: BuildState;
  readonly size: Size;
  readonly cachedSteps: number;
}

class FailedStep extends Error {
  override readonly name = 'FailedStep';
  readonly failure: BuildFailure;

  constructor(failure: BuildFailure, cause: unknown) {
    super(failure.message, { cause });
    this.failure = failure;
  }
}

export class TemplateBuilds {
  readonly #machinery: Machinery;
  readonly #slots = new Slots(PARALLEL_BUILDS);
  readonly #running = new Map<BuildId, { readonly templateId: TemplateId; readonly stop: AbortController }>();
  readonly #busy = new Map<BuildId, Promise<void>>();
  #closed = false;

  constructor(machinery: Machinery) {
    this.#machinery = machinery;
  }

  /** A build that was started in the records; it goes on by itself. */
  begin(build: RecordedBuild): void {
    const stop = new AbortController();
    this.#running.set(build.id, { templateId: build.templateId, stop });
    const limit = AbortSignal.timeout(BUILD_TIMEOUT_MS);
    const signal = AbortSignal.any([stop.signal, limit]);
    const busy = this.#slots
      .take(() => this.#build(build, signal))
      .catch((err: unknown) => this.#machinery.ports.logger.error({ buildId: build.id, err }, 'a build was left'))
      .finally(() => {
        this.#running.delete(build.id);
        this.#busy.delete(build.id);
      });
    this.#busy.set(build.id, busy);
  }

  /** What is being built of the template ends, and has ended when this settles. */
  async cancel(templateId: TemplateId): Promise<void> {
    const own = [...this.#running].filter(([, one]) => one.templateId === templateId);
    for (const [, { stop }] of own) stop.abort(new StepError('The template was deleted.'));
    await Promise.all(own.map(([id]) => this.#busy.get(id)));
  }

  /** What other processes have left, and what is kept for nobody. */
  async round(): Promise<void> {
    if (this.#closed) return;
    const { records, clock } = this.#machinery.ports;
    const before = (ms: number) => new Date(clock.now() - ms);
    await eachInTurn([
      () => this.#endOrphans(),
      () => this.#removeSandboxes(),
      () => records.templates.dropFiles(before(FILE_UNUSED_MS)),
      () => records.templates.dropLayers(LAYERS_OF_PROJECT, before(LAYER_UNUSED_MS)),
      () => this.removeStrays(before(STRAY_AFTER_MS)),
    ]);
  }

  /** Points that neither a layer nor a build names. */
  async removeStrays(before: Date): Promise<void> {
    const { ports, driver, pins } = this.#machinery;
    for (const id of await ports.records.templates.strayPoints(before)) {
      const point = await ports.records.findSnapshot(id);
      if (point === null) continue;
      await driver.exclusively(point.sandboxId, async () => {
        if (!pins.has(id)) await removePoint(ports, point);
      });
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { stop } of this.#running.values()) stop.abort(new StepError('The platform was stopped.'));
    await Promise.all(this.#busy.values());
  }

  /** Builds of which no process of ours knows. */
  async #endOrphans(): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    for (const build of await records.templates.unfinished()) {
      if (this.#running.has(build.id)) continue;
      const isLate = build.createdAt.getTime() < clock.now() - WAITS_MS;
      if (build.status === 'waiting' && !isLate) continue;
      const message =
        build.status === 'waiting'
          ? 'It was not started in time.'
          : 'The platform was stopped while it was built. Build it again: what is done is kept.';
      await this.#fail(build, { step: 'base', message }, 0);
    }
  }

  async #removeSandboxes(): Promise<void> {
    const { ports, driver, effects } = this.#machinery;
    const used = new Set([...this.#running.keys()].map((id) => `.build-${id.slice(4)}`));
    for (const id of await ports.records.templates.buildSandboxes()) {
      const sandbox = await ports.records.findSandbox(id);
      if (sandbox?.name == null || used.has(sandbox.name)) continue;
      await driver
        .perform(id, 'delete', effects.delete())
        .catch((err: unknown) =>
          ports.logger.warn({ sandboxId: id, err }, 'the sandbox of a build is not deleted yet'),
        );
    }
  }

  async #build(build: RecordedBuild, signal: AbortSignal): Promise<void> {
    const { records, clock, logger } = this.#machinery.ports;
    const log = new BuildLog(build.id, { records: records.templates, clock });
    try {
      if (build.recipe === null) throw new Error('a build that begins has a recipe');
      signal.throwIfAborted();
      const built = await this.#make(build, build.recipe, { signal, log });
      log.say('info', 'The template is ready.');
      await log.flush();
      const end = { status: 'ready', failure: null, ...built, at: new Date(clock.now()) } as const;
      await records.templates.endBuild(build.id, end);
      await this.#dropOldBuilds(build.templateId);
    } catch (thrown) {
      const failure = failureOf(thrown, signal);
      if (!(thrown instanceof FailedStep) && !signal.aborted) {
        logger.warn({ buildId: build.id, err: thrown }, 'a build failed');
      }
      log.say('error', failure.message, failure.step);
      await log.flush();
      await this.#fail(build, failure, 0);
    }
  }

  async #fail({ id }: RecordedBuild, failure: BuildFailure, cachedSteps: number): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const nothing = { snapshotId: null, state: null, size: null, cachedSteps };
    await records.templates.endBuild(id, { status: 'failed', failure, ...nothing, at: new Date(clock.now()) });
  }

  async #make(build: RecordedBuild, recipe: Recipe, use: BuildUse): Promise<Built> {
    const base = await this.#base(build, recipe, use).catch((thrown: unknown) => {
      if (use.signal.aborted) throw thrown;
      const message = thrown instanceof StepError ? thrown.message : asAppError(thrown).message;
      throw new FailedStep({ step: 'base', message }, thrown);
    });
    try {
      return await this.#makeFrom(base, build, recipe, use);
    } finally {
      if (base.pinnedId !== null) this.#machinery.pins.unpin(base.pinnedId);
    }
  }

  async #makeFrom(base: Base, build: RecordedBuild, recipe: Recipe, use: BuildUse): Promise<Built> {
    const { records, clock } = this.#machinery.ports;
    const layers = layersOf(recipe, base);
    const last = layers.at(-1);
    if (last === undefined) throw new Error('a recipe has a last layer');
    const { kept, point } = await this.#kept(build.projectId, layers);
    const { state } = last;
    const { size } = base.place;
    const keys = layers.slice(0, kept).map(({ key }) => key);
    await records.templates.useLayers(build.projectId, keys, new Date(clock.now()));
    for (const { step, number } of layers.slice(0, kept)) use.log.say('info', `CACHED ${titleOf(step)}`, `${number}`);
    try {
      if (point !== null && kept === layers.length) {
        return { snapshotId: point.id, state, size, cachedSteps: kept };
      }
      const place = { ...base.place, from: point ?? base.place.from, projectId: build.projectId };
      const snapshotId = await this.#runLayers({ ...place, network: recipe.network }, build, layers.slice(kept), use);
      return { snapshotId, state, size, cachedSteps: kept };
    } finally {
      if (point !== null) this.#machinery.pins.unpin(point.id);
    }
  }

  /** How many of the first layers are kept, and the point, pinned, that holds them. */
  async #kept(projectId: ProjectId, layers: readonly Layer[]) {
    const { records } = this.#machinery.ports;
    let kept = 0;
    let point: RecordedSnapshot | null = null;
    for (const { key, isForced } of layers) {
      if (isForced) break;
      const layer = await records.templates.findLayer(projectId, key);
      const found = layer === null ? null : await this.#pin(layer.snapshotId);
      if (found === null) break;
      if (point !== null) this.#machinery.pins.unpin(point.id);
      point = found;
      kept++;
    }
    return { kept, point };
  }

  /** Null: it is not there any more, or is damaged. */
  async #pin(id: SnapshotId): Promise<RecordedSnapshot | null> {
    const { ports, pins } = this.#machinery;
    try {
      return await pinned(pins, async () => {
        const found = await ports.records.findSnapshot(id);
        if (found === null || found.state === 'taking')
          throw new AppError('not_found', `There is no snapshot "${id}".`);
        return found;
      });
    } catch (thrown) {
      const { code } = asAppError(thrown);
      if (code === 'not_found' || code === 'snapshot_bad') return null;
      throw thrown;
    }
  }

  async #runLayers(
    place: BuildPlace,
    build: RecordedBuild,
    layers: readonly Layer[],
    use: BuildUse,
  ): Promise<SnapshotId> {
    const { records, clock } = this.#machinery.ports;
    const sandbox = await BuildSandbox.start(this.#machinery, build.id, place, use).catch((thrown: unknown) => {
      throw new FailedStep({ step: 'base', message: asAppError(thrown).message }, thrown);
    });
    try {
      let snapshotId: SnapshotId | null = null;
      for (const layer of layers) {
        const { step, number, key } = layer;
        const name = step.type === 'finish' ? 'finalize' : `${number}`;
        use.log.say('info', titleOf(step), name);
        try {
          await this.#runLayer(sandbox, build.projectId, layer, name);
          snapshotId = await sandbox.keep();
        } catch (thrown) {
          if (use.signal.aborted) throw thrown;
          const message = thrown instanceof StepError ? thrown.message : asAppError(thrown).message;
          throw new FailedStep({ step: name, message }, thrown);
        }
        const { projectId, templateId } = build;
        await records.templates.putLayer({
          projectId,
          key,
          templateId,
          snapshotId,
          state: null,
          usedAt: new Date(clock.now()),
        });
      }
      if (snapshotId === null) throw new Error('a build that runs has layers');
      return snapshotId;
    } finally {
      await this.#remove(sandbox, build);
    }
  }

  async #runLayer(sandbox: BuildSandbox, projectId: ProjectId, { step, state }: Layer, name: string): Promise<void> {
    switch (step.type) {
      case 'run':
        return sandbox.run(step.command, { ...state, user: step.user ?? state.user }, name);
      case 'copy': {
        const { from, to, mode = '', user = state.user } = step;
        return sandbox.copy(await this.#bytesOf(projectId, step.files), { from, to, mode, user }, state, name);
      }
      case 'finish':
        return sandbox.finish(step, state);
    }
  }

  async #bytesOf(projectId: ProjectId, hash: string): Promise<AsyncIterable<Uint8Array>> {
    const { records, clock } = this.#machinery.ports;
    const file = await records.templates.findFile(projectId, hash);
    if (file === null) throw new StepError(`the files '${hash}' are not there: upload them, and build again`);
    await records.templates.useFile(projectId, hash, new Date(clock.now()));
    return partsOf((number) => records.templates.readPart(file.upload, number));
  }

  async #base(build: RecordedBuild, recipe: Recipe, use: BuildUse): Promise<Base> {
    const { from } = recipe;
    if (typeof from !== 'string') return this.#imageBase(build, { ...recipe, from }, use);
    if (await isInstalled(this.#machinery.ports.node, from)) return this.#installedBase(build, from);
    const base = await findReadyBuild(this.#machinery.ports.records, build.projectId, from);
    const point = base.snapshotId === null ? null : await this.#pin(base.snapshotId);
    if (point === null) throw unknownTemplate(from);
    try {
      checkSameSize(from, point.size, build.askedSize ?? {});
    } catch (thrown) {
      this.#machinery.pins.unpin(point.id);
      throw thrown;
    }
    const { template, size, vault } = point;
    const place = { template, size, vault, from: point };
    return { key: `build ${base.id}`, state: base.state ?? FIRST_STATE, place, pinnedId: point.id };
  }

  async #installedBase(build: RecordedBuild, from: string): Promise<Base> {
    const { node } = this.#machinery.ports;
    const size = checkSize(build.askedSize ?? {}, (await node.capabilities()).limits);
    const template = from.split(':', 1)[0] ?? from;
    const vault = await this.#vaultOf(build.projectId);
    const ready = await node.ensureReady(vault, template, size);
    return { key: `ready ${ready}`, state: FIRST_STATE, place: { template, size, vault, from: null }, pinnedId: null };
  }

  /** Made in the installation's own template, whose disk then holds the image; kept as a layer. */
  async #imageBase(build: RecordedBuild, recipe: ImageRecipe, use: BuildUse): Promise<Base> {
    const { records, clock } = this.#machinery.ports;
    const { projectId, templateId } = build;
    const maker = await this.#installedBase(build, IMAGE_MAKER);
    const key = imageKey(maker.key, recipe.from);
    const based = (point: RecordedSnapshot, state: BuildState): Base => {
      return { key, state, place: { ...maker.place, from: point }, pinnedId: point.id };
    };
    const layer = recipe.force === true ? null : await records.templates.findLayer(projectId, key);
    const kept = layer?.state == null ? null : await this.#pin(layer.snapshotId);
    if (kept !== null && layer?.state != null) {
      await records.templates.useLayers(projectId, [key], new Date(clock.now()));
      use.log.say('info', `CACHED ${imageTitle(recipe.from)}`, 'base');
      return based(kept, layer.state);
    }
    use.log.say('info', imageTitle(recipe.from), 'base');
    const { snapshotId, state } = await this.#makeImage(build, recipe, maker, use);
    await records.templates.putLayer({ projectId, key, templateId, snapshotId, state, usedAt: new Date(clock.now()) });
    const made = await this.#pin(snapshotId);
    if (made === null) throw new AppError('not_found', 'The image was removed while it was built from.');
    return based(made, state);
  }

  async #makeImage(build: RecordedBuild, { from, network }: ImageRecipe, maker: Base, use: BuildUse) {
    const { projectId } = build;
    const archive = await this.#bytesOf(projectId, from.archive);
    const sandbox = await BuildSandbox.start(this.#machinery, build.id, { ...maker.place, projectId, network }, use);
    try {
      const state = await sandbox.become(archive);
      return { state, snapshotId: await sandbox.keep() };
    } finally {
      await this.#remove(sandbox, build);
    }
  }

  async #remove(sandbox: BuildSandbox, { id }: RecordedBuild): Promise<void> {
    await sandbox
      .remove()
      .catch((err: unknown) =>
        this.#machinery.ports.logger.warn({ buildId: id, err }, 'the sandbox of a build is not deleted yet'),
      );
  }

  /** In which the sandboxes of the project are, too: what a template keeps is in one vault. */
  async #vaultOf(projectId: ProjectId): Promise<VaultName> {
    const { ports, vaults } = this.#machinery;
    const organisationId = await ports.records.tenants.organisationOf(projectId);
    if (organisationId === null) throw new AppError('not_found', 'The project is gone.');
    return vaults.of(organisationId);
  }

  /** Those that no tag names go, the oldest first. */
  async #dropOldBuilds(templateId: TemplateId): Promise<void> {
    const { templates } = this.#machinery.ports.records;
    const tagged = new Set((await templates.tagsOf(templateId)).map(({ buildId }) => buildId));
    const others = (await templates.buildsOf(templateId)).filter(
      ({ id, endedAt }) => endedAt !== null && !tagged.has(id),
    );
    for (const { id } of others.slice(UNTAGGED_BUILDS)) await templates.dropBuild(id);
  }
}

type ImageRecipe = Recipe & { readonly from: ImageSource };

interface BuildUse {
  readonly signal: AbortSignal;
  readonly log: BuildLog;
}

function failureOf(thrown: unknown, signal: AbortSignal): BuildFailure {
  if (thrown instanceof FailedStep) return thrown.failure;
  if (!signal.aborted) return { step: 'base', message: asAppError(thrown).message };
  const reason: unknown = signal.reason;
  const message =
    reason instanceof StepError ? reason.message : `It took more than ${BUILD_TIMEOUT_MS / 60_000} minutes.`;
  return { step: 'finalize', message };
}

function imageTitle({ archive }: ImageSource): string {
  return `FROM archive ${archive.slice(0, 12)}`;
}

function titleOf(step: Layer['step']): string {
  switch (step.type) {
    case 'run':
      return `RUN ${step.command}`;
    case 'copy':
      return `COPY ${step.from} ${step.to}`;
    case 'finish':
      return step.start === undefined ? 'FINISH' : `START ${step.start}`;
  }
}

async function* partsOf(read: (number: number) => Promise<Uint8Array | null>): AsyncGenerator<Uint8Array> {
  for (let number = 0; ; number++) {
    const bytes = await read(number);
    if (bytes === null) return;
    yield bytes;
  }
}
