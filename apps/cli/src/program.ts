/** The verbs, and what `--help` says beside them. */
import { Command } from '@commander-js/extra-typings';
import type { Cli } from './cli.ts';
import { approvals } from './verbs/approvals.ts';
import * as archives from './verbs/archives.ts';
import { audit } from './verbs/audit.ts';
import * as commands from './verbs/commands.ts';
import { conformance } from './verbs/conformance.ts';
import { cp } from './verbs/cp.ts';
import { keys } from './verbs/keys.ts';
import { logs } from './verbs/logs.ts';
import { egress, network } from './verbs/network.ts';
import { capabilities } from './verbs/platform.ts';
import * as points from './verbs/points.ts';
import { ports } from './verbs/ports.ts';
import * as sandboxes from './verbs/sandboxes.ts';
import { schedules } from './verbs/schedules.ts';
import { bindings, secrets } from './verbs/secrets.ts';
import { templates } from './verbs/templates.ts';
import { top } from './verbs/top.ts';
import { vaults } from './verbs/vaults.ts';

/** Verbs on this machine, which the script `space` carries out. */
export const HOST_VERBS = {
  up: 'serve the platform on this machine',
  down: 'stop it: every sandbox is paused, and kept',
  doctor: 'what this machine has and lacks for it, and what to do',
  uninstall: 'remove it from this machine, with all that it keeps',
} as const;

const HOST_HELP = `
On this machine:
${Object.entries(HOST_VERBS)
  .map(([name, summary]) => `  ${name.padEnd(29)}${summary}`)
  .join('\n')}

Completion: source <(space completion bash), or zsh, in the file that your shell reads at its start.

Where a sandbox is meant, give its id, its name, or the beginning of either. SPACE_API_KEY, SPACE_URL and SPACE_PROJECT say
whom to call and as whom; without them, the config file does that \`space up\` writes at its first start.`;

export function buildProgram(cli: Cli) {
  const program = new Command('space')
    .description(
      'Sandboxes for AI agents: microVMs that can be snapshotted, forked, rewound and paused while they run.',
    )
    .enablePositionalOptions()
    .showHelpAfterError(false)
    .addHelpText('after', HOST_HELP);
  const all = [
    commands.run,
    sandboxes.create,
    sandboxes.ls,
    sandboxes.get,
    commands.exec,
    commands.shell,
    cp,
    ports,
    network,
    egress,
    approvals,
    secrets,
    vaults,
    bindings,
    schedules,
    logs,
    top,
    points.snapshot,
    points.timeline,
    points.fork,
    points.rewind,
    sandboxes.pause,
    sandboxes.resume,
    sandboxes.rm,
    points.snapshots,
    archives.exporting,
    archives.archive,
    archives.archives,
    archives.move,
    archives.importing,
    templates,
    keys,
    audit,
    capabilities,
    conformance,
  ];
  for (const make of all) program.addCommand(make(cli));
  return program;
}
