/** One call of one route, as the functions that answer it see it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller, Input, Problem, RouteName, UseCases } from '@space/contract';

export interface Call<N extends RouteName> {
  readonly useCases: UseCases;
  readonly caller: Caller;
  readonly input: Input<N>;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly server: CallServer;
}

/** What the server lends to a call. */
export interface CallServer {
  readonly version: string;
  /** The URL of previews, as who sent the request can reach them (see `preview-names.ts`). */
  readonly previewTemplate: (request: IncomingMessage) => string | null;
  readonly heartbeatMs: number;
  readonly uploadIdleMs: number;
  /** Logs the cause and gives the problem to show. */
  explain(thrown: unknown, requestId: string): Problem;
  /** Told of output that the contract does not allow; undefined when nobody wants to know. */
  readonly onBreach: ((breach: string) => void) | undefined;
}
