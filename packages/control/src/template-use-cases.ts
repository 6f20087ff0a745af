/** The use-cases of templates that are built here. */
import type {
  BuiltTemplate,
  Caller,
  Input,
  TemplateBuild,
  TemplateBuildWithLog,
  TemplateFile,
  TemplateTags,
} from '@space/contract';
import { AppError, checkSize, DEFAULT_TAG, newId, type ProjectId, parseId, type Recipe } from '@space/core';
import type { GatedCaller } from './gated-caller.ts';
import type { Machinery } from './lifecycle-use-cases.ts';
import { findReadyBuild, isInstalled } from './ready-builds.ts';
import type { TemplateBuilds } from './template-builds.ts';
import type { RecordedBuild, RecordedTemplate } from './template-records.ts';

const MAX_TEMPLATES = 100;
const MAX_FILE_BYTES = 512 * 2 ** 20;
const MAX_PROJECT_BYTES = 2 * 2 ** 30;
const PART_BYTES = 1024 * 1024;
/** Of one project, so that it does not crowd out the others. */
const MAX_UNFINISHED = 20;

export class TemplateUseCases {
  readonly #machinery: Machinery;
  readonly #builds: TemplateBuilds;

  constructor(machinery: Machinery, builds: TemplateBuilds) {
    this.#machinery = machinery;
    this.#builds = builds;
  }

  async requestTemplateBuild(caller: GatedCaller, input: Input<'requestTemplateBuild'>): Promise<TemplateBuild> {
    const { records, node, clock, chance } = this.#machinery.ports;
    const { projectId } = caller;
    const { id: name, size = {}, tags } = input;
    if ((await node.templates()).some((template) => template.name === name)) {
      throw new AppError('name_taken', { detail: `The installation has a template "${name}".`, facts: { name } });
    }
    checkSize(size, (await node.capabilities()).limits);
    const at = new Date(clock.now());
    const unfinished = (await records.templates.unfinished()).filter((build) => build.projectId === projectId);
    if (unfinished.length >= MAX_UNFINISHED) {
      throw new AppError('limit_reached', `A project may have ${MAX_UNFINISHED} builds that have not ended.`);
    }
    const template = { id: newId('template', chance), projectId, name, createdAt: at, updatedAt: at };
    const build: RecordedBuild = {
      id: newId('build', chance),
      templateId: template.id,
      projectId,
      status: 'waiting',
      askedSize: size,
      size: null,
      tags: [...new Set(tags)],
      recipe: null,
      state: null,
      failure: null,
      snapshotId: null,
      cachedSteps: 0,
      askedBy: caller.principal.apiKeyId,
      createdAt: at,
      endedAt: null,
    };
    return viewBuild(await records.templates.request(template, build, MAX_TEMPLATES), name);
  }

  async startTemplateBuild(caller: GatedCaller, input: Input<'startTemplateBuild'>): Promise<TemplateBuild> {
    const { records } = this.#machinery.ports;
    const { id, ...recipe } = input;
    const { build, template } = await this.#find(caller, id);
    await this.#checkRecipe(caller.projectId, recipe);
    const started = await records.templates.startBuild(build.id, recipe);
    if (started === null) throw new AppError('wrong_state', `The build is ${build.status} already.`);
    this.#builds.begin(started);
    return viewBuild(started, template.name);
  }

  async getTemplateBuild(caller: Caller, input: Input<'getTemplateBuild'>): Promise<TemplateBuildWithLog> {
    const { build, template } = await this.#find(caller, input.id);
    const log = await this.#machinery.ports.records.templates.readLog(build.id, input.offset, input.limit);
    return {
      ...viewBuild(build, template.name),
      log: log.map(({ at, ...rest }) => ({ at: at.toISOString(), ...rest })),
    };
  }

  async getTemplate(caller: Caller, input: Input<'getTemplate'>): Promise<BuiltTemplate> {
    return this.#view(await this.#findTemplate(caller, input.id));
  }

