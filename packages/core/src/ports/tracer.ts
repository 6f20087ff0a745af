/**
 * Traces as a port: what takes how long, and what is a part of what. Spans nest by the asynchronous context that they are
 * begun in. Names and attributes hold ids and kinds, and nothing of a tenant's content.
 */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanStart {
  readonly name: string;
  readonly attributes?: SpanAttributes;
  /** The span of another process that this one is a part of, as W3C's header says it; one that is none is ignored. */
  readonly traceparent?: string | undefined;
}

export interface Tracer {
  /** Runs the work as a span; it ends when the work does, and says by which code it failed. `note` adds to it. */
  span<T>(start: SpanStart, work: (note: (more: SpanAttributes) => void) => Promise<T>): Promise<T>;
  /** The span that is open here, to be handed to another process. */
  traceparent(): string | undefined;
}

const ignore = () => undefined;

/** Nobody asked for traces. */
export const NO_TRACES: Tracer = { span: (_start, work) => work(ignore), traceparent: ignore };
