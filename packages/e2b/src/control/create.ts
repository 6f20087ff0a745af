/** Making a sandbox: each field of theirs is honoured, or refused by name. */
import { ROUTES, type Sandbox } from '@space/contract';
import { AppError, parseId } from '@space/core';
import { parsePart } from '@space/http/parts';
import { z } from 'zod';
import { E2bError, isCode, refused } from '../errors.ts';
import { checkRun, type E2bAnswer, type E2bCall, secondsFromNow } from './call.ts';
import { askedNetwork, networkField, withNetwork } from './network.ts';
import { referenceIn } from './snapshot-ids.ts';
import { templateIn, unknownTemplate } from './template-names.ts';
import { viewRunning } from './views.ts';

export type Version = 'v1' | 'v2';

/** What a sandbox lives for that does not say it. */
const DEFAULT_TIMEOUT_S: Readonly<Record<Version, number>> = { v1: 15, v2: 300 };
/** A run that a mere use begins lasts so long at least. */
const MIN_AUTO_RUN_S = 300;

const createBody = z.strictObject({
  templateID: z.string().min(1).max(200),
  timeout: z.number().int().optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  envVars: z.record(z.string(), z.string()).optional(),
  secure: z.boolean().optional(),
  mcp: z.unknown().optional(),
  allow_internet_access: z.boolean().optional(),
  network: networkField.optional(),
  iam: z.unknown().optional(),
  autoPause: z.boolean().optional(),
  autoPauseMemory: z.boolean().optional(),
  autoResume: z.strictObject({ enabled: z.boolean() }).optional(),
  volumeMounts: z.array(z.unknown()).optional(),
});

type CreateBody = z.output<typeof createBody>;

export async function createSandbox(call: E2bCall, version: Version): Promise<E2bAnswer> {
  const body = parsePart(createBody, call.body, 'body') as CreateBody;
  refuseOthers(body);
  const timeoutS = checkRun(body.timeout ?? DEFAULT_TIMEOUT_S[version]);
  const { allowPublicTraffic = true, maskRequestHost: _, httpsPorts: __, ...egress } = body.network ?? {};
  const internet = body.allow_internet_access;
  const network = askedNetwork({ ...egress, ...(internet === undefined ? {} : { allow_internet_access: internet }) });
  const action = body.autoPause !== true ? 'delete' : body.autoPauseMemory === false ? 'pause_files' : 'pause';
  const asked = {
    ...(body.envVars === undefined ? {} : { env: body.envVars }),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    idle: { pauseAfterMs: null },
    expiry: { at: secondsFromNow(timeoutS), action },
    runs: {
      limitMs: Math.max(timeoutS, MIN_AUTO_RUN_S) * 1000,
      atLimit: action,
      wakeOnUse: body.autoResume?.enabled === true,
    },
    publicPorts: allowPublicTraffic,
  };
  const sandbox = await withNetwork(call, network, (chosen) =>
    makeFrom(call, body.templateID, { ...asked, network: chosen }),
  );
  const token = await call.platform.tokenFor(call.caller, sandbox.id);
  return { status: 201, body: viewRunning(sandbox, token, call.platform.domain) };
}

function refuseOthers(body: CreateBody): void {
  const { network } = body;
  if (body.secure === false) throw refused('secure: false', 'What runs commands in a sandbox always takes its token.');
  if (isGiven(body.mcp)) throw refused('mcp', 'Start an MCP server by a command.');
  if (isGiven(body.iam)) throw refused('iam', 'Bind secrets to hosts instead.');
  if (body.volumeMounts !== undefined && body.volumeMounts.length > 0) {
    throw refused('volumeMounts', 'Keep files in the sandbox, which snapshots and forks copy.');
  }
  if (body.autoPauseMemory === false) {
    if (body.autoPause !== true) throw new E2bError(400, 'autoPauseMemory: false needs autoPause');
    // As theirs has it: nothing but a connect goes on with files alone.
    if (body.autoResume?.enabled === true) throw new E2bError(400, 'autoPauseMemory: false goes with no autoResume');
  }
  if (network?.maskRequestHost !== undefined) {
    throw refused('network.maskRequestHost', 'Servers in the sandbox see localhost and their port.');
  }
  if (network?.httpsPorts !== undefined && network.httpsPorts.length > 0) {
    throw refused('network.httpsPorts', 'Ports speak HTTP.');
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

type Asked = Readonly<Record<string, unknown>>;

/** From a template of that name, or a snapshot. */
async function makeFrom(call: E2bCall, given: string, asked: Asked): Promise<Sandbox> {
  const { projectId } = call.caller;
  const snapshot = referenceIn(given, projectId);
  const template = templateIn(given, projectId);
  const unknown = () => new E2bError(404, `template '${given}' not found`);
  try {
    if (template === undefined || (snapshot !== undefined && parseId('snapshot', snapshot) !== undefined)) {
      if (snapshot === undefined) throw unknown();
      return await make(call, { ...asked, snapshot });
    }
    try {
      return await make(call, { ...asked, template });
    } catch (thrown) {
      if (!isCode(thrown, 'template_unknown')) throw thrown;
      // A template that is there lacks the tag, unless there is a snapshot of that name.
      if (snapshot === undefined) throw unknownTemplate(thrown);
      return await make(call, { ...asked, snapshot }).catch((next: unknown) => {
        throw isCode(next, 'not_found') ? unknownTemplate(thrown) : next;
      });
    }
  } catch (thrown) {
    throw isCode(thrown, 'not_found') ? unknown() : thrown;
  }
}

async function make({ platform, caller }: E2bCall, asked: Asked): Promise<Sandbox> {
  const parsed = ROUTES.createSandbox.body.schema.safeParse(asked);
  if (parsed.success) return platform.useCases.createSandbox(caller, parsed.data);
  const [issue] = parsed.error.issues;
  throw new AppError('bad_request', `${issue?.path.join('.') ?? 'The body'}: ${issue?.message ?? 'is not valid'}.`);
}
