/**
 * Repeats a request where that is safe: it never reached the server (the connection was refused); the server said that
 * nothing was done and when to come back (503 with Retry-After); or the connection broke before an answer, and the call
 * changes nothing or is named by an idempotency key, which all its requests carry: then it is carried out once.
 */
const MAX_WAIT_MS = 10_000;
const PAUSES_MS = [100, 400];
/** Codes of a connection that broke; the request may have been read. */
const BROKEN = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'];

export const MAX_RETRIES = 2;

/** How long to wait before the next attempt; undefined: the answer stands. */
export function pauseAfterAnswer(response: Response): number | undefined {
  const seconds = response.headers.get('retry-after') ?? '';
  if (response.status !== 503 || !/^[0-9]{1,3}$/.test(seconds)) return undefined;
  const waitMs = Number(seconds) * 1000;
  return waitMs <= MAX_WAIT_MS ? waitMs : undefined;
}

/** Fetch says what happened in its cause; any other failure may have come after the request was read. */
export function pauseAfterFailure(error: unknown, attempt: number, isRepeatable: boolean): number | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined;
  const isSafe = code === 'ECONNREFUSED' || (isRepeatable && BROKEN.includes(String(code)));
  return isSafe ? PAUSES_MS[Math.min(attempt, PAUSES_MS.length - 1)] : undefined;
}

/** Rejects with the signal's reason when it aborts. */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', settle);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(settle, milliseconds);
    signal?.addEventListener('abort', settle);
    if (signal?.aborted) settle();
  });
}
