/** keys: the API keys of the organisation. */
import { type ApiKey, createKey, listKeys, type Role, revokeKey } from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import { usage } from '../errors.ts';
import { ageText } from '../output.ts';
import { pickOne } from '../resolve.ts';
import { defined } from './options.ts';

const ROLES = ['admin', 'developer', 'viewer', 'reviewer', 'auditor', 'key_holder'] as const satisfies readonly Role[];

export function keys(cli: Cli) {
  const group = verb('keys', 'list the API keys of the organisation').action(
    cli.run(async ({ out, connection }) => {
      const all = await listKeys(connection);
      out.table(all, ['ID', 'NAME', 'KEY', 'ROLES', 'PROJECT', 'AGE', 'STATE'], all.map(rowOf));
    }),
  );
  group.addCommand(
    verb('create', 'make an API key; its secret is printed this once')
      .requiredOption('-r, --role <role>', `${ROLES.join(', ')} (again for more)`, role)
      .option('-n, --name <name>', 'to know it by')
      .option('--only-project <project>', 'the only project that it reaches')
      .action(
        cli.run(async ({ out, connection }, { role: roles, name, onlyProject }) => {
          const made = await createKey({ ...connection, roles, ...defined({ name, onlyProject }) });
          out.result(made, () => made.secretKey ?? '');
        }),
      ),
  );
  group.addCommand(
    verb('revoke', 'revoke an API key, at once and for good')
      .aliases(['rm', 'delete'])
      .argument('<key>', 'its id, or the beginning of it')
      .action(
        cli.run(async ({ out, connection }, _, reference) => {
          const living = (await listKeys(connection)).filter(({ revokedAt }) => revokedAt === null);
          const { id } = pickOne('API key in force', reference, living, 'space keys');
          await revokeKey(id, connection);
          out.result({ id, revoked: true }, () => id);
        }),
      ),
  );
  return group;
}

function role(text: string, before: readonly Role[] = []): Role[] {
  const known = ROLES.find((one) => one === text);
  if (known === undefined) throw usage(`There is no role "${text}".`, `Use one of ${ROLES.join(', ')}.`);
  return [...before, known];
}

function rowOf({ id, name, prefix, roles, project, createdAt, revokedAt }: ApiKey): string[] {
  const state = revokedAt === null ? 'in force' : `revoked ${revokedAt}`;
  return [id, name ?? '-', `${prefix}…`, roles.join(','), project ?? 'all', ageText(createdAt), state];
}
