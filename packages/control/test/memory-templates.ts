/** Templates in memory, for tests. */
import { AppError, type BuildId, isPlatformsOwn, type ProjectId, type SnapshotId, type TemplateId } from '@space/core';
import type { RecordedSandbox, RecordedSnapshot } from '../src/records.ts';
import type {
  BuildEnd,
  LogEntry,
  RecordedBuild,
  RecordedLayer,
  RecordedTag,
  RecordedTemplate,
  StoredFile,
  TemplateRecords,
} from '../src/template-records.ts';

interface Around {
  readonly turn: () => Promise<void>;
  readonly snapshots: () => Iterable<RecordedSnapshot>;
  readonly sandboxes: () => Iterable<RecordedSandbox>;
}

export class MemoryTemplates implements TemplateRecords {
  readonly #around: Around;
  readonly #templates = new Map<TemplateId, RecordedTemplate>();
  readonly #builds = new Map<BuildId, RecordedBuild>();
  readonly #logs = new Map<BuildId, LogEntry[]>();
  #tags: readonly RecordedTag[] = [];
  #layers: readonly RecordedLayer[] = [];
  #files: readonly (StoredFile & { readonly usedAt: Date })[] = [];
  #parts: readonly { readonly upload: string; readonly number: number; readonly bytes: Uint8Array; at: Date }[] = [];

  constructor(around: Around) {
    this.#around = around;
  }

  async request(template: RecordedTemplate, build: RecordedBuild, maxTemplates: number) {
    await this.#around.turn();
    const own = this.#ofProject(template.projectId);
    const known = own.find(({ name }) => name === template.name);
    if (known === undefined && own.length >= maxTemplates) throw tooMany(maxTemplates);
    const owner = { ...(known ?? template), updatedAt: build.createdAt };
    this.#templates.set(owner.id, owner);
    const added = { ...build, templateId: owner.id };
    this.#builds.set(build.id, added);
    return added;
  }

  async findTemplate(projectId: ProjectId, reference: string) {
    await this.#around.turn();
    return this.#ofProject(projectId).find(({ id, name }) => id === reference || name === reference) ?? null;
  }

  async listTemplates(projectId: ProjectId) {
    await this.#around.turn();
    return this.#ofProject(projectId).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  async deleteTemplate(id: TemplateId) {
    await this.#around.turn();
    this.#templates.delete(id);
    for (const build of this.#builds.values()) if (build.templateId === id) this.#drop(build.id);
    this.#tags = this.#tags.filter(({ templateId }) => templateId !== id);
    this.#layers = this.#layers.filter(({ templateId }) => templateId !== id);
  }

  async findBuild(id: BuildId) {
    await this.#around.turn();
    return this.#builds.get(id) ?? null;
  }

  async buildsOf(templateId: TemplateId) {
    await this.#around.turn();
    const own = [...this.#builds.values()].filter((build) => build.templateId === templateId);
    return own.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1));
  }

