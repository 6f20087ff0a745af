/**
 * Traces by OpenTelemetry, sent by OTLP over HTTP. Loaded only when somebody asked for traces. The standard variables hold:
 * OTEL_EXPORTER_OTLP_* (address, headers, timeout, compression), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
 * OTEL_TRACES_SAMPLER and its ARG.
 *
 * Nothing is registered globally: several may live in one process, and no library of others starts to trace.
 */
import { type Attributes, type Context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { asAppError, type SpanStart, type Tracer } from '@space/core';

export interface TracesOptions {
  /** Base URL of the receiver, without `/v1/traces`; undefined: what OTEL_EXPORTER_OTLP_* say. */
  readonly url?: string | undefined;
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface Traces extends Tracer {
  /** Sends what is left, within the time limit of the exporter. What cannot be sent is given up. */
  close(): Promise<void>;
}

export function openTraces({ url, version, env }: TracesOptions): Traces {
  const exporter = new OTLPTraceExporter(url === undefined ? {} : { url: `${url.replace(/\/+$/, '')}/v1/traces` });
  const named = resourceFromAttributes({ 'service.name': 'space', 'service.version': version });
  const fromEnv = detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] });
  const provider = new TracerProvider({
    resource: defaultResource().merge(named).merge(fromEnv),
    sampler: samplerFrom(env['OTEL_TRACES_SAMPLER'], env['OTEL_TRACES_SAMPLER_ARG']),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer('space', version);
  const contexts = new AsyncLocalStorageContextManager().enable();

  return {
    span(start, work) {
      const parent = parentOf(start, contexts.active());
      const kind = start.traceparent === undefined ? SpanKind.INTERNAL : SpanKind.SERVER;
      const span = tracer.startSpan(start.name, { kind, attributes: { ...start.attributes } as Attributes }, parent);
      return contexts.with(trace.setSpan(parent, span), async () => {
        try {
          return await work((more) => span.setAttributes({ ...more }));
        } catch (thrown) {
          const { code, kind } = asAppError(thrown);
          span.setAttribute('error.type', code);
          // What a caller did wrong is no error of ours.
          if (kind.status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
          throw thrown;
        } finally {
          span.end();
        }
      });
    },
    traceparent() {
      const span = trace.getSpanContext(contexts.active());
      if (span === undefined) return undefined;
      return `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`;
    },
    async close() {
      contexts.disable();
      await provider.shutdown().catch(() => undefined);
    },
  };
}

function parentOf({ traceparent }: SpanStart, active: Context): Context {
  const remote = traceparent === undefined ? null : parseTraceParent(traceparent);
  return remote === null ? active : trace.setSpanContext(ROOT_CONTEXT, { ...remote, isRemote: true });
}

/** By the names of OpenTelemetry's specification. */
function samplerFrom(name = 'parentbased_always_on', argument = '1'): Sampler {
  const ratio = Number(argument);
  const roots: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(Number.isFinite(ratio) ? ratio : 1),
  };
  const isParentBased = name.startsWith('parentbased_');
  const root = roots[name.replace(/^parentbased_/, '')]?.() ?? new AlwaysOnSampler();
  return isParentBased ? new ParentBasedSampler({ root }) : root;
}
