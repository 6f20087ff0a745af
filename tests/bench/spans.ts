/** A receiver of traces (OTLP in JSON), and what the spans of many calls say together: where the time of each verb goes. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

export class SpanReceiver implements AsyncDisposable {
  readonly spans: Span[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const text = Buffer.concat(await Array.fromAsync(request)).toString();
      for (const { scopeSpans } of JSON.parse(text).resourceSpans)
        for (const { spans } of scopeSpans) this.spans.push(...spans);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  }

  static async open(): Promise<SpanReceiver> {
    const receiver = new SpanReceiver();
    await new Promise<void>((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A span of a verb, over all calls of it. Milliseconds. */
export interface Step {
  /** Names from the call down to it. */
  readonly path: readonly string[];
  /** How often it was there. */
  readonly n: number;
  /** From the start of the call, median. */
  readonly startMs: number;
  readonly p50: number;
}

/** By the name of the calls, in the order in which they begin; a parent before what it holds. */
export function stepsOf(spans: readonly Span[]): ReadonlyMap<string, readonly Step[]> {
  const byId = new Map(spans.map((span) => [`${span.traceId} ${span.spanId}`, span]));
  const found = new Map<string, { path: string[]; starts: number[]; lengths: number[] }>();
  for (const span of spans) {
    const line = lineOf(span, byId);
    const [root] = line;
    if (root === undefined) continue;
    const path = line.map(({ name }) => name);
    const key = path.join('\n');
    const step = found.get(key) ?? { path, starts: [], lengths: [] };
    step.starts.push(msBetween(root.startTimeUnixNano, span.startTimeUnixNano));
    step.lengths.push(msBetween(span.startTimeUnixNano, span.endTimeUnixNano));
    found.set(key, step);
  }
  const steps = [...found.values()].map(({ path, starts, lengths }) => ({
    path,
    n: lengths.length,
    startMs: medianOf(starts),
    p50: medianOf(lengths),
  }));
  return Map.groupBy(inOrder(steps), ({ path: [root] }) => root ?? '');
}

/** The span and all above it, the call first; empty when one of them is missing. */
function lineOf(span: Span, byId: ReadonlyMap<string, Span>): Span[] {
  const line = [span];
  for (let { parentSpanId } = span; parentSpanId !== undefined && parentSpanId !== ''; ) {
    const parent = byId.get(`${span.traceId} ${parentSpanId}`);
    if (parent === undefined) return [];
    line.unshift(parent);
    parentSpanId = parent.parentSpanId;
  }
  return line;
}

function inOrder(steps: readonly Step[], above: readonly string[] = []): Step[] {
  const below = steps.filter(
    ({ path }) => path.length === above.length + 1 && above.every((name, depth) => path[depth] === name),
  );
  return below.toSorted((a, b) => a.startMs - b.startMs).flatMap((step) => [step, ...inOrder(steps, step.path)]);
}

function msBetween(from: string, to: string): number {
  return Number(BigInt(to) - BigInt(from)) / 1e6;
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
