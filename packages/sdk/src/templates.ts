/** Templates that are built here, by steps in a sandbox of the platform. */
import type {
  BuiltTemplate,
  Request,
  TemplateBuild,
  TemplateBuildWithLog,
  TemplateFile,
  TemplateList,
} from '@space/contract';
import { pause } from './retry.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport, withoutConnection } from './transport.ts';

export type { BuiltTemplate, TemplateBuild };
export type TemplateLogEntry = TemplateBuildWithLog['log'][number];

/** What it is made of, and how. */
export type TemplateRecipe = Omit<Request<'startTemplateBuild'>, 'id'>;

type Options = ConnectionOptions & CallOptions;

export interface BuildTemplateOptions extends Options, TemplateRecipe {
  /** What is left out has its default, or is that of the template that it is built from. */
  readonly size?: { readonly vcpus?: number; readonly memoryMib?: number; readonly diskMib?: number };
  /** They name the build once it is ready; default `default`. */
  readonly tags?: string[];
  /** Told of what the build says. What commands print is hostile text. */
  readonly onLog?: (entry: TemplateLogEntry) => void;
}

/** The build has failed. What was done before the step that failed is kept for the next one. */
export class TemplateBuildError extends Error {
  override readonly name = 'TemplateBuildError';
  readonly build: TemplateBuild;

  constructor(build: TemplateBuild) {
    super(`step ${build.failure?.step}: ${build.failure?.message}`);
    this.build = build;
  }
}

const LOOK_EVERY_MS = 300;

/**
 * Builds a template of that name and waits until it is ready. Sandboxes are then created from it by its name, or `name:tag`. Aborting
 * ends the waiting, not the build.
 *
 * Errors: `TemplateBuildError`; `name_taken`, `template_unknown`, `size_impossible`, `network_too_wide`, `limit_reached`.
 */
export async function buildTemplate(name: string, options: BuildTemplateOptions = {}): Promise<TemplateBuild> {
  const { size, tags, onLog, signal, ...recipe } = withoutConnection(options);
  const transport = new Transport(options);
  const asked = { method: 'POST', path: `/v1/templates/${encodeURIComponent(name)}/builds`, signal } as const;
  const { id } = await transport.json<TemplateBuild>({ ...asked, json: { size, tags } });
  const path = `/v1/template-builds/${id}`;
  await transport.json({ method: 'POST', path: `${path}/start`, json: recipe, signal });
  for (let offset = 0; ; ) {
    const query = { offset };
    const { log, ...build } = await transport.json<TemplateBuildWithLog>({ method: 'GET', path, query, signal });
    for (const entry of log) onLog?.(entry);
    offset += log.length;
    if (log.length > 0) continue;
    if (build.status === 'ready') return build;
    if (build.status === 'failed') throw new TemplateBuildError(build);
    await pause(LOOK_EVERY_MS, signal);
  }
}

/** Those that were built in the project, by name. */
export async function listBuiltTemplates(options: Options = {}): Promise<BuiltTemplate[]> {
  const call = { method: 'GET', path: '/v1/templates', signal: signalOf(options) } as const;
  return (await new Transport(options).json<TemplateList>(call)).built;
}

/** With all its builds. Sandboxes that were made from it keep what they have. Throws `not_found`. */
export async function deleteTemplate(idOrName: string, options: Options = {}): Promise<void> {
  const path = `/v1/templates/${encodeURIComponent(idOrName)}`;
  await new Transport(options).done({ method: 'DELETE', path, signal: signalOf(options) });
}

/**
 * Brings an archive (tar, packed by gzip or not) for copy steps, which name it by `hash`: 64 hexadecimal digits of your choice that are
 * others when the content is. Nothing is sent when it is there.
 */
export async function uploadTemplateFiles(
  hash: string,
  archive: Uint8Array | ReadableStream<Uint8Array>,
  options: Options = {},
): Promise<void> {
  const transport = new Transport(options);
  const path = `/v1/template-files/${encodeURIComponent(hash)}`;
  const signal = signalOf(options);
  const { present } = await transport.json<TemplateFile>({ method: 'GET', path, signal });
  if (!present) await transport.json({ method: 'PUT', path, bytes: archive, signal });
}
