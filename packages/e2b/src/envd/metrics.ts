/** GET /metrics: what the sandbox uses of what it has. Memory is as its own kernel counts it. */
import { AppError } from '@space/core';
import type { EnvdCall } from './call.ts';

const MEBIBYTE = 1024 * 1024;
const MAX_BYTES = 64 * 1024;

export async function metricsOf(call: EnvdCall) {
  const { useCases, caller, sandboxId: id } = call;
  const [sandbox, metrics, memory] = await Promise.all([
    useCases.getSandbox(caller, { id }),
    useCases.getSandboxMetrics(caller, { id }),
    memoryOf(call),
  ]);
  const { vcpus, memoryMib, diskMib } = sandbox.size;
  const total = memory.get('MemTotal') ?? memoryMib * MEBIBYTE;
  const used = memory.has('MemAvailable') ? total - (memory.get('MemAvailable') ?? 0) : (metrics.now?.memoryBytes ?? 0);
  return {
    ts: Math.floor(Date.now() / 1000),
    cpu_count: vcpus,
    cpu_used_pct: metrics.now?.cpuPercent ?? 0,
    mem_total: total,
    mem_used: used,
    mem_cache: memory.get('Cached') ?? 0,
    mem_total_mib: Math.floor(total / MEBIBYTE),
    mem_used_mib: Math.floor(used / MEBIBYTE),
    disk_total: diskMib * MEBIBYTE,
    disk_used: metrics.now?.diskBytes ?? 0,
  };
}

/** In bytes, by the names of /proc/meminfo. */
async function memoryOf({ useCases, caller, sandboxId: id }: EnvdCall): Promise<ReadonlyMap<string, number>> {
  try {
    const { body } = await useCases.readFile(caller, { id, path: '/proc/meminfo', user: 'root', length: MAX_BYTES });
    const text = Buffer.concat(await Array.fromAsync(body)).toString('utf8');
    return new Map(
      [...text.matchAll(/^([A-Za-z_()0-9]+):\s+([0-9]{1,15}) kB$/gm)].map(([, name = '', kB]) => [
        name,
        Number(kB) * 1024,
      ]),
    );
  } catch (thrown) {
    if (thrown instanceof AppError && thrown.code.startsWith('file_')) return new Map();
    throw thrown;
  }
}
