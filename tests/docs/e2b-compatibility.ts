/**
 * What of E2B's SDKs works here, read from the tests: which methods each release has, from its own types; which tests call them,
 * from their text; and what is refused, from the table that a test goes through.
 *
 * A test counts for the releases that it runs: those of its `describe.each`, else the newest, or the earlier one where it says so.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { notHere } from '../../packages/e2b/src/control/routes.ts';
import { REFUSED_CALLS, REFUSED_FIELDS } from '../../packages/e2b/test/refusals.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

const RELEASES = ['2.51.0', '2.45.0'] as const;
type Release = (typeof RELEASES)[number];
const PACKAGES: Readonly<Record<Release, string>> = { '2.51.0': 'e2b', '2.45.0': 'e2b-2-45' };
const TEST_FILES = ['packages/e2b/test/*.test.ts', 'tests/e2e/e2b*.ts'];
/** Programs that tests run, and which tests those are. */
const PROGRAMS: readonly { readonly path: string; readonly by: string; readonly releases: readonly string[] }[] = [
  {
    path: 'packages/e2b/test/domain-client.ts',
    by: 'finds the API, commands, signed URLs and ports by the domain alone, over TLS',
    releases: RELEASES,
  },
  { path: 'tests/e2e/e2b_client.py', by: 'serves the Python SDK', releases: ['Python'] },
];

/** A part of the SDK as users know it: the classes that it is made of, and how a call of a method of it looks. */
interface Part {
  readonly title: string;
  readonly classes: readonly string[];
  readonly call: (method: string) => RegExp;
}

const member = (object: string) => (method: string) => new RegExp(`\\b${object}\\.${method}\\(`);
const PARTS: readonly Part[] = [
  {
    title: 'Sandbox',
    classes: ['SandboxApi', 'Sandbox'],
    call: (method) =>
      new RegExp(`(?<!\\b(?:commands|pty|files|git|Template|Secret|Volume|command|terminal|mine))\\.${method}\\(`),
  },
  { title: 'commands', classes: ['Commands'], call: member('commands') },
  {
    title: 'CommandHandle',
    classes: ['CommandHandle'],
    call: (method) => new RegExp(`\\b(?:command|connected|terminal|cat|handle)(?:\\.pid)?\\.${method}\\(`),
  },
  { title: 'pty', classes: ['Pty'], call: member('pty') },
  { title: 'files', classes: ['Filesystem'], call: member('files') },
  { title: 'WatchHandle', classes: ['WatchHandle'], call: member('watch') },
  { title: 'git', classes: ['Git'], call: member('git') },
  { title: 'Template', classes: ['TemplateBase'], call: (method) => new RegExp(`\\bTemplate[\\s\\S]*\\.${method}\\(`) },
  { title: 'Secret', classes: ['Secret'], call: member('Secret') },
  { title: 'Volume', classes: ['Volume'], call: member('Volume') },
];

const REFUSES = /\brefused\b/;

interface Use {
  readonly text: string;
  readonly file: string;
  readonly test: string;
  readonly releases: readonly string[];
}

export function e2bCompatibility(): string {
  const uses = [
    ...TEST_FILES.flatMap((pattern) => globSync(pattern, { cwd: ROOT }))
      .toSorted()
      .flatMap(usesIn),
    ...programs(),
  ];
  return [
    'A method works by the test that calls it; of several, one is named. The npm package is tried in two releases, Python’s in 2.63.0 (its synchronous\nclient). What no test calls may work: it is made of calls that do, or it is not.\n',
    ...PARTS.map((part) => partText(part, uses)),
    '## Refused fields\n',
    'Of `Sandbox.create`, with status 400 and the name of the field; nothing is passed over.\n',
    table(
      ['field', 'answer'],
      REFUSED_FIELDS.map(([field, message]) => [`\`${JSON.stringify(field)}\``, `${message}.`]),
    ),
  ].join('\n');
}

function partText(part: Part, uses: readonly Use[]): string {
  const methods = new Map(RELEASES.map((release) => [release, methodsOf(PACKAGES[release], part)]));
  const all = [...new Set([...methods.values()].flat())].toSorted();
  const rows = all.map((method) => {
    const called = uses.filter(({ text }) => part.call(method).test(text) || part.call(snake(method)).test(text));
    // One whose title says that something is refused shows that, of what nothing else calls.
    const callers = called.filter(({ test }) => !REFUSES.test(test));
    const refusing = callers.length === 0 ? called[0] : undefined;
    const refusal = REFUSED_CALLS.find(({ of }) => of.includes(`${part.title}.${method}`));
    const cell = (release: string, isThere: boolean) => {
      if (!isThere) return 'not in it';
      if (refusal !== undefined || refusing !== undefined) return 'refused';
      return callers.some(({ releases }) => releases.includes(release)) ? 'works' : 'no test';
    };
    const python = refusal === undefined && callers.some(({ releases }) => releases.includes('Python')) ? 'works' : '';
    const by = refusing ?? callers.find(({ releases }) => !releases.includes('Python')) ?? callers[0];
    const why =
      refusal === undefined ? by && `\`${by.file}\` "${by.test}"` : notHere(refusal.method, refusal.path).message;
    const cells = RELEASES.map((release) => cell(release, methods.get(release)?.includes(method) ?? false));
    return [`\`${method}\``, ...cells, python, why ?? ''];
  });
  return `## ${part.title}\n\n${table(['method', ...RELEASES, 'Python', 'by, or why'], rows)}`;
}

/** Public methods, from the types that the package ships. */
function methodsOf(name: string, { classes }: Part): readonly string[] {
  const types = read(`node_modules/${name}/dist/index.d.ts`);
  const found = classes.flatMap((one) => {
    const body = new RegExp(`^(?:declare )?(?:abstract )?class ${one}\\b[^{]*\\{\\n([\\s\\S]*?)\\n\\}`, 'm').exec(
      types,
    )?.[1];
    if (body === undefined) throw new Error(`${name} has no class ${one}`);
    return [...body.matchAll(/^ {2}(?!private|protected|constructor|get |#)(?:static )?(\w+)(?:<.*>)?\(/gm)].map(
      ([, method = '']) => method,
    );
  });
  return [...new Set(found)];
}

function usesIn(file: string): readonly Use[] {
  const text = read(file);
  const starts = [...text.matchAll(/^ *(?:it|test)\b/gm)].map(({ index }) => index);
  return starts.flatMap((start, at) => {
    const body = text.slice(start, starts[at + 1] ?? text.length);
    const title = /(?:\bit|\)|\btest)\(\s*'((?:[^'\\]|\\.)*)'/.exec(body)?.[1];
    return title === undefined ? [] : [{ text: body, file, test: title, releases: releasesOf(text, start, body) }];
  });
}

function releasesOf(text: string, start: number, body: string): readonly Release[] {
  const outer = [...text.slice(0, start).matchAll(/^(describe(?:\.each)?|it)\b/gm)].at(-1)?.[1];
  if (outer === 'describe.each' && text[start] === ' ') return RELEASES;
  if (!/\bearlier\./.test(body)) return ['2.51.0'];
  return /\bnewest\./.test(body) ? RELEASES : ['2.45.0'];
}

function programs(): readonly Use[] {
  return PROGRAMS.map(({ path, by, releases }) => ({ text: read(path), file: path, test: by, releases }));
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line), ''].join('\n');
}

function snake(method: string): string {
  return method.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
