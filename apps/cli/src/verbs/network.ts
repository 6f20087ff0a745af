/** network, egress: what a sandbox may reach, and what it did. */
import { type Command, InvalidArgumentError, type OptionValues } from '@commander-js/extra-typings';
import {
  type AskRule,
  type EgressRecord,
  exportAudit,
  type NetworkChoice,
  type NetworkRule,
  type SandboxFields,
} from '@space/sdk';
import { type Cli, verb, wholeNumber } from '../cli.ts';
import { usage } from '../errors.ts';
import { inert } from '../inert.ts';
import { resolveSandbox } from '../resolve.ts';

export const PRESETS = ['none', 'packages', 'internet'] as const;
const DEFAULT_RECORDS = 50;
const RULE_HELP = 'HOST[:PORT][/PATH]';

type Denial = NonNullable<NetworkChoice['deny']>[number];

export interface NetworkOptions {
  readonly network?: NetworkChoice['preset'] | undefined;
  readonly allow?: NetworkRule[] | undefined;
  readonly allowWrite?: NetworkRule[] | undefined;
  readonly allowTls?: NetworkRule[] | undefined;
  readonly allowTcp?: NetworkRule[] | undefined;
  readonly allowGit?: NetworkRule[] | undefined;
  readonly allowGraphql?: NetworkRule[] | undefined;
  readonly allowMcp?: NetworkRule[] | undefined;
  readonly allowJsonRpc?: NetworkRule[] | undefined;
  readonly ask?: AskRule[] | undefined;
  readonly askWrite?: AskRule[] | undefined;
  readonly askTools?: AskRule[] | undefined;
  readonly deny?: Denial[] | undefined;
  readonly denyTools?: Denial[] | undefined;
}

const NETWORK_HELP = {
  network: ['--network <preset>', 'what it may reach: none, packages or internet', presetOf],
  allow: [`--allow <${RULE_HELP}>`, 'also read there, by HTTP (port 443; again for more)', reads],
  allowWrite: [`--allow-write <${RULE_HELP}>`, 'also read and write there, by HTTP', writes],
  allowTls: ['--allow-tls <HOST[:PORT]>', 'also TLS that is not opened', opaque('tls')],
  allowTcp: ['--allow-tcp <HOST:PORT>', 'also any bytes, e.g. a database or SSH', opaque('tcp')],
  allowGit: [`--allow-git <${RULE_HELP}>`, 'also fetch from git repositories there', spoken('git')],
  allowGraphql: [`--allow-graphql <${RULE_HELP}>`, 'also run queries of GraphQL there', spoken('graphql')],
  allowMcp: [
    `--allow-mcp <${RULE_HELP}[#TOOL,…]>`,
    'also use an MCP server there, and call these of its tools (search_* for all that begin so)',
    spoken('mcp'),
  ],
  allowJsonRpc: [
    `--allow-json-rpc <${RULE_HELP}#METHOD,…>`,
    'also call these methods of JSON-RPC there',
    spoken('json-rpc'),
  ],
  ask: [`--ask <${RULE_HELP}>`, 'only what a reviewer has approved, each request by itself', asks('any')],
  askWrite: [`--ask-write <${RULE_HELP}>`, 'the same, of requests that write', asks('write')],
  askTools: [`--ask-tools <${RULE_HELP}#TOOL,…>`, 'the same, of calls of these tools of an MCP server', asksTools],
  deny: ['--deny <host>', 'never there (again for more)', again],
  denyTools: ['--deny-tools <HOST[/PATH]#TOOL,…>', 'never call these tools of an MCP server', deniedTools],
} as const;

/** Undefined: nothing was said. */
export function networkOf(options: NetworkOptions): NetworkChoice | undefined {
  const { network, allow = [], allowWrite = [], allowTls = [], allowTcp = [] } = options;
  const { allowGit = [], allowGraphql = [], allowMcp = [], allowJsonRpc = [] } = options;
  const spokenRules = [...allowGit, ...allowGraphql, ...allowMcp, ...allowJsonRpc];
  const rules = [...allow, ...allowWrite, ...spokenRules, ...allowTls, ...allowTcp];
  const ask = [...(options.ask ?? []), ...(options.askWrite ?? []), ...(options.askTools ?? [])];
  const deny = [...(options.deny ?? []), ...(options.denyTools ?? [])];
  if (network === undefined && rules.length === 0 && ask.length === 0 && deny.length === 0) return undefined;
  // Who only adds hosts means them beside what a sandbox has by default.
  return { preset: network ?? 'packages', allow: rules, ask, deny };
}