  async unfinished() {
    await this.#around.turn();
    return [...this.#builds.values()].filter(({ status }) => status === 'waiting' || status === 'building');
  }

  async startBuild(id: BuildId, recipe: NonNullable<RecordedBuild['recipe']>) {
    await this.#around.turn();
    const build = this.#builds.get(id);
    if (build?.status !== 'waiting') return null;
    const started = { ...build, status: 'building', recipe } as const;
    this.#builds.set(id, started);
    return started;
  }

  async endBuild(id: BuildId, { at, ...end }: BuildEnd) {
    await this.#around.turn();
    const build = this.#builds.get(id);
    if (build === undefined || build.endedAt !== null) return null;
    const ended = { ...build, ...end, endedAt: at };
    this.#builds.set(id, ended);
    if (end.status === 'ready') this.#tag(build.templateId, id, build.tags, at);
    return ended;
  }

  async dropBuild(id: BuildId) {
    await this.#around.turn();
    if (!this.#tags.some(({ buildId }) => buildId === id)) this.#drop(id);
  }

  async appendLog(id: BuildId, entries: readonly LogEntry[]) {
    await this.#around.turn();
    if (this.#builds.has(id)) this.#logs.set(id, [...(this.#logs.get(id) ?? []), ...entries]);
  }

  async readLog(id: BuildId, offset: number, limit: number) {
    await this.#around.turn();
    return (this.#logs.get(id) ?? []).slice(offset, offset + limit);
  }

  async tagsOf(templateId: TemplateId) {
    await this.#around.turn();
    const own = this.#tags.filter((one) => one.templateId === templateId);
    return own.toSorted((a, b) => (a.tag < b.tag ? -1 : 1));
  }

  async setTags(templateId: TemplateId, buildId: BuildId, tags: readonly string[], at: Date) {
    await this.#around.turn();
    this.#tag(templateId, buildId, tags, at);
  }

  async dropTag(templateId: TemplateId, tag: string) {
    await this.#around.turn();
    const before = this.#tags.length;
    this.#tags = this.#tags.filter((one) => one.templateId !== templateId || one.tag !== tag);
    return this.#tags.length < before;
  }

  async findLayer(projectId: ProjectId, key: string) {
    await this.#around.turn();
    return this.#layers.find((layer) => layer.projectId === projectId && layer.key === key) ?? null;
  }

  async putLayer(layer: RecordedLayer) {
    await this.#around.turn();
    if (!this.#templates.has(layer.templateId)) return;
    const others = this.#layers.filter(({ projectId, key }) => projectId !== layer.projectId || key !== layer.key);
    this.#layers = [...others, layer];
  }

  async useLayers(projectId: ProjectId, keys: readonly string[], usedAt: Date) {
    await this.#around.turn();
    const isUsed = (layer: RecordedLayer) => layer.projectId === projectId && keys.includes(layer.key);
    this.#layers = this.#layers.map((layer) => (isUsed(layer) ? { ...layer, usedAt } : layer));
  }

  async dropLayers(keep: number, unusedSince: Date) {
    await this.#around.turn();
    const newest = this.#layers.toSorted((a, b) => b.usedAt.getTime() - a.usedAt.getTime() || (a.key < b.key ? -1 : 1));
    const groups = Map.groupBy(newest, ({ projectId }) => projectId);
    const kept = [...groups.values()].flatMap((own) => own.slice(0, keep));
    this.#layers = kept.filter(({ usedAt }) => usedAt >= unusedSince);
  }

  async strayPoints(before: Date) {
    await this.#around.turn();
    const named = new Set<SnapshotId | null>([...this.#layers, ...this.#builds.values()].map((one) => one.snapshotId));
    return [...this.#around.snapshots()]
      .filter(({ id, name, takenAt }) => isPlatformsOwn(name) && takenAt < before && !named.has(id))
      .map(({ id }) => id);
  }

  async buildSandboxes() {
    await this.#around.turn();
    return [...this.#around.sandboxes()]
      .filter(({ settled, name }) => settled !== 'deleted' && isPlatformsOwn(name))
      .map(({ id }) => id);
  }

  async findFile(projectId: ProjectId, hash: string) {
    await this.#around.turn();
    const found = this.#files.find((file) => file.projectId === projectId && file.hash === hash);
    if (found === undefined) return null;
    const { usedAt: _, ...file } = found;
    return file;
  }

  async addPart(upload: string, number: number, bytes: Uint8Array, at: Date) {
    await this.#around.turn();
    this.#parts = [...this.#parts, { upload, number, bytes: Uint8Array.from(bytes), at }];
  }

  async publishFile(file: StoredFile, usedAt: Date, maxTotalBytes: number) {
    await this.#around.turn();
    const others = this.#files.filter(({ projectId, hash }) => projectId !== file.projectId || hash !== file.hash);
    const own = others.filter(({ projectId }) => projectId === file.projectId);
    const total = own.reduce((sum, { sizeBytes }) => sum + sizeBytes, file.sizeBytes);
    if (total > maxTotalBytes) throw tooLarge(maxTotalBytes);
    this.#files = [...others, { ...file, usedAt }];
    this.#dropLoose(new Date(0));
  }

  async dropUpload(upload: string) {
    await this.#around.turn();
    this.#parts = this.#parts.filter((part) => part.upload !== upload);
  }

  async useFile(projectId: ProjectId, hash: string, usedAt: Date) {
    await this.#around.turn();
    const isUsed = (file: StoredFile) => file.projectId === projectId && file.hash === hash;
    this.#files = this.#files.map((file) => (isUsed(file) ? { ...file, usedAt } : file));
  }

  async readPart(upload: string, number: number) {
    await this.#around.turn();
    return this.#parts.find((part) => part.upload === upload && part.number === number)?.bytes ?? null;
  }

  async dropFiles(unusedSince: Date) {
    await this.#around.turn();
    this.#files = this.#files.filter(({ usedAt }) => usedAt >= unusedSince);
    this.#dropLoose(unusedSince);
  }

  #dropLoose(before: Date): void {
    const uploads = new Set(this.#files.map(({ upload }) => upload));
    this.#parts = this.#parts.filter(({ upload, at }) => uploads.has(upload) || at >= before);
  }

  #ofProject(projectId: ProjectId): RecordedTemplate[] {
    return [...this.#templates.values()].filter((template) => template.projectId === projectId);
  }

  #tag(templateId: TemplateId, buildId: BuildId, tags: readonly string[], createdAt: Date): void {
    const others = this.#tags.filter((one) => one.templateId !== templateId || !tags.includes(one.tag));
    this.#tags = [...others, ...tags.map((tag) => ({ templateId, tag, buildId, createdAt }))];
  }

  #drop(id: BuildId): void {
    this.#builds.delete(id);
    this.#logs.delete(id);
  }
}

function tooMany(max: number): AppError {
  return new AppError('limit_reached', { detail: `A project may have ${max} templates.`, facts: { max } });
}

function tooLarge(max: number): AppError {
  return new AppError('limit_reached', { detail: `Archives of a project may have ${max} bytes.`, facts: { max } });
}
