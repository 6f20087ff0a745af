/** vaults: what sandboxes are encrypted in, and the customer's keys that open them. */
import {
  createVault,
  deleteVault,
  listVaults,
  reinstateVault,
  revokeVault,
  rotateVaultKey,
  updateVault,
  type Vault,
} from '@space/sdk';
import { type Cli, duration, verb } from '../cli.ts';
import { usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { ageText } from '../output.ts';
import { defined } from './options.ts';

type OnRevoke = Vault['onRevoke'];

export function vaults(cli: Cli) {
  const group = verb('vaults', 'list the vaults of the organisation, and the keys that open them').action(
    cli.run(async ({ out, connection }) => {
      const { vaults: all } = await listVaults(connection);
      out.table(all, ['NAME', 'STATE', 'OPEN', 'KMS', 'KEY', 'WHEN REVOKED', 'AGE'], all.map(rowOf));
    }),
  );
  group.addCommand(
    verb('kms', 'list where the keys of vaults may be kept').action(
      cli.run(async ({ out, connection }) => {
        const { kms } = await listVaults(connection);
        out.table(
          kms,
          ['NAME', 'KIND'],
          kms.map(({ name, kind }) => [name, kind]),
        );
      }),
    ),
  );
  group.addCommand(
    verb('create', 'make a vault under a key of yours (for key holders, as all that changes keys)')
      .argument('<name>')
      .requiredOption('--kms <kms>', 'where the key is kept')
      .requiredOption('--key <key>', 'its name there: a name, an ARN, an alias')
      .option('--default', 'new sandboxes go there')
      .option('--on-revoke <what>', 'pause or kill what runs (default: pause)', onRevoke)
      .option(
        '--outage <time>',
        'how long what runs goes on while the KMS does not answer, e.g. 12h; `never`: it is not paused for that (default: 24h)',
        outage,
      )
      .action(
        cli.run(async ({ out, connection }, { kms, key, default: isDefault, onRevoke: what, outage: until }, name) => {
          const more = defined({ isDefault, onRevoke: what, ...until });
          const made = await createVault(name, { ...connection, kms, key, ...more });
          out.result(made, () => made.name);
        }),
      ),
  );
  group.addCommand(
    verb('set', 'say where new sandboxes go, and what becomes of running ones')
      .argument('<name>')
      .option('--default', 'new sandboxes go there')
      .option('--on-revoke <what>', 'pause or kill what runs', onRevoke)
      .option(
        '--outage <time>',
        'how long what runs goes on while the KMS does not answer, e.g. 12h; `never`: it is not paused for that',
        outage,
      )
      .action(
        cli.run(async ({ out, connection }, { default: isDefault, onRevoke: what, outage: until }, name) => {
          const changed = await updateVault(name, {
            ...connection,
            ...defined({ isDefault, onRevoke: what, ...until }),
          });
          out.result(changed, () => changed.name);
        }),
      ),
  );
  group.addCommand(
    verb('rotate', 'have the keys of a vault wrapped by another key; nothing encrypted is written again')
      .argument('<name>')
      .requiredOption('--kms <kms>', 'where the new key is kept')
      .requiredOption('--key <key>', 'its name there')
      .action(
        cli.run(async ({ out, connection }, { kms, key }, name) => {
          const rotated = await rotateVaultKey(name, { kms, key }, connection);
          out.result(rotated, () => `${rotated.name} is opened by ${rotated.key} of ${rotated.kms}`);
        }),
      ),
  );
  group.addCommand(
    verb('revoke', 'revoke the key of a vault: nothing in it can be read or run, and nothing is destroyed')
      .argument('<name>')
      .option('--reason <reason>', 'shown to whom it stops')
      .action(
        cli.run(async ({ out, connection }, { reason }, name) => {
          const revoked = await revokeVault(name, { ...connection, ...defined({ reason }) });
          out.result(revoked, () => revoked.name);
        }),
      ),
  );
  group.addCommand(
    verb('reinstate', 'take a revocation back: everything is there again')
      .argument('<name>')
      .action(
        cli.run(async ({ out, connection }, _, name) => {
          const back = await reinstateVault(name, connection);
          out.result(back, () => back.name);
        }),
      ),
  );
  group.addCommand(
    verb('destroy', 'destroy the keys of a vault, and with them for good what lies in it')
      .argument('<name>')
      .action(
        cli.run(async ({ out, connection }, _, name) => {
          await deleteVault(name, connection);
          out.result({ name, destroyed: true }, () => name);
        }),
      ),
  );
  return group;
}

function onRevoke(text: string): OnRevoke {
  if (text === 'pause' || text === 'kill') return text;
  throw usage(`--on-revoke is "${text}".`, 'Use pause or kill.');
}

/** In an object, since the parser takes null for nothing. */
function outage(text: string): { readonly outageMs: number | null } {
  return { outageMs: text === 'never' ? null : duration(text) };
}

function rowOf({ name, isDefault, state, open, kms, key, onRevoke: what, createdAt }: Vault): string[] {
  const isOpen = open === null ? '?' : open ? 'open' : 'closed';
  return [isDefault ? `${name} *` : name, state, isOpen, kms ?? 'plain', inert(key ?? '-'), what, ageText(createdAt)];
}
