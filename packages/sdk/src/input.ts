/** Input for a command that was started with `stdin` or `pty`. */
import type { WrittenInput } from '@space/contract';
import { type FileContent, toBody } from './files.ts';
import { refuseUnknown } from './options.ts';
import type { CallOptions, Transport } from './transport.ts';

export interface InputOptions extends CallOptions {
  /**
   * Position of the first byte in the command's input. What it has taken before is skipped, so the call can be repeated.
   * Default: after what it has taken.
   */
  readonly offset?: number;
  /** Whether the input ends after this. A terminal is then hung up. Default false. */
  readonly eof?: boolean;
}

/** Returns when the command has taken all of it, with how many bytes it has taken since its start. */
export async function writeInput(
  transport: Transport,
  sandboxPath: string,
  processId: string,
  content: FileContent,
  { offset, eof, signal, ...unknown }: InputOptions = {},
): Promise<number> {
  refuseUnknown(unknown);
  const path = `${sandboxPath}/processes/${encodeURIComponent(processId)}/input`;
  const query = { offset, eof: eof === undefined ? undefined : String(eof) };
  const call = { method: 'POST', path, query, bytes: toBody(content), signal } as const;
  return (await transport.json<WrittenInput>(call)).acceptedBytes;
}
