/** Ends a VMM as somebody else than the platform would. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, isErrno, type ProcessIdentity } from '../src/process-identity.ts';

/** SIGKILL, then waits until the process is proved dead. Throws when it is not within the time. */
export async function killProcess(identity: ProcessIdentity, timeoutMs = 10_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = 1; await isAlive(identity); pauseMs = Math.min(pauseMs * 1.5, 50)) {
    signalKill(identity.pid);
    if (performance.now() > deadline) throw new Error(`Process ${identity.pid} did not die within ${timeoutMs} ms`);
    await sleep(pauseMs);
  }
}

function signalKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (thrown) {
    if (!isErrno(thrown, 'ESRCH')) throw thrown;
  }
}
