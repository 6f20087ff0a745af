/** capabilities. */
import { getCapabilities } from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { inert } from '../inert.ts';
import { bytesText } from '../output.ts';

export function capabilities(cli: Cli) {
  return verb('capabilities', 'what the server can do here, how fast, and what space is left').action(
    cli.run(async ({ out, connection }) => {
      const all = await getCapabilities(connection);
      const { accelerator, runtime, vmmVersion, jail, memory, vaults } = all;
      out.result(all, () =>
        [
          `guest code  ${accelerator.name}: ${accelerator.reason}`,
          ...(accelerator.remedy === null ? [] : [`            ${accelerator.remedy}`]),
          `VMM         ${runtime} ${vmmVersion}`,
          `memory      ${memory.promisedMib} of ${memory.totalMib} MiB promised`,
          ...vaults.map(
            ({ name, totalBytes, availableBytes, encrypted }) =>
              `vault       ${name}: ${bytesText(availableBytes)} of ${bytesText(totalBytes)} left` +
              `${encrypted ? ', encrypted' : ', not encrypted'}`,
          ),
          `limits      ${jail.inForce.join(', ') || 'none'} in force`,
          ...jail.missing.map(({ limit, reason, remedy }) => `            without ${limit}: ${reason} ${remedy}`),
        ].map(inert),
      );
    }),
  );
}
