/** The reference, generated: the API from its contract, the SDK from its docstrings, the command line from its help. */
import { execFile } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { promisify } from 'node:util';
import { PROBLEM_CODES, PROBLEMS, problemCodesOf, ROUTE_NAMES, ROUTES, type Route } from '@space/contract';
import { runCli } from '../../apps/cli/src/run-cli.ts';
import { e2bCompatibility } from './e2b-compatibility.ts';

export const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** By path below docs/reference. */
export const REFERENCE: Readonly<Record<string, () => Promise<string>>> = {
  'api.md': async () => apiReference(),
  'sdk.md': () => sdkReference(),
  'cli.md': () => cliReference(),
  'e2b.md': async () => [generated('What of E2B’s SDKs works', 'the tests'), e2bCompatibility()].join('\n'),
};

const generated = (title: string, from: string) => `# ${title}\n\nGenerated from ${from} by \`npm run docs\`.\n`;

function apiReference(): string {
  const intro =
    'Shapes of bodies are in the OpenAPI document, at `/openapi.json` of each server. Errors are RFC 9457 problem details ' +
    'with `code`, `detail`, `nextStep` and `retry`.\n';
  const calls = ROUTE_NAMES.map((name) => callText(name, ROUTES[name]));
  const codes = PROBLEM_CODES.map((code) => {
    const { status, retry, title, nextStep } = PROBLEMS[code];
    return `| \`${code}\` | ${status} | ${retry} | ${title}. | ${nextStep} |`;
  });
  const table = ['| code | status | retry | what | what to do |', '| --- | --- | --- | --- | --- |', ...codes].join(
    '\n',
  );
  return [generated('HTTP API', 'the route table'), intro, '## Calls\n', ...calls, '## Errors\n', `${table}\n`].join(
    '\n',
  );
}

function callText(name: string, route: Route): string {
  const { method, path, summary, description, action } = route;
  const lines = [
    `### ${name}\n`,
    `\`${method} ${path}\` — ${summary}.\n`,
    ...(description === undefined ? [] : [`${description}\n`]),
    action === undefined ? 'Open to anybody.\n' : `Needs \`${action}\`.\n`,
    `Errors: ${problemCodesOf(route)
      .map((code) => `\`${code}\``)
      .join(', ')}.\n`,
  ];
  return lines.join('\n');
}

/** In the order in which they are read best. */
const SDK_FILES = [
  'sandbox',
  'exec',
  'input',
  'files',
  'xattrs',
  'watch',
  'schedules',
  'ports',
  'platform',
  'keys',
  'history',
  'errors',
  'transport',
  'version',
];

async function sdkReference(): Promise<string> {
  const index = (await readSdk('index')).replaceAll(/\/\*\*[\s\S]*?\*\//g, '');
  const parts: string[] = [];
  for (const file of SDK_FILES) {
    const source = await readSdk(file).catch(() => '');
    parts.push(
      ...declarations(source)
        .filter(({ name }) => new RegExp(`\\b${name}\\b`).test(index))
        .map(declarationText),
    );
  }
  return [generated('SDK', 'its docstrings'), ...parts].join('\n');
}

interface Declaration {
  readonly name: string;
  readonly head: string;
  readonly comment: string;
  readonly body: string;
}

/** A docstring, if there is one, and what is exported behind it, up to its closing brace or its end. */
const DECLARATION =
  /(?:^\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n)?^export (?:abstract )?((?:(?:class|interface|(?:async )?function\*?) (\w+)[\s\S]*?^\}|(?:type|const) (\w+)[\s\S]*?;\n(?! )))/gm;

function declarations(source: string): Declaration[] {
  return [...source.matchAll(DECLARATION)].map(([, comment = '', text = '', block, line]) => {
    const [head = ''] = /^(?:class|interface) .*/.exec(text) ?? [text];
    return { name: block ?? line ?? '', head: headOf(head), comment: textOf(comment), body: head === text ? '' : text };
  });
}

function declarationText({ head, comment, body }: Declaration): string {
  const members = [
    ...body.matchAll(/^ {2}\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}(?! |#|private)([^\n]+(?:\n {4}[^\n]+)*)/gm),
  ];
  const lines = members.map(([, text = '', member = '']) => {
    return `- \`${headOf(member)}\`\n\n${textOf(text).replaceAll(/^(?=.)/gm, '  ')}\n`;
  });
  return [`## \`${head}\`\n`, ...(comment === '' ? [] : [`${comment}\n`]), ...lines].join('\n');
}

/** The declaration up to its body, on one line. */
function headOf(declaration: string): string {
  let depth = 0;
  let line = '';
  for (const character of declaration.replaceAll(/\/\*\*[\s\S]*?\*\//g, '').replaceAll(/\s+/g, ' ')) {
    if ('({['.includes(character)) {
      // A brace outside of all parentheses, but for that of a type, begins the body.
      if (character === '{' && depth === 0 && !/[:=|&<] ?$/.test(line)) break;
      depth += 1;
    }
    if (')}]'.includes(character)) depth -= 1;
    if (character === ';' && depth === 0) break;
    line += character;
  }
  return line
    .trim()
    .replace(/^(type|readonly) (\w+) = \| /, '$1 $2 = ')
    .replaceAll(/\( | \)|, \)/g, (found) => found.trim().replace(',', ''));
}

function textOf(comment: string): string {
  return comment
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
    .join('\n')
    .trim();
}

function readSdk(file: string): Promise<string> {
  return readFile(join(ROOT, 'packages/sdk/src', `${file}.ts`), 'utf8');
}

async function cliReference(): Promise<string> {
  const overview = await help();
  const parts = [`\`\`\`text\n${overview.trimEnd()}\n\`\`\`\n`];
  for (const verb of verbsIn(overview)) {
    const text = await help(verb);
    parts.push(`## space ${verb}\n\n\`\`\`text\n${text.trimEnd()}\n\`\`\`\n`);
    for (const inner of verbsIn(text))
      parts.push(`### space ${verb} ${inner}\n\n\`\`\`text\n${(await help(verb, inner)).trimEnd()}\n\`\`\`\n`);
  }
  for (const verb of ['up', 'down', 'doctor', 'uninstall'])
    parts.push(`## space ${verb}\n\n\`\`\`text\n${(await hostHelp(verb)).trimEnd()}\n\`\`\`\n`);
  return [generated('Command line', 'its help'), ...parts].join('\n');
}

/** Those that a help lists, up to `help` itself where it has that. */
function verbsIn(text: string): string[] {
  const [, list = ''] = text.split('\nCommands:\n');
  const verbs = [...list.matchAll(/^ {2}([a-z]+) .*$/gm)].map(([, verb = '']) => verb);
  return verbs.includes('help') ? verbs.slice(0, verbs.indexOf('help')) : verbs;
}

async function help(...words: string[]): Promise<string> {
  const chunks: Buffer[] = [];
  const collect = new Writable({
    write(chunk, _, done) {
      chunks.push(chunk);
      done();
    },
  });
  const signals = new EventEmitter();
  const io = { stdin: Readable.from([]), stdout: collect, stderr: collect, env: {}, signals, suspend: () => undefined };
  await runCli([...words, '--help'], io);
  return Buffer.concat(chunks).toString();
}

async function hostHelp(verb: string): Promise<string> {
  const [program = '', ...args] =
    verb === 'up' ? [process.execPath, join(ROOT, 'apps/server/src/main.ts')] : [join(ROOT, 'setup', `${verb}.sh`)];
  return (await run(program, [...args, '--help'])).stdout;
}