/** The same verb, with all of them. */
export function withNetwork<Args extends unknown[], Options extends OptionValues>(command: Command<Args, Options>) {
  return command
    .option(...NETWORK_HELP.network)
    .option(...NETWORK_HELP.allow)
    .option(...NETWORK_HELP.allowWrite)
    .option(...NETWORK_HELP.allowTls)
    .option(...NETWORK_HELP.allowTcp)
    .option(...NETWORK_HELP.allowGit)
    .option(...NETWORK_HELP.allowGraphql)
    .option(...NETWORK_HELP.allowMcp)
    .option(...NETWORK_HELP.allowJsonRpc)
    .option(...NETWORK_HELP.ask)
    .option(...NETWORK_HELP.askWrite)
    .option(...NETWORK_HELP.askTools)
    .option(...NETWORK_HELP.deny)
    .option(...NETWORK_HELP.denyTools);
}

export function network(cli: Cli) {
  return withNetwork(verb('network', 'show what a sandbox may reach; with options, replace all of it'))
    .argument('<sandbox>')
    .action(
      cli.run(async (context, options, reference) => {
        const sandbox = await resolveSandbox(reference, context);
        const choice = networkOf(options);
        const { fields } = choice === undefined ? sandbox : await sandbox.update({ network: choice });
        context.out.result(fields.network, () => networkLines(fields.network));
      }),
    );
}

export function egress(cli: Cli) {
  return verb('egress', 'list what left a sandbox or was refused, newest first')
    .argument('[sandbox]')
    .option('--last <count>', `so many at most (default: ${DEFAULT_RECORDS})`, wholeNumber)
    .option('--all', 'of all sandboxes of the organisation, oldest first; for admins and auditors')
    .option('-f, --follow', 'with --all: go on with what comes, until you end it')
    .action(
      cli.run(async (context, { last = DEFAULT_RECORDS, all = false, follow = false }, reference) => {
        if (all === (reference !== undefined) || (follow && !all)) {
          throw usage('It is either one sandbox, or --all.', 'Give a sandbox, or --all with or without --follow.');
        }
        if (reference === undefined) {
          for await (const line of exportAudit({ ...context.connection, chain: 'egress', last, follow })) {
            if (line.type === 'link') context.out.item(line.entry, () => inert(lineOf(line)));
          }
          return;
        }
        const sandbox = await resolveSandbox(reference, context);
        const records: EgressRecord[] = [];
        for await (const record of sandbox.egress()) {
          if (records.length >= last) break;
          records.push(record);
        }
        context.out.table(records, ['AT', 'OUTCOME', 'WHAT', 'STATUS', 'SENT', 'RECEIVED', 'RULE'], records.map(rowOf));
      }),
    );
}

function networkLines({ preset, allow, ask, deny }: SandboxFields['network']): string[] {
  const portsText = (ports: readonly number[] | 'all') => (ports === 'all' ? 'any port' : ports.join(', '));
  return [
    `preset  ${preset}`,
    ...allow.map(({ host, ports, protocol, access, path, speaks, tools, reads: methods }) => {
      const what = protocol === 'http' ? `${access}${path === '/' ? '' : ` ${path}`}` : protocol;
      const calls = [speaks ?? [], tools ?? [], methods ?? []].flat().join(' ');
      return `allow   ${host} (${portsText(ports)}): ${what}${calls === '' ? '' : `, ${calls}`}`;
    }),
    ...ask.map(({ host, ports, access, path, speaks, tools }) => {
      const what = tools === undefined ? [access, speaks ?? []].flat() : ['tools', ...tools];
      return `ask     ${host} (${portsText(ports)}): ${what.join(' ')}${path === '/' ? '' : ` ${path}`}`;
    }),
    ...deny.map((rule) => `deny    ${typeof rule === 'string' ? rule : toolsText(rule)}`),
  ];
}

function toolsText({ host, path, tools }: Exclude<SandboxFields['network']['deny'][number], string>): string {
  return `${host}${path === '/' ? '' : path}: tools ${tools.join(' ')}`;
}

