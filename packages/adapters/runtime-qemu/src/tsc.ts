/** The rate of the host's TSC, which is the guest's under emulation. The launcher measures it: that takes native code. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const MEASURE_LIMIT_MS = 10_000;

/** In kHz, right to a few ppm. */
export async function measureTscKhz(launcher: string): Promise<number> {
  const { stdout } = await promisify(execFile)(launcher, ['tsc-khz'], { timeout: MEASURE_LIMIT_MS, env: {} });
  const khz = Number(stdout);
  if (!Number.isSafeInteger(khz) || khz <= 0) throw new Error('The launcher does not tell the rate of the TSC');
  return khz;
}
