/** What went wrong, as a person and as a program read it; and how the process ends. */
import { ForkError, SpaceError, type SpaceErrorCode } from '@space/sdk';
import { CommanderError } from 'commander';
import { inert, inertJson } from './inert.ts';

export const EXIT = {
  failed: 1,
  /** The command line makes no sense. */
  usage: 2,
  timedOut: 124,
  /** Of run, exec and shell: the platform failed, not the command. */
  platform: 125,
  notStarted: 127,
  /** Plus the number of the signal. */
  signal: 128,
} as const;

/** A failure of the command line's own. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: string;
  readonly nextStep: string;
  readonly exitCode: number;

  constructor(code: string, detail: string, nextStep: string, exitCode: number = EXIT.failed) {
    super(detail);
    this.code = code;
    this.nextStep = nextStep;
    this.exitCode = exitCode;
  }
}

export function usage(detail: string, nextStep: string): CliError {
  return new CliError('bad_usage', detail, nextStep, EXIT.usage);
}

/** The stable shape of an error under `--json`. */
interface ErrorShape {
  readonly code: string;
  readonly detail: string;
  readonly nextStep: string;
  readonly retry: 'never' | 'later' | 'safe';
  readonly status: number | null;
  readonly requestId: string | null;
  readonly facts: Readonly<Record<string, string | number | boolean>>;
}

/** Where a command line has a better answer than a library. */
const NEXT_STEPS: Partial<Record<SpaceErrorCode, string>> = {
  unreachable:
    'On this machine, `space up` starts the platform, and `space doctor` says what is there. Else check SPACE_URL.',
  unauthenticated:
    'Set SPACE_API_KEY to a key in force. `space down`, then `space up --new-key` on the machine of the platform makes another.',
};

function nextStepOf({ code, detail, nextStep }: SpaceError): string {
  if (code === 'wrong_state' && /\b(?:is|was) moved\b/.test(detail))
    return '`space move SANDBOX --undo` takes it back, if nobody has taken it up elsewhere.';
  if (code === 'not_found' && detail.startsWith('There is no place for archives'))
    return 'Places are named when the platform is started: `space up --archive default=/mnt/archive`.';
  return NEXT_STEPS[code] ?? nextStep;
}

/** Whoever types a command has seen no body. */
function plainDetail({ code, detail }: SpaceError): string {
  return code === 'bad_request' ? detail.replace(/^(?:body|query|path) field /, '') : detail;
}

/** The same failure, better told. */
export function retold(error: SpaceError, text: { readonly detail?: string; readonly nextStep: string }): SpaceError {
  const { code, detail, status, retry, requestId, facts } = error;
  return new SpaceError({ code, detail, status, retry, requestId, facts, ...text }, { cause: error });
}

function shapeOf(error: unknown): ErrorShape {
  const unknown = { retry: 'never', status: null, requestId: null, facts: {} } as const;
  if (error instanceof SpaceError) {
    const { code, retry, status, requestId, facts } = error;
    const [detail, nextStep] = [plainDetail(error), nextStepOf(error)];
    return { code, detail, nextStep, retry, status: status ?? null, requestId: requestId ?? null, facts };
  }
  if (error instanceof ForkError) {
    const [first] = error.errors;
    const made = error.sandboxes.length;
    const detail = `${error.errors.length} of ${made + error.errors.length} copies could not be made.`;
    return { ...(first === undefined ? { ...unknown, code: 'internal', nextStep: '' } : shapeOf(first)), detail };
  }
  if (error instanceof CliError)
    return { ...unknown, code: error.code, detail: error.message, nextStep: error.nextStep };
  if (error instanceof CommanderError) {
    const detail = error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ');
    return { ...unknown, code: 'bad_usage', detail, nextStep: 'Run the same with --help.' };
  }
  const systemCode = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
  const detail = error instanceof Error ? error.message : String(error);
  if (systemCode !== null)
    return { ...unknown, code: 'local', detail, nextStep: 'Check the local path and its rights.' };
  return { ...unknown, code: 'internal', detail, nextStep: 'This is a bug of the command line; please report it.' };
}

/** `failedCode`: of the verb, for what is not the fault of the command line. */
export function exitCodeOf(error: unknown, failedCode: number): number {
  if (error instanceof CommanderError) return EXIT.usage;
  if (error instanceof CliError && error.exitCode !== EXIT.failed) return error.exitCode;
  const isNotStarted = error instanceof SpaceError && error.code === 'command_not_started';
  return isNotStarted && failedCode === EXIT.platform ? EXIT.notStarted : failedCode;
}

export function errorText(error: unknown, json: boolean): string {
  const shape = shapeOf(error);
  if (json) return `${inertJson({ error: shape })}\n`;
  const where = shape.requestId === null ? shape.code : `${shape.code}, ${shape.requestId}`;
  const next = shape.nextStep === '' ? '' : `\n  Next: ${inert(shape.nextStep)}`;
  return `space: ${inert(shape.detail)} (${inert(where)})${next}\n`;
}
