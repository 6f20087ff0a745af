/** What is asked of sandboxes that are there. */
import { type Sandbox, schemas, toProblem } from '@space/contract';
import { parseId, type SandboxId } from '@space/core';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { E2bError, errorBodyOf } from '../errors.ts';
import { toE2bId } from '../sandbox-ids.ts';
import { checkRun, checkTimeout, type E2bAnswer, type E2bCall, onSandbox, secondsFromNow } from './call.ts';
import type { Version } from './create.ts';
import { type Order, parseMetadata, parseToken, tokenOf } from './listing.ts';
import {
  type E2bState,
  startedAtOf,
  stateOf,
  statusesOf,
  viewDetail,
  viewListed,
  viewMetric,
  viewRunning,
} from './views.ts';

const DEFAULT_CONNECT_S = 300;
const MAX_LIST = 100;
const STATES = ['running', 'paused'] as const;

const listQuery = z.strictObject({
  metadata: z.string().max(20_000).optional(),
  state: z.string().max(100).optional(),
  startedAfter: schemas.timestamp.optional(),
  template: z.string().max(200).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  limit: schemas.queryInteger(1, MAX_LIST).optional(),
  nextToken: z.string().max(500).optional(),
});

type ListQuery = z.output<typeof listQuery>;

/** What a list without pages shows at most. */
const MAX_WITHOUT_PAGES = 10_000;

export async function listSandboxes(call: E2bCall, version: Version): Promise<E2bAnswer> {
  const query = parsePart(listQuery, call.query, 'query') as ListQuery;
  const states = version === 'v1' ? (['running'] as const) : statesIn(query.state);
  const order: Order = query.order ?? 'desc';
  const limit = version === 'v1' ? MAX_WITHOUT_PAGES : (query.limit ?? MAX_LIST);
  const { sandboxes, count } = await call.platform.listRuns(call.caller, {
    ...filterOf(query),
    statuses: states.flatMap(statusesOf),
    counted: statusesOf('running'),
    order,
    // One more says that there are more.
    limit: limit + 1,
    ...(query.nextToken === undefined ? {} : { after: positionIn(query.nextToken, order) }),
  });
  const more = sandboxes.length > limit;
  if (more && version === 'v1') throw new E2bError(400, `More than ${limit} are listed by GET /v2/sandboxes only.`);
  const shown = sandboxes.slice(0, limit);
  const last = shown.at(-1);
  const next = more && last !== undefined ? tokenOf({ id: last.id, at: startedAtOf(last) }, order) : undefined;
  return {
    status: 200,
    body: shown.map(viewListed),
    headers: { 'x-total-running': String(count), ...(next === undefined ? {} : { 'x-next-token': next }) },
  };
}

function positionIn(token: string, order: Order) {
  const { id, at } = parseToken(token, order);
  const sandboxId = parseId('sandbox', id);
  if (sandboxId === undefined) throw new E2bError(400, 'Invalid next token');
  return { id: sandboxId, at: new Date(at) };
}

function statesIn(text: string | undefined): readonly E2bState[] {
  if (text === undefined) return STATES;
  return text.split(',').map((given) => {
    const state = STATES.find((one) => one === given);
    if (state === undefined) throw new E2bError(400, `Invalid state "${given}"`);
    return state;
  });
}

function filterOf({ metadata, startedAfter, template }: ListQuery) {
  return {
    metadata: metadata === undefined ? {} : parseMetadata(metadata),
    ...(startedAfter === undefined ? {} : { startedFrom: new Date(startedAfter) }),
    ...(template === undefined ? {} : { template }),
  };
}

export function getSandbox(call: E2bCall): Promise<E2bAnswer> {
  return onSandbox(call, async (id) => ({
    status: 200,
    body: viewDetail((await find(call, id)).sandbox, call.platform.domain),
  }));
}

export function killSandbox(call: E2bCall): Promise<E2bAnswer> {
  const { platform, caller } = call;
  return onSandbox(call, async (id) => {
    await platform.useCases.deleteSandbox(caller, { id });
    platform.left(id);
    return { status: 204 };
  });
}

const timeoutBody = z.strictObject({ timeout: z.number().int() });

