/** secrets, bindings: what is placed in requests outside of sandboxes, and in which. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { InvalidArgumentError } from '@commander-js/extra-typings';
import {
  type BindingOptions,
  deleteSecret,
  deleteSecretBinding,
  listSecretBindings,
  listSecrets,
  type Secret,
  type SecretBinding,
  setSecret,
  setSecretBinding,
} from '@space/sdk';
import { type Cli, verb } from '../cli.ts';
import type { Io } from '../context.ts';
import { usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { ageText } from '../output.ts';
import { resolveSandbox } from '../resolve.ts';
import { defined } from './options.ts';

type Place = BindingOptions['place'];

export function secrets(cli: Cli) {
  const group = verb('secrets', 'list the secrets of the organisation; their values are shown nowhere').action(
    cli.run(async ({ out, connection }) => {
      const all = await listSecrets(connection);
      out.table(all, ['NAME', 'FROM', 'VERSION', 'CHANGED'], all.map(rowOfSecret));
    }),
  );
  group.addCommand(
    verb('set', 'set the value of a secret, read from standard input or asked for; or say where it comes from')
      .argument('<name>')
      .option('--store <store>', 'it comes from this store, which the operator has configured')
      .option('--path <path>', 'where in the store')
      .option('--field <field>', 'which field of what is there')
      .action(
        cli.run(async ({ io, out, connection }, { store, path, field }, name) => {
          if ((store === undefined) !== (path === undefined) || (store === undefined && field !== undefined)) {
            throw usage('--store and --path belong together.', 'Give both, or neither to set a value.');
          }
          const value =
            store === undefined || path === undefined
              ? await valueFrom(io)
              : { kind: 'store' as const, store, path, ...defined({ field }) };
          const set = await setSecret(name, value, connection);
          out.result(set, () => set.name);
        }),
      ),
  );
  group.addCommand(
    verb('rm', 'delete a secret, with its bindings')
      .alias('delete')
      .argument('<name>')
      .action(
        cli.run(async ({ out, connection }, _, name) => {
          await deleteSecret(name, connection);
          out.result({ name, deleted: true }, () => name);
        }),
      ),
  );
  return group;
}

export function bindings(cli: Cli) {
  const group = verb('bindings', 'list which requests secrets are placed in').action(
    cli.run(async ({ out, connection }) => {
      const all = await listSecretBindings(connection);
      out.table(all, ['NAME', 'SECRET', 'REQUESTS', 'PLACE', 'PROJECTS', 'VARIABLE'], all.map(rowOfBinding));
    }),
  );
  group.addCommand(
    verb('set', 'place a secret in requests to these hosts; replaces the binding of that name')
      .argument('<name>')
      .requiredOption('--secret <secret>', 'which one')
      .requiredOption('--host <host>', 'a host, or *.HOST for what is below it (again for more)', again)
      .option('--bearer', 'as "Authorization: Bearer …"')
      .option('--basic <username>', 'as the password of basic authentication')
      .option('--header <header>', 'in this header; HEADER:PREFIX for what stands before it')
      .option('--query <name>', 'in the query, by this name')
      .option('--port <port>', 'only there (default: 443; again for more)', ports)
      .option('--method <method>', 'only for this method (again for more)', again)
      .option('--path <path>', 'only for this path and what is below it (again for more)', again)
      .option(
        '--for <project>',
        'a project whose sandboxes may use it, or "all"; without it none may (again for more)',
        again,
      )
      .option('--env <variable>', 'the variable that shows its placeholder to commands')
      .action(
        cli.run(async ({ out, connection }, options, name) => {
          const { secret, host: hosts, port, method: methods, path: paths, for: projects = [], env } = options;
          const binding = await setSecretBinding(name, {
            ...connection,
            secret,
            hosts,
            place: placeOf(options),
            projects: projects.includes('all') ? 'all' : projects,
            ...defined({ ports: port, methods, paths, env }),
          });
          if (binding.projects.length === 0) out.warn('no project may use it yet: say --for PROJECT, or --for all');
          out.result(binding, () => binding.name);
        }),
      ),
  );
  group.addCommand(
    verb('use', 'say which bindings a sandbox uses, in the place of those that it did; none: it uses none')
      .argument('<sandbox>')
      .argument('[bindings...]')
      .action(
        cli.run(async (context, _, reference, names) => {
          const sandbox = await resolveSandbox(reference, context);
          const { fields } = await sandbox.update({ secrets: names });
          context.out.result(fields, () => fields.secrets);
        }),
      ),
  );
  group.addCommand(
    verb('rm', 'delete a binding')
      .alias('delete')
      .argument('<name>')
      .action(
        cli.run(async ({ out, connection }, _, name) => {
          await deleteSecretBinding(name, connection);
          out.result({ name, deleted: true }, () => name);
        }),
      ),
  );
  return group;
}

/** From a file or a pipe all of it, but for one line break at its end; from a terminal a line, which is not shown. */
async function valueFrom({ stdin, stderr }: Io): Promise<string> {
  const value = stdin.isTTY === true ? await asked({ stdin, stderr }) : (await text(stdin)).replace(/\r?\n$/, '');
  if (value === '') throw usage('The value is empty.', 'Give it on standard input.');
  return value;
}

