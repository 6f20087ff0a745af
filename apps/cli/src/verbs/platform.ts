/** templates and capabilities. */
import { getCapabilities, listTemplates, type Template } from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { inert } from '../inert.ts';
import { bytesText } from '../output.ts';

export function templates(cli: Cli) {
  return verb('templates', 'list what sandboxes can be created from').action(
    cli.run(async ({ out, connection }) => {
      const all = await listTemplates(connection);
      out.table(
        all,
        ['NAME', 'READY SNAPSHOTS'],
        all.map((template) => [template.name, readyText(template)]),
      );
    }),
  );
}

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

function readyText({ ready }: Template): string {
  const texts = ready.map(({ size, state, step, progress }) => {
    const text = `${size.vcpus} CPU, ${size.memoryMib} MiB`;
    return state === 'ready' ? text : `${text} (${step}, ${Math.round(progress * 100)} %)`;
  });
  return texts.join('; ') || 'none yet: the first create makes one';
}