function lineOf({ entry }: { readonly entry: object }): string {
  if ('event' in entry)
    return 'the gateway is another one: what the one before had not told yet, of a second or less, may be lost';
  const record = entry as EgressRecord & { readonly sandbox: string };
  const [at = '', outcome = '', what = '', ...rest] = rowOf(record);
  return [at, record.sandbox, outcome.padEnd(8), what, ...rest].join('  ');
}

function rowOf(record: EgressRecord): string[] {
  const { at, outcome, protocol, method, host, port, path, calls, status, sentBytes, receivedBytes, rule } = record;
  const what =
    method === null
      ? `${protocol} ${host}:${port}`
      : `${method} ${host}:${port}${path ?? ''}${calls === null ? '' : ` (${calls})`}`;
  return [at, outcome, what, `${status ?? '-'}`, `${sentBytes}`, `${receivedBytes}`, rule ?? '-'];
}

function presetOf(text: string): (typeof PRESETS)[number] {
  const preset = PRESETS.find((one) => one === text);
  if (preset === undefined) throw new InvalidArgumentError(`It is one of ${PRESETS.join(', ')}.`);
  return preset;
}

function reads(text: string, before: NetworkRule[] = []): NetworkRule[] {
  return [...before, { ...parse(text), access: 'read' }];
}

function writes(text: string, before: NetworkRule[] = []): NetworkRule[] {
  return [...before, { ...parse(text), access: 'write' }];
}

function asks(access: 'any' | 'write') {
  return (text: string, before: AskRule[] = []): AskRule[] => [...before, { ...parse(text), access }];
}

function opaque(protocol: 'tls' | 'tcp') {
  return (text: string, before: NetworkRule[] = []): NetworkRule[] => {
    const { host, ports, path } = parse(text);
    if (path !== undefined) throw usage(`"${text}" has a path, and nothing of it is read.`, 'Leave the path out.');
    if (ports === undefined && protocol === 'tcp') throw usage(`"${text}" has no port.`, 'Give it like HOST:PORT.');
    return [...before, { host, protocol, ports: ports ?? [443] }];
  };
}

/** What reads: `--allow-write` is for the rest. */
function spoken(speaks: 'git' | 'mcp' | 'graphql' | 'json-rpc') {
  return (text: string, before: NetworkRule[] = []): NetworkRule[] => {
    const { place, names } = splitNames(text);
    if (names !== undefined && (speaks === 'git' || speaks === 'graphql')) {
      throw usage(`"${text}" names calls, which are not told apart there.`, 'Leave out what stands behind #.');
    }
    const named = names === undefined ? {} : speaks === 'mcp' ? { tools: names } : { reads: names };
    return [...before, { ...parse(place), access: 'read', speaks, ...named }];
  };
}

function asksTools(text: string, before: AskRule[] = []): AskRule[] {
  const { place, names } = splitNames(text);
  if (names === undefined) throw usage(`"${text}" names no tool.`, 'Give it like mcp.example.com/mcp#delete_*.');
  return [...before, { ...parse(place), speaks: 'mcp', tools: names }];
}

function deniedTools(text: string, before: Denial[] = []): Denial[] {
  const { place, names } = splitNames(text);
  const { host, ports, path } = parse(place);
  if (names === undefined || ports !== undefined) {
    throw usage(`"${text}" is not of the form HOST[/PATH]#TOOL,….`, 'Give it like mcp.example.com/mcp#delete_*.');
  }
  return [...before, { host, ...(path === undefined ? {} : { path }), tools: names }];
}

function splitNames(text: string): { readonly place: string; readonly names: string[] | undefined } {
  const [place = '', ...rest] = text.split('#');
  return { place, names: rest.length === 0 ? undefined : rest.join('#').split(',') };
}

function again(text: string, before: Denial[] = []): Denial[] {
  return [...before, text];
}

interface Parsed {
  readonly host: string;
  readonly ports?: readonly number[];
  readonly path?: string;
}

function parse(text: string): Parsed {
  const [, host = '', port, path] = /^(\[[^\]]+\]|[^:/\s]+)(?::([0-9]{1,5}))?(\/\S*)?$/.exec(text) ?? [];
  if (host === '') throw usage(`"${text}" is not of the form ${RULE_HELP}.`, 'Give it like api.example.com:443/v1.');
  return { host, ...(port === undefined ? {} : { ports: [Number(port)] }), ...(path === undefined ? {} : { path }) };
}