  /** Those of the project. */
  async list({ projectId }: Caller): Promise<BuiltTemplate[]> {
    const all = await this.#machinery.ports.records.templates.listTemplates(projectId);
    return Promise.all(all.map((template) => this.#view(template)));
  }

  async deleteTemplate(caller: Caller, input: Input<'deleteTemplate'>): Promise<void> {
    const { records, clock } = this.#machinery.ports;
    const template = await this.#findTemplate(caller, input.id);
    await this.#builds.cancel(template.id);
    await records.templates.deleteTemplate(template.id);
    await this.#builds.cancel(template.id);
    await this.#builds.removeStrays(new Date(clock.now()));
  }

  async tagTemplate(caller: Caller, input: Input<'tagTemplate'>): Promise<TemplateTags> {
    const { records, clock } = this.#machinery.ports;
    const template = await this.#findTemplate(caller, input.id);
    const byId = parseId('build', input.build);
    const build =
      byId === undefined
        ? await findReadyBuild(this.#machinery.ports.records, caller.projectId, `${template.id}:${input.build}`)
        : await records.templates.findBuild(byId);
    if (build === null || build.templateId !== template.id) {
      throw new AppError('not_found', `The template "${template.name}" has no build "${input.build}".`);
    }
    if (build.status !== 'ready') throw new AppError('wrong_state', `The build is ${build.status}.`);
    const tags = [...new Set(input.tags)];
    await records.templates.setTags(template.id, build.id, tags, new Date(clock.now()));
    return { buildId: build.id, tags };
  }

  async untagTemplate(caller: Caller, input: Input<'untagTemplate'>): Promise<void> {
    const template = await this.#findTemplate(caller, input.id);
    if (await this.#machinery.ports.records.templates.dropTag(template.id, input.tag)) return;
    throw new AppError('not_found', `tag '${input.tag}' does not exist for template '${template.name}'`);
  }

  async getTemplateFile({ projectId }: Caller, { hash }: Input<'getTemplateFile'>): Promise<TemplateFile> {
    const { records, clock } = this.#machinery.ports;
    const file = await records.templates.findFile(projectId, hash);
    // Whoever asks means to build with it.
    if (file !== null) await records.templates.useFile(projectId, hash, new Date(clock.now()));
    return { present: file !== null, sizeBytes: file?.sizeBytes ?? null };
  }

  async putTemplateFile(
    { projectId }: Caller,
    { hash }: Input<'putTemplateFile'>,
    body: AsyncIterable<Uint8Array>,
  ): Promise<TemplateFile> {
    const { records, clock, chance } = this.#machinery.ports;
    const upload = Buffer.from(chance.bytes(16)).toString('hex');
    try {
      const sizeBytes = await this.#bring(upload, body);
      const file = { projectId, hash, sizeBytes, upload };
      await records.templates.publishFile(file, new Date(clock.now()), MAX_PROJECT_BYTES);
      return { present: true, sizeBytes };
    } catch (thrown) {
      // What is not dropped now goes with what is old.
      await records.templates.dropUpload(upload).catch(() => undefined);
      throw thrown;
    }
  }

  async #bring(upload: string, body: AsyncIterable<Uint8Array>): Promise<number> {
    const { records, clock } = this.#machinery.ports;
    let [sizeBytes, number] = [0, 0];
    for await (const part of inParts(body)) {
      sizeBytes += part.length;
      if (sizeBytes > MAX_FILE_BYTES) {
        const detail = `An archive can have ${MAX_FILE_BYTES} bytes.`;
        throw new AppError('payload_too_large', { detail, facts: { maxBytes: MAX_FILE_BYTES } });
      }
      await records.templates.addPart(upload, number++, part, new Date(clock.now()));
    }
    return sizeBytes;
  }

  /** What can be known before it begins. */
  async #checkRecipe(projectId: ProjectId, recipe: Recipe): Promise<void> {
    const { ports, network } = this.#machinery;
    if (recipe.network !== undefined) await network.check(projectId, recipe.network);
    const { from } = recipe;
    if (typeof from !== 'string') {
      if ((await ports.records.templates.findFile(projectId, from.archive)) === null) {
        throw new AppError('not_found', `The archive "${from.archive}" is not there: upload it first.`);
      }
    } else if (!(await isInstalled(ports.node, from))) {
      await findReadyBuild(ports.records, projectId, from);
    }
  }

  async #find({ projectId }: Caller, id: RecordedBuild['id']) {
    const { templates } = this.#machinery.ports.records;
    const build = await templates.findBuild(id);
    const template = build === null ? null : await templates.findTemplate(projectId, build.templateId);
    if (build === null || template === null || build.projectId !== projectId) {
      throw new AppError('not_found', `There is no build "${id}".`);
    }
    return { build, template };
  }

  async #findTemplate({ projectId }: Caller, reference: string): Promise<RecordedTemplate> {
    const found = await this.#machinery.ports.records.templates.findTemplate(projectId, reference);
    if (found !== null) return found;
    throw new AppError('not_found', `template '${reference}' not found`);
  }

  async #view(template: RecordedTemplate): Promise<BuiltTemplate> {
    const { templates } = this.#machinery.ports.records;
    const [builds, tags] = [await templates.buildsOf(template.id), await templates.tagsOf(template.id)];
    const first = tags.find(({ tag }) => tag === DEFAULT_TAG)?.buildId;
    const shown = builds.find(({ id }) => id === first) ?? builds.find(({ size }) => size !== null);
    return {
      id: template.id,
      name: template.name,
      size: shown?.size ?? null,
      tags: tags.map(({ tag, buildId, createdAt }) => ({ tag, buildId, createdAt: createdAt.toISOString() })),
      builds: builds.map((build) => viewBuild(build, template.name)),
      createdAt: template.createdAt.toISOString(),
      updatedAt: template.updatedAt.toISOString(),
    };
  }
}

function viewBuild(build: RecordedBuild, template: string): TemplateBuild {
  const { id, templateId, status, size, tags, failure, snapshotId, cachedSteps, createdAt, endedAt } = build;
  return {
    id,
    templateId,
    template,
    status,
    size,
    tags: [...tags],
    failure,
    snapshotId,
    cachedSteps,
    createdAt: createdAt.toISOString(),
    endedAt: endedAt?.toISOString() ?? null,
  };
}

/** The bytes in pieces of one size, but for the last; at least one. */
async function* inParts(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let [waiting, bytes]: [Uint8Array[], number] = [[], 0];
  let given = 0;
  for await (const piece of body) {
    let rest = piece;
    while (bytes + rest.length >= PART_BYTES) {
      const room = PART_BYTES - bytes;
      yield Buffer.concat([...waiting, rest.subarray(0, room)]);
      given++;
      rest = rest.subarray(room);
      [waiting, bytes] = [[], 0];
    }
    // A copy: the reader may use its memory again.
    waiting.push(Uint8Array.from(rest));
    bytes += rest.length;
  }
  if (bytes > 0 || given === 0) yield Buffer.concat(waiting);
}
