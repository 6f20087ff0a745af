/** The build of a template, in E2B's four calls: asked for, given its archives, started, and followed. */
import { ROUTES, schemas, type TemplateBuild } from '@space/contract';
import { type BuildStep, DEFAULT_SIZE, parseId } from '@space/core';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { E2bError, isCode, refused } from '../errors.ts';
import type { E2bAnswer, E2bCall } from './call.ts';
import { askedNetwork, withNetwork } from './network.ts';
import { parseTemplate, unknownTemplate } from './template-names.ts';

/** What links of uploads begin with. */
export const UPLOADS = '/templates/uploads/';
/** Their images that our `base` stands for. */
const BASE_IMAGES = /^(docker\.io\/)?e2bdev\/base(:latest)?$/;
/** A program that nobody asks for is ready after so long. */
const DEFAULT_READY = 'sleep 20';
const MAX_LOG_PAGE = 100;
const DISK_STEP_MIB = 1024;
/** Of a new disk, what the system takes. */
const SYSTEM_MIB = 3072;

const requestBody = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  alias: z.string().min(1).max(200).optional(),
  tags: z.array(z.string()).max(20).optional(),
  cpuCount: z.number().int().optional(),
  memoryMB: z.number().int().optional(),
  minFreeDiskMb: z.number().int().min(0).optional(),
  teamID: z.string().optional(),
});

export async function requestBuild(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller } = call;
  const asked = parsePart(requestBody, call.body, 'body') as z.output<typeof requestBody>;
  const given = asked.name ?? asked.alias;
  if (given === undefined) throw new E2bError(400, 'Name must be provided');
  const { name, tag, isTagged } = parseTemplate(given, caller.projectId);
  const more = asked.tags ?? [];
  const tags = [...new Set([...(isTagged || more.length === 0 ? [tag] : []), ...more])];
  const size = {
    ...(asked.cpuCount === undefined ? {} : { vcpus: asked.cpuCount }),
    ...(asked.memoryMB === undefined ? {} : { memoryMib: asked.memoryMB }),
    ...(asked.minFreeDiskMb === undefined ? {} : { diskMib: diskWith(asked.minFreeDiskMb) }),
  };
  const body = parsePart(
    ROUTES.requestTemplateBuild.body.schema,
    { size, tags },
    'body',
  ) as Body<'requestTemplateBuild'>;
  const build = await platform.useCases.requestTemplateBuild(caller, { id: name, ...body });
  return {
    status: 202,
    body: {
      templateID: build.templateId,
      buildID: build.id,
      public: false,
      names: [`${caller.projectId}/${name}`],
      aliases: [name],
      tags,
    },
  };
}

type Body<N extends 'requestTemplateBuild' | 'startTemplateBuild'> = z.output<(typeof ROUTES)[N]['body']['schema']>;

function diskWith(freeMib: number): number {
  const whole = Math.ceil((freeMib + SYSTEM_MIB) / DISK_STEP_MIB) * DISK_STEP_MIB;
  return Math.max(DEFAULT_SIZE.diskMib, whole);
}

export async function uploadLink({ platform, caller, params, origin }: E2bCall): Promise<E2bAnswer> {
  const { id = '', hash: given = '' } = params;
  await templateOf(platform.useCases.getTemplate(caller, { id }));
  const hash = schemas.fileHash.safeParse(given);
  if (!hash.success) throw new E2bError(400, 'invalid files hash');
  const { present } = await platform.useCases.getTemplateFile(caller, { hash: hash.data });
  const ticket = await platform.uploads.ticketFor(caller, hash.data);
  return { status: 201, body: { present, url: `${origin}${UPLOADS}${ticket}` } };
}

const step = z.strictObject({
  type: z.enum(['RUN', 'COPY', 'ENV', 'WORKDIR', 'USER']),
  args: z.array(z.string()).max(2000).default([]),
  filesHash: z.string().optional(),
  force: z.boolean().optional(),
  // How the client has packed and sent the files.
  forceUpload: z.boolean().optional(),
  resolveSymlinks: z.boolean().optional(),
  gzip: z.boolean().optional(),
});

const startBody = z.strictObject({
  fromImage: z.string().max(500).optional(),
  fromTemplate: z.string().max(200).optional(),
  fromImageRegistry: z.unknown().optional(),
  steps: z.array(step).optional(),
  startCmd: z.string().optional(),
  readyCmd: z.string().optional(),
  force: z.boolean().optional(),
});

