/**
 * The part of the records that says which templates were built: a template has builds, a build has a log and, once it is ready, a
 * point that sandboxes start from; a tag names a ready build. Layers say which point holds what a step has made. Archives for copy
 * steps lie here until they have not been used for a day.
 *
 * A point is needed for as long as a build or a layer names it.
 */
import type {
  ApiKeyId,
  BuildId,
  BuildState,
  ProjectId,
  Recipe,
  SandboxId,
  Size,
  SnapshotId,
  TemplateId,
} from '@space/core';

export interface RecordedTemplate {
  readonly id: TemplateId;
  readonly projectId: ProjectId;
  readonly name: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export type BuildStatus = 'waiting' | 'building' | 'ready' | 'failed';

export interface BuildFailure {
  /** `base`, the number of the step, or `finalize`. */
  readonly step: string;
  readonly message: string;
}

export interface RecordedBuild {
  readonly id: BuildId;
  readonly templateId: TemplateId;
  readonly projectId: ProjectId;
  readonly status: BuildStatus;
  /** What was asked for; null: nothing. */
  readonly askedSize: Partial<Size> | null;
  /** Null: not known yet. */
  readonly size: Size | null;
  readonly tags: readonly string[];
  readonly recipe: Recipe | null;
  /** What holds at its end, for templates that are built from it. */
  readonly state: BuildState | null;
  readonly failure: BuildFailure | null;
  readonly snapshotId: SnapshotId | null;
  readonly cachedSteps: number;
  readonly askedBy: ApiKeyId;
  readonly createdAt: Date;
  readonly endedAt: Date | null;
}

export interface RecordedTag {
  readonly templateId: TemplateId;
  readonly tag: string;
  readonly buildId: BuildId;
  readonly createdAt: Date;
}

export interface LogEntry {
  readonly at: Date;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly step: string | null;
}

/** Which point holds what the steps up to one have made. */
export interface RecordedLayer {
  readonly projectId: ProjectId;
  readonly key: string;
  readonly templateId: TemplateId;
  readonly snapshotId: SnapshotId;
  /** Of what an image has become: what it says of commands. Null: what the recipe says. */
  readonly state: BuildState | null;
  readonly usedAt: Date;
}

export interface BuildEnd {
  readonly status: 'ready' | 'failed';
  readonly failure: BuildFailure | null;
  readonly snapshotId: SnapshotId | null;
  readonly state: BuildState | null;
  readonly size: Size | null;
  readonly cachedSteps: number;
  readonly at: Date;
}

export interface StoredFile {
  readonly projectId: ProjectId;
  readonly hash: string;
  readonly sizeBytes: number;
  /** Names its parts; another upload has another one. */
  readonly upload: string;
}

export interface TemplateRecords {
  /**
   * A waiting build, of the template of that name, which is added if there is none. Throws `limit_reached` when the project has
   * `maxTemplates` others.
   */
  request(template: RecordedTemplate, build: RecordedBuild, maxTemplates: number): Promise<RecordedBuild>;
  findTemplate(projectId: ProjectId, reference: TemplateId | string): Promise<RecordedTemplate | null>;
  /** By name. */
  listTemplates(projectId: ProjectId): Promise<readonly RecordedTemplate[]>;
  /** With its builds, tags, logs and layers. */
  deleteTemplate(id: TemplateId): Promise<void>;

  findBuild(id: BuildId): Promise<RecordedBuild | null>;
  /** Newest first. */
  buildsOf(templateId: TemplateId): Promise<readonly RecordedBuild[]>;
  /** Those that are waiting or building. */
  unfinished(): Promise<readonly RecordedBuild[]>;
  /** From waiting to building; null: it is not waiting. */
  startBuild(id: BuildId, recipe: Recipe): Promise<RecordedBuild | null>;
  /** Once; a ready one gets its tags. Null: it has ended, or is gone. */
  endBuild(id: BuildId, end: BuildEnd): Promise<RecordedBuild | null>;
  /** With its log. Of one that has a tag, nothing happens. */
  dropBuild(id: BuildId): Promise<void>;
  /** Of one that is gone, nothing happens. */
  appendLog(id: BuildId, entries: readonly LogEntry[]): Promise<void>;
  readLog(id: BuildId, offset: number, limit: number): Promise<readonly LogEntry[]>;

  /** By name. */
  tagsOf(templateId: TemplateId): Promise<readonly RecordedTag[]>;
  setTags(templateId: TemplateId, buildId: BuildId, tags: readonly string[], at: Date): Promise<void>;
  /** False: there is none. */
  dropTag(templateId: TemplateId, tag: string): Promise<boolean>;

  findLayer(projectId: ProjectId, key: string): Promise<RecordedLayer | null>;
  /** In the place of another one of that key. When the template is gone, nothing happens. */
  putLayer(layer: RecordedLayer): Promise<void>;
  useLayers(projectId: ProjectId, keys: readonly string[], at: Date): Promise<void>;
  /** Those of each project beyond so many, and those not used since, used least recently first; they are dropped. */
  dropLayers(keep: number, unusedSince: Date): Promise<void>;
  /** The platform's own points that nothing names, taken before: of steps that were run again, and of what broke off. */
  strayPoints(before: Date): Promise<readonly SnapshotId[]>;
  /** The platform's own sandboxes that are not deleted. */
  buildSandboxes(): Promise<readonly SandboxId[]>;

  findFile(projectId: ProjectId, hash: string): Promise<StoredFile | null>;
  /** Part `number`, from 0, of an upload that is not there before it is published. */
  addPart(upload: string, number: number, bytes: Uint8Array, at: Date): Promise<void>;
  /**
   * In the place of another one of that hash. Throws `limit_reached` when the files of the project would then have more than
   * `maxTotalBytes`.
   */
  publishFile(file: StoredFile, at: Date, maxTotalBytes: number): Promise<void>;
  /** The parts of an upload that is not to be published. */
  dropUpload(upload: string): Promise<void>;
  useFile(projectId: ProjectId, hash: string, at: Date): Promise<void>;
  readPart(upload: string, number: number): Promise<Uint8Array | null>;
  /** Files not used since, and parts of uploads that were never published. */
  dropFiles(unusedSince: Date): Promise<void>;
}
