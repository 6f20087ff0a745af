/**
 * What the control plane did since its process started, and what there is now, in Prometheus' text format. No tenant, no
 * sandbox and no name is in it: labels come from closed sets, so that their number is bounded.
 */
import { OPERATIONS, type Operation, type PoolStatus, SETTLED_STATES, type WayOutStatus } from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { Outcome } from './records.ts';

/** Seconds. From a warm resume to the build of a ready snapshot. */
const BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180];
const OUTCOMES: readonly Outcome[] = ['ok', 'failed', 'superseded', 'interrupted'];

interface Histogram {
  readonly counts: number[];
  sum: number;
  count: number;
}

export class Metrics {
  readonly #durations = new Map<string, Histogram>();

  operationEnded(operation: Operation, outcome: Outcome, milliseconds: number): void {
    const key = labelsOf(operation, outcome);
    const seconds = milliseconds / 1000;
    const histogram = this.#durations.get(key) ?? { counts: BUCKETS.map(() => 0), sum: 0, count: 0 };
    this.#durations.set(key, histogram);
    for (const [index, bound] of BUCKETS.entries())
      if (seconds <= bound) histogram.counts[index] = (histogram.counts[index] ?? 0) + 1;
    histogram.sum += seconds;
    histogram.count++;
  }

  async render({ records, node }: Pick<ControlPorts, 'records' | 'node'>): Promise<string> {
    const [sandboxes, { memory, vaults, pool, wayOut }] = await Promise.all([
      records.countSandboxes(),
      node.capabilities(),
    ]);
    const { connections, idle, waiting } = records.load();
    const figures: Figure[] = [
      {
        name: 'space_sandboxes',
        help: 'Sandboxes, by the state they are settled in.',
        values: SETTLED_STATES.filter((state) => state !== 'deleted').map((state) => [
          `{state="${state}"}`,
          sandboxes.get(state) ?? 0,
        ]),
      },
      { name: 'space_memory_promised_mib', help: 'Memory that microVMs may take.', values: [['', memory.promisedMib]] },
      { name: 'space_memory_total_mib', help: 'Memory that can be promised.', values: [['', memory.totalMib]] },
      ...poolFigures(pool),
      ...wayOutFigures(wayOut),
      {
        name: 'space_vault_available_bytes',
        help: 'What can still be written to a vault.',
        values: vaults.map(({ name, availableBytes }) => [`{vault="${escaped(name)}"}`, availableBytes]),
      },
      {
        name: 'space_database_connections',
        help: 'Connections to the database, and callers that wait for one.',
        values: [
          ['{state="open"}', connections],
          ['{state="idle"}', idle],
          ['{state="waiting"}', waiting],
        ],
      },
    ];
    return [...this.#renderDurations(), ...figures.flatMap(renderFigure), ''].join('\n');
  }

  #renderDurations(): string[] {
    const name = 'space_operation_duration_seconds';
    const help = 'Time from the begin of an operation to its end; of a delete, also of each attempt that fails.';
    const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`];
    for (const operation of OPERATIONS) {
      for (const outcome of OUTCOMES) {
        const labels = labelsOf(operation, outcome);
        const histogram = this.#durations.get(labels);
        if (histogram === undefined) continue;
        for (const [index, bound] of BUCKETS.entries()) {
          lines.push(`${name}_bucket{${labels},le="${bound}"} ${histogram.counts[index]}`);
        }
        lines.push(`${name}_bucket{${labels},le="+Inf"} ${histogram.count}`);
        lines.push(`${name}_sum{${labels}} ${histogram.sum}`, `${name}_count{${labels}} ${histogram.count}`);
      }
    }
    return lines;
  }
}

interface Figure {
  readonly name: string;
  /** Left out: a gauge. */
  readonly type?: 'gauge' | 'counter' | 'summary';
  readonly help: string;
  readonly values: readonly (readonly [labels: string, value: number])[];
}

/** The share of hits is what the pool is good for. */
function poolFigures(pool: PoolStatus): Figure[] {
  return [
    {
      name: 'space_pool_claims_total',
      type: 'counter',
      help: 'Creates that took a member of the pool (hit), and that found none (miss), since the node was started.',
      values: [
        ['{outcome="hit"}', pool.hits],
        ['{outcome="miss"}', pool.misses],
      ],
    },
    {
      name: 'space_pool_members',
      help: 'Ready sandboxes that nobody owns yet.',
      values: [
        ['{state="ready"}', pool.members],
        ['{state="filling"}', pool.filling],
      ],
    },
    { name: 'space_pool_memory_mib', help: 'Memory that they take.', values: [['', pool.takenMib]] },
    {
      name: 'space_pool_budget_mib',
      help: 'Memory that they may take; 0: there is no pool.',
      values: [['', pool.budgetMib]],
    },
    {
      name: 'space_pool_fill_seconds',
      type: 'summary',
      help: 'Time that it took to start and warm members.',
      values: [
        ['_sum', pool.fillMs / 1000],
        ['_count', pool.fills],
      ],
    },
    {
      name: 'space_pool_failed_fills_total',
      type: 'counter',
      help: 'Members that could not be started.',
      values: [['', pool.failedFills]],
    },
    {
      name: 'space_pool_given_up_total',
      type: 'counter',
      help: 'Members that were ended, since others wanted what they took or nobody wanted them any more.',
      values: [['', pool.givenUp]],
    },
  ];
}

function wayOutFigures({ open, carried, refused, failed, outBytes, inBytes }: WayOutStatus): Figure[] {
  return [
    {
      name: 'space_egress_open_connections',
      help: 'Connections that programs in sandboxes have opened to the outside.',
      values: [['', open]],
    },
    {
      name: 'space_egress_connections_total',
      type: 'counter',
      help: 'Those that have ended: carried to their end, refused by the gateway, or cut for any other reason.',
      values: [
        ['{outcome="carried"}', carried],
        ['{outcome="refused"}', refused],
        ['{outcome="failed"}', failed],
      ],
    },
    {
      name: 'space_egress_bytes_total',
      type: 'counter',
      help: 'Bytes that passed out of sandboxes and into them, since the node was started.',
      values: [
        ['{direction="out"}', outBytes],
        ['{direction="in"}', inBytes],
      ],
    },
  ];
}

function renderFigure({ name, type = 'gauge', help, values }: Figure): string[] {
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...values.map(([labels, value]) => `${name}${labels} ${value}`),
  ];
}

function labelsOf(operation: Operation, outcome: Outcome): string {
  return `operation="${operation}",outcome="${outcome}"`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
