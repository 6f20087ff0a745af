/** ports: the TCP ports of a sandbox, shared with others and forwarded to this machine. */
import { type Forwarded, type Sandbox, type Share, SpaceError } from '@space/sdk';
import { type Cli, duration, verb } from '../cli.ts';
import type { Context } from '../context.ts';
import { CliError, usage } from '../errors.ts';
import { nextSignal } from '../next-signal.ts';
import { ageText } from '../output.ts';
import { pickOne, resolveSandbox } from '../resolve.ts';
import { defined } from './options.ts';

const MAX_PORT = 65_535;

interface Way {
  /** 0: any free one. */
  readonly localPort: number;
  readonly port: number;
}

export function ports(cli: Cli) {
  const group = verb('ports', 'ports of a sandbox: list who may reach them, share them, forward them to this machine')
    .argument('<sandbox>')
    .action(
      cli.run(async (context, _, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const shares = await sandbox.ports.shares();
        context.out.table(shares, ['PORT', 'ID', 'NAME', 'AGE', 'EXPIRES'], shares.map(rowOf));
      }),
    );
  for (const make of [url, share, revoke, forward]) group.addCommand(make(cli));
  return group;
}

function url(cli: Cli) {
  return verb('url', 'print where a port opens in a browser; it is private, see `share`')
    .argument('<sandbox>')
    .argument('<port>', 'of the sandbox', portNumber)
    .action(
      cli.run(async (context, _, reference, port) => {
        const sandbox = await resolveSandbox(reference, context);
        const found = await sandbox.ports.url(port);
        context.out.result({ url: found }, () => found);
      }),
    );
}

function share(cli: Cli) {
  return verb('share', 'let whoever has a link reach a port; the link is printed this once')
    .argument('<sandbox>')
    .argument('<port>', 'of the sandbox', portNumber)
    .option('-n, --name <name>', 'to know it by')
    .option('--expires <time>', 'from now on, e.g. 1h; at most 30d (default: 24h)', duration)
    .action(
      cli.run(async (context, { name, expires }, reference, port) => {
        const sandbox = await resolveSandbox(reference, context);
        const made = await sandbox.ports.share(port, defined({ name, expiresInMs: expires }));
        if (made.url === null) context.out.note('Previews have no names here: this token goes in X-Space-Share.');
        context.out.result(made, () => made.url ?? made.token ?? []);
      }),
    );
}

function revoke(cli: Cli) {
  return verb('revoke', 'end shares, and the connections by them')
    .aliases(['rm', 'delete'])
    .argument('<sandbox>')
    .argument('<share...>', 'its id or name, or the beginning of either')
    .action(
      cli.run(async (context, _, reference, references) => {
        const sandbox = await resolveSandbox(reference, context);
        const shares = await sandbox.ports.shares();
        const found = references.map((each) => pickOne('share', each, shares, `space ports ${reference}`));
        for (const { id } of found) {
          await sandbox.ports.revoke(id);
          context.out.item({ id, revoked: true }, () => id);
        }
      }),
    );
}

function forward(cli: Cli) {
  return verb('forward', 'connect ports of this machine (127.0.0.1) to those of a sandbox, until Ctrl-C')
    .argument('<sandbox>')
    .argument('<port...>', 'of the sandbox, or LOCAL:PORT; 0:PORT takes any free one', way)
    .action(
      cli.run(async (context, _, reference, ways) => {
        const sandbox = await resolveSandbox(reference, context);
        const gone = Promise.withResolvers<never>();
        const ended = Promise.race([nextSignal(context.io.signals), gone.promise]);
        ended.catch(() => undefined);
        await using open = new AsyncDisposableStack();
        for (const each of ways) open.use(await openWay(sandbox, each, context, gone.reject));
        context.out.note('Ctrl-C ends it.');
        return await ended;
      }),
    );
}

async function openWay(
  sandbox: Sandbox,
  { localPort, port }: Way,
  { out }: Context,
  onGone: (error: SpaceError) => void,
): Promise<Forwarded> {
  const onError = (error: SpaceError) => {
    if (error.code === 'not_found') onGone(error);
    else out.warn(`port ${port}: ${error.detail} (${error.code})`);
  };
  try {
    const forwarded = await sandbox.ports.forward(port, { localPort, onError });
    const { localHost, localPort: bound } = forwarded;
    out.item({ localHost, localPort: bound, port }, () => `${localHost}:${bound} leads to port ${port}`);
    return forwarded;
  } catch (error) {
    if (!(error instanceof SpaceError) || error.code !== 'misused') throw error;
    throw new CliError('local', error.detail, `Choose another, like 8080:${port}, or 0:${port} for any free one.`);
  }
}

function portNumber(text: string): number {
  return portFrom(1, text);
}

function way(text: string, before: readonly Way[] = []): Way[] {
  const [first = '', second, more] = text.split(':');
  if (more !== undefined) throw usage(`"${text}" is not a port.`, 'Give it like 5432, or 8080:80.');
  const port = portNumber(second ?? first);
  return [...before, { localPort: second === undefined ? port : portFrom(0, first), port }];
}

function portFrom(least: number, text: string): number {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : -1;
  if (port >= least && port <= MAX_PORT) return port;
  throw usage(`"${text}" is not a port.`, `Give a number from ${least} to ${MAX_PORT}.`);
}

function rowOf({ port, id, name, createdAt, expiresAt }: Share): string[] {
  return [String(port), id, name ?? '-', ageText(createdAt), expiresAt];
}
