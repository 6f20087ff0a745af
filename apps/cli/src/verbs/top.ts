/** top: what sandboxes take of the host. It wakes none. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Sandbox, type SandboxMetrics } from '@space/sdk';
import { type Cli, duration, verb } from '../cli.ts';
import type { Context } from '../context.ts';
import { bytesText, tableLines } from '../output.ts';

const HEAD = ['ID', 'NAME', 'STATUS', 'CPU', 'MEMORY', 'DISK'];
/** Asked for at once; there can be hundreds. */
const AT_ONCE = 8;
const CLEAR = '\x1b[H\x1b[2J';

interface Row {
  readonly id: string;
  readonly name: string | null;
  readonly status: string;
  readonly now: SandboxMetrics['now'];
}

export function top(cli: Cli) {
  return verb('top', 'what running sandboxes take of the host')
    .option('-a, --all', 'the others too')
    .option('-1, --once', 'print it once (default: unless you are on a terminal)')
    .option('-i, --interval <time>', 'how often it is looked at', duration, 2_000)
    .action(
      cli.run(async (context, { all, once, interval }) => {
        const { io, out } = context;
        const isOnce = once === true || out.json || io.stdout.isTTY !== true;
        for (;;) {
          const rows = (await readRows(context, all === true)).sort(byCpu);
          if (isOnce) {
            out.table(rows, HEAD, rows.map(cellsOf));
            return;
          }
          const visible = tableLines(HEAD, rows.map(cellsOf), (text) => out.dim(text)).slice(
            0,
            (io.stdout.rows ?? 24) - 1,
          );
          io.stdout.write(`${CLEAR}${visible.join('\n')}\n`);
          await sleep(interval);
        }
      }),
    );
}

async function readRows({ connection }: Context, all: boolean): Promise<Row[]> {
  const sandboxes = await Sandbox.list({ ...connection, ...(all ? {} : { status: 'running' }) });
  const rows: Row[] = [];
  for (let at = 0; at < sandboxes.length; at += AT_ONCE) {
    rows.push(...(await Promise.all(sandboxes.slice(at, at + AT_ONCE).map(readRow))));
  }
  return rows;
}

/** One that was deleted meanwhile takes nothing. */
async function readRow(sandbox: Sandbox): Promise<Row> {
  const { id, name, status } = sandbox;
  const metrics = await sandbox.metrics().catch(() => null);
  return { id, name, status, now: metrics?.now ?? null };
}

function byCpu(a: Row, b: Row): number {
  return (b.now?.cpuPercent ?? -1) - (a.now?.cpuPercent ?? -1);
}

function cellsOf({ id, name, status, now }: Row): string[] {
  const cpu = now?.cpuPercent ?? null;
  return [
    id,
    name ?? '-',
    status,
    cpu === null ? '-' : `${Math.round(cpu)} %`,
    now === null ? '-' : bytesText(now.memoryBytes),
    now === null ? '-' : bytesText(now.diskBytes),
  ];
}
