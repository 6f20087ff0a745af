/** Traces, where somebody asked for them; nothing of them is loaded otherwise. */
import type { Tracer } from '@space/core';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';

export const VERSION = '0.1.0';

/** Empty: nobody asked for traces. */
export interface Tracing {
  readonly tracer?: Tracer;
}

export type LoadedTraces = typeof import('@space/traces-otel');

/** To be called while the code can still be read. */
export async function loadTraces(isAsked: boolean): Promise<LoadedTraces | null> {
  return isAsked ? import('@space/traces-otel') : null;
}

export function openTracing(
  loaded: LoadedTraces | null,
  { traces }: Pick<Config, 'traces'>,
  closers: Closers,
): Tracing {
  if (loaded === null || traces === undefined) return {};
  const options = { url: traces.url, version: VERSION, env: process.env };
  return { tracer: closers.add(loaded.openTraces(options), (open) => open.close()) };
}