async function asked({ stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>): Promise<string> {
  stderr.write('Value: ');
  const nowhere = new Writable({ write: (_bytes, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: nowhere, terminal: true, historySize: 0 });
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('line', resolve);
      lines.once('SIGINT', () => reject(usage('It was given up.', 'Nothing was set.')));
      lines.once('close', () => resolve(''));
    });
  } finally {
    lines.close();
    stderr.write('\n');
  }
}

function placeOf(options: { bearer?: true; basic?: string; header?: string; query?: string }): Place {
  const { bearer, basic, header, query } = options;
  const places: Place[] = [];
  if (bearer === true) places.push({ in: 'bearer' });
  if (basic !== undefined) places.push({ in: 'basic', username: basic });
  if (query !== undefined) places.push({ in: 'query', name: query });
  if (header !== undefined) {
    const at = header.indexOf(':');
    const [name, prefix] = at < 0 ? [header, ''] : [header.slice(0, at), header.slice(at + 1).trimStart()];
    places.push({ in: 'header', name, prefix });
  }
  const [only, ...more] = places;
  if (only !== undefined && more.length === 0) return only;
  throw usage('There must be one place for the secret.', 'Give --bearer, --basic, --header or --query.');
}

function again(value: string, before: string[] = []): string[] {
  return [...before, value];
}

function ports(value: string, before: number[] = []): number[] {
  if (!/^[0-9]{1,5}$/.test(value)) throw new InvalidArgumentError('It is a number.');
  return [...before, Number(value)];
}

function rowOfSecret({ name, source, version, updatedAt }: Secret): string[] {
  const from =
    source.kind === 'local' ? 'the gateway' : `${source.store}${source.kind === 'store' ? ` ${source.path}` : ''}`;
  return [name, inert(from), `${version}`, ageText(updatedAt)];
}

function rowOfBinding({
  name,
  secret,
  hosts,
  ports: at,
  methods,
  paths,
  place,
  projects,
  env,
}: SecretBinding): string[] {
  const port = at === 'all' ? ':*' : at.length === 1 && at[0] === 443 ? '' : `:${at.join(',')}`;
  const places = hosts.map((host) => `${host}${port}`);
  const what = [methods === 'all' ? 'any' : methods.join(','), ...places, ...(paths.includes('/') ? [] : paths)].join(
    ' ',
  );
  const where = 'name' in place ? `${place.in} ${place.name}` : place.in;
  return [name, secret, inert(what), inert(where), projects === 'all' ? 'all' : `${projects.length}`, env ?? '-'];
}