export async function startBuild(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller } = call;
  const asked = parsePart(startBody, call.body, 'body') as z.output<typeof startBody>;
  const { id } = await findBuild(call);
  const ready = asked.readyCmd ?? (asked.startCmd === undefined ? undefined : DEFAULT_READY);
  const recipe = {
    from: baseOf(asked, call),
    steps: (asked.steps ?? []).map(stepOf),
    ...(asked.startCmd === undefined ? {} : { start: asked.startCmd }),
    ...(ready === undefined ? {} : { ready }),
    ...(asked.force === true ? { force: true } : {}),
  };
  await templateOf(
    withNetwork(call, askedNetwork({}), (network) => {
      const { schema } = ROUTES.startTemplateBuild.body;
      const body = parsePart(schema, { ...recipe, network }, 'body') as Body<'startTemplateBuild'>;
      return platform.useCases.startTemplateBuild(caller, { id, ...body });
    }),
  );
  return { status: 202, body: {} };
}

function baseOf(
  { fromImage, fromTemplate, fromImageRegistry }: z.output<typeof startBody>,
  { caller }: E2bCall,
): string {
  if ((fromImage === undefined) === (fromTemplate === undefined)) {
    throw new E2bError(400, 'exactly one of fromImage and fromTemplate must be given');
  }
  if (fromTemplate !== undefined) {
    const { name, tag, isTagged } = parseTemplate(fromTemplate, caller.projectId);
    return isTagged ? `${name}:${tag}` : name;
  }
  if (fromImageRegistry === undefined && BASE_IMAGES.test(fromImage ?? '')) return 'base';
  throw refused(
    `Building from the image ${(fromImage ?? '').slice(0, 200)}`,
    'Build from a template (fromTemplate, or fromBaseImage), and install what the image has by steps.',
  );
}

function stepOf({ type, args, filesHash, force }: z.output<typeof step>): BuildStep {
  const forced = force === true ? { force: true } : {};
  const [first = '', second = '', third = '', fourth = ''] = args;
  switch (type) {
    case 'RUN':
      return { type: 'run', command: first, ...(second === '' ? {} : { user: second }), ...forced };
    case 'COPY': {
      if (filesHash === undefined) throw new E2bError(400, 'COPY needs filesHash');
      const owner = third === '' ? {} : { user: third };
      const mode = fourth === '' ? {} : { mode: fourth };
      return { type: 'copy', files: filesHash, from: first, to: second, ...owner, ...mode, ...forced };
    }
    case 'ENV': {
      if (args.length % 2 !== 0) throw new E2bError(400, 'ENV needs pairs of names and values');
      const pairs = args.flatMap((name, at) => (at % 2 === 0 ? [[name, args[at + 1] ?? ''] as const] : []));
      return { type: 'env', values: Object.fromEntries(pairs), ...forced };
    }
    case 'WORKDIR':
      return { type: 'workdir', path: first, ...forced };
    case 'USER':
      return { type: 'user', name: first, ...forced };
  }
}

const statusQuery = z.strictObject({
  logsOffset: schemas.queryInteger(0, 1_000_000).optional(),
  limit: schemas.queryInteger(0, MAX_LOG_PAGE).optional(),
  level: z.enum(['debug', 'info', 'warn', 'error']).optional(),
});

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

export async function buildStatus(call: E2bCall): Promise<E2bAnswer> {
  const asked = parsePart(statusQuery, call.query, 'query') as z.output<typeof statusQuery>;
  const { logsOffset: offset = 0, limit = MAX_LOG_PAGE, level = 'debug' } = asked;
  const { log, ...build } = await findBuild(call, { offset, limit });
  const least = LEVELS.indexOf(level);
  const entries = log
    .filter((entry) => LEVELS.indexOf(entry.level) >= least)
    .map(({ at, step: name, ...entry }) => ({ timestamp: at, ...entry, ...(name === null ? {} : { step: name }) }));
  return {
    status: 200,
    body: {
      templateID: build.templateId,
      buildID: build.id,
      status: statusOf(build),
      logEntries: entries,
      logs: entries.map(({ message }) => `${message}\n`),
      ...(build.failure === null ? {} : { reason: { ...build.failure, logEntries: [] } }),
    },
  };
}

export function statusOf({ status }: Pick<TemplateBuild, 'status'>) {
  return status === 'failed' ? 'error' : status;
}

/** Of the template that the path names, too. */
async function findBuild({ platform, caller, params }: E2bCall, page = { offset: 0, limit: 0 }) {
  const { id: template = '', build = '' } = params;
  const unknown = () => new E2bError(404, `Build '${build.slice(0, 100)}' not found`);
  const id = parseId('build', build);
  if (id === undefined) throw unknown();
  try {
    const found = await platform.useCases.getTemplateBuild(caller, { id, ...page });
    if (found.templateId === template || found.template === template) return found;
  } catch (thrown) {
    if (!isCode(thrown, 'not_found')) throw thrown;
  }
  throw unknown();
}

async function templateOf<T>(found: Promise<T>): Promise<T> {
  try {
    return await found;
  } catch (thrown) {
    throw unknownTemplate(thrown);
  }
}
