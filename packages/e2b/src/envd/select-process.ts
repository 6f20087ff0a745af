/** Which process a request means. A pid is that of the sandbox; of several that had it, the one that lives is meant. */
import { Code, ConnectError } from '@connectrpc/connect';
import type { GuestProcess } from '@space/core';
import type { ProcessSelector } from '../../gen/process_pb.ts';
import type { EnvdCall } from './call.ts';
import { labelIn } from './process-label.ts';

export interface Asked {
  /** Also one that has ended and is still known. */
  readonly ended?: boolean;
}

export async function selectProcess(
  { useCases, caller, sandboxId }: EnvdCall,
  selector: ProcessSelector | undefined,
  { ended = false }: Asked = {},
): Promise<GuestProcess> {
  const wanted = selector?.selector;
  if (wanted?.case === undefined) throw new ConnectError('no process was named', Code.InvalidArgument);
  const processes = await useCases.listProcesses(caller, { id: sandboxId, ended });
  const matching = processes.filter((process) =>
    wanted.case === 'pid' ? process.pid === wanted.value : labelIn(process.label).tag === wanted.value,
  );
  const found =
    matching.find(({ leaderAlive }) => leaderAlive) ?? (ended ? matching.findLast(({ end }) => end) : undefined);
  if (found === undefined)
    throw new ConnectError(`process with ${wanted.case} ${wanted.value} not found`, Code.NotFound);
  return found;
}

/** Names what a request means before it is looked up. */
export function selectorKey(selector: ProcessSelector | undefined): string {
  return `${selector?.selector.case} ${selector?.selector.value}`;
}