/** Sooner or later than it would have ended; a time that has passed ends it at once. */
export function setTimeoutOf(call: E2bCall): Promise<E2bAnswer> {
  const { timeout } = parsePart(timeoutBody, call.body, 'body') as z.output<typeof timeoutBody>;
  return onSandbox(call, async (id) => {
    const { sandbox, state } = await find(call, id);
    if (state !== 'running') throw new E2bError(409, `Sandbox "${toE2bId(id)}" is paused; connect to it`);
    await endAt(call, sandbox, secondsFromNow(Math.max(0, checkTimeout(timeout))));
    return { status: 204 };
  });
}

const refreshBody = z.strictObject({ duration: z.number().int().min(0).optional() });

export function refreshSandbox(call: E2bCall): Promise<E2bAnswer> {
  const { duration = 15 } = parsePart(refreshBody, call.body, 'body') as z.output<typeof refreshBody>;
  return onSandbox(call, async (id) => {
    const { sandbox, state } = await find(call, id);
    if (state !== 'running') throw new E2bError(409, `Sandbox "${toE2bId(id)}" is paused; connect to it`);
    await extend(call, sandbox, checkTimeout(duration));
    return { status: 204 };
  });
}

const pauseBody = z.strictObject({ memory: z.boolean().optional() });

export function pauseSandbox(call: E2bCall): Promise<E2bAnswer> {
  const { memory = true } = parsePart(pauseBody, call.body, 'body') as z.output<typeof pauseBody>;
  const { platform, caller } = call;
  return onSandbox(call, async (id) => {
    const { sandbox } = await find(call, id);
    if (sandbox.status === 'paused') throw new E2bError(409, `Sandbox "${toE2bId(id)}" is already paused`);
    await platform.useCases.pauseSandbox(caller, { id, keep: memory ? 'disk' : 'files' });
    platform.left(id);
    return { status: 204 };
  });
}

const connectBody = z.strictObject({ timeout: z.number().int().optional(), memory: z.boolean().optional() });

/** 200: it ran, and ends no sooner than before. 201: it was paused, and runs again for so long. */
export function connectSandbox(call: E2bCall, version: Version): Promise<E2bAnswer> {
  const body = parsePart(connectBody, call.body, 'body') as z.output<typeof connectBody>;
  if (version === 'v1' && body.timeout === undefined) throw new E2bError(400, 'timeout is required');
  const timeoutS = checkRun(body.timeout ?? DEFAULT_CONNECT_S);
  return onSandbox(call, async (id) => {
    const { state } = await find(call, id);
    if (state === 'running') {
      const { useCases } = call.platform;
      // A pause may have come in between.
      const sandbox = await useCases.resumeSandbox(call.caller, { id });
      return running(call, await extend(call, sandbox, timeoutS), 200);
    }
    return running(call, await resume(call, id, { timeoutS, memory: body.memory }), 201);
  });
}

const resumeBody = z.strictObject({
  timeout: z.number().int().optional(),
  autoPause: z.boolean().optional(),
  memory: z.boolean().optional(),
});

/** The call that connect took the place of. */
export function resumeSandbox(call: E2bCall): Promise<E2bAnswer> {
  const body = parsePart(resumeBody, call.body, 'body') as z.output<typeof resumeBody>;
  const timeoutS = checkRun(body.timeout ?? 15);
  return onSandbox(call, async (id) => {
    const { sandbox, state } = await find(call, id);
    if (state === 'running') throw new E2bError(409, `Sandbox "${toE2bId(id)}" is already running`);
    if (body.autoPause !== undefined) {
      const runs = { ...sandbox.runs, atLimit: body.autoPause ? ('pause' as const) : ('delete' as const) };
      await call.platform.useCases.updateSandbox(call.caller, { id, runs });
    }
    return running(call, await resume(call, id, { timeoutS, memory: body.memory }), 201);
  });
}

export function getMetrics(call: E2bCall): Promise<E2bAnswer> {
  const { start, end } = parsePart(metricsQuery, call.query, 'query') as z.output<typeof metricsQuery>;
  return onSandbox(call, async (id) => {
    const { sandbox } = await find(call, id);
    const { history, now } = await call.platform.useCases.getSandboxMetrics(call.caller, { id });
    const samples = now === null || now.cpuPercent === null ? history : [...history, now];
    const shown = samples
      .map((sample) => viewMetric(sandbox, sample))
      .filter(({ timestampUnix: at }) => (start === undefined || at >= start) && (end === undefined || at <= end));
    return { status: 200, body: shown };
  });
}

const MAX_UNIX_S = 1e11;
const metricsQuery = z.strictObject({
  start: schemas.queryInteger(0, MAX_UNIX_S).optional(),
  end: schemas.queryInteger(0, MAX_UNIX_S).optional(),
});

/** Throws `not_found` also for what is not there for them, as what has moved away. */
async function find({ platform, caller, params }: E2bCall, id: SandboxId) {
  const sandbox = await platform.useCases.getSandbox(caller, { id });
  const state = stateOf(sandbox);
  if (state === undefined) {
    throw new E2bError(404, `Sandbox "${params['id']}" doesn't exist or you don't have access to it`);
  }
  return { sandbox, state };
}

interface Run {
  readonly timeoutS: number;
  /** False: from its files alone, whatever the pause has kept. */
  readonly memory: boolean | undefined;
}

/**
 * What is in the memory of a pause is written out only by going on: so a boot from what has kept its memory is a resume, a pause that
 * keeps the files, and a resume. What breaks it off destroys nothing: the sandbox runs as it was, or is paused with its files.
 */
async function resume(call: E2bCall, id: SandboxId, { timeoutS, memory }: Run): Promise<Sandbox> {
  const { useCases } = call.platform;
  if (memory === false && (await hasMemory(call, id))) {
    await useCases.resumeSandbox(call.caller, { id });
    await useCases.pauseSandbox(call.caller, { id, keep: 'files' });
  }
  const sandbox = await useCases.resumeSandbox(call.caller, { id });
  return endAt(call, sandbox, secondsFromNow(timeoutS));
}

async function hasMemory({ platform: { useCases }, caller }: E2bCall, id: SandboxId): Promise<boolean> {
  const { head } = await useCases.getSandbox(caller, { id });
  return head !== null && (await useCases.getSnapshot(caller, { id: head })).kind === 'memory';
}

/** One that has no end has a later one than any. */
async function extend(call: E2bCall, sandbox: Sandbox, timeoutS: number): Promise<Sandbox> {
  const at = secondsFromNow(timeoutS);
  if (sandbox.expiry === null || Date.parse(sandbox.expiry.at) >= Date.parse(at)) return sandbox;
  return endAt(call, sandbox, at);
}

function endAt({ platform, caller }: E2bCall, { id, expiry, runs }: Sandbox, at: string): Promise<Sandbox> {
  const action = expiry?.action ?? runs.atLimit;
  return platform.useCases.updateSandbox(caller, { id, expiry: { at, action } });
}

async function running(call: E2bCall, sandbox: Sandbox, status: number): Promise<E2bAnswer> {
  const token = await call.platform.tokenFor(call.caller, sandbox.id);
  return { status, body: viewRunning(sandbox, token, call.platform.domain) };
}

const forkBody = z.strictObject({ timeout: z.number().int().optional(), count: z.number().int().optional() });
const DEFAULT_FORK_S = 15;

/** Each copy, or why there is none of it. The source goes on as it was. */
export function forkSandbox(call: E2bCall, maxCount: number): Promise<E2bAnswer> {
  const { timeout, count = 1 } = parsePart(forkBody, call.body, 'body') as z.output<typeof forkBody>;
  if (count < 1 || count > maxCount) throw new E2bError(400, `count must be between 1 and ${maxCount}`);
  const timeoutS = checkRun(timeout ?? DEFAULT_FORK_S);
  if (timeoutS <= 0) throw new E2bError(400, 'Timeout must be greater than 0');
  const { platform, caller } = call;
  return onSandbox(call, async (id) => {
    const { state } = await find(call, id);
    if (state !== 'running') throw new E2bError(409, `Sandbox "${toE2bId(id)}" is paused; connect to it`);
    const results = await platform.useCases.forkSandbox(caller, { id, count });
    const at = secondsFromNow(timeoutS);
    const shown = results.map(async (result) => {
      try {
        if ('error' in result) throw result.error;
        const { body } = await running(call, await endAt(call, result.sandbox, at), 201);
        return { sandbox: body };
      } catch (thrown) {
        return { error: errorBodyOf(thrown, (error) => toProblem(error, caller.requestId)) };
      }
    });
    return { status: 201, body: await Promise.all(shown) };
  });
}
