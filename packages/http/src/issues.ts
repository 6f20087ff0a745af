/** What is wrong with an input, in plain words, from what the schema found. */

/** As zod gives them; only what is read here. */
export interface Issue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly expected?: unknown;
  readonly origin?: unknown;
  readonly minimum?: unknown;
  readonly maximum?: unknown;
  /** Whether the bound itself is allowed. */
  readonly inclusive?: boolean | undefined;
  readonly values?: readonly unknown[];
  readonly keys?: readonly string[];
  readonly issues?: readonly Issue[];
  readonly errors?: readonly (readonly Issue[])[];
  readonly format?: unknown;
}

const MAX_SHOWN_LENGTH = 100;
const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

/** What is wrong; `field` is where, empty for the whole. */
export function explainIssue(issue: Issue, input: unknown): { readonly field: string; readonly text: string } {
  const field = escaped(issue.path.join('.'));
  if (issue.code === 'unrecognized_keys') {
    const names = (issue.keys ?? []).map(quoted).join(', ');
    return { field, text: `does not have ${(issue.keys ?? []).length === 1 ? 'the field' : 'the fields'} ${names}` };
  }
  const [inner] = issue.issues ?? [];
  if (issue.code === 'invalid_key' && inner !== undefined) return { field, text: explainIssue(inner, null).text };
  const given = valueAt(input, issue.path);
  if (given === undefined && issue.path.length > 0 && issue.code !== 'custom') return { field, text: 'is missing' };
  return { field, text: `${expectationOf(issue)}${shown(given)}` };
}

function expectationOf(issue: Issue): string {
  const { code, expected, values, origin, minimum, maximum, inclusive = true } = issue;
  switch (code) {
    case 'invalid_type':
      return `must be ${KINDS[String(expected)] ?? String(expected)}`;
    case 'invalid_value':
      return `must be ${(values ?? []).length > 1 ? 'one of ' : ''}${(values ?? []).map(quoted).join(', ')}`;
    case 'too_small':
      return `must ${boundOf(origin, inclusive ? 'at least' : 'more than', minimum)}`;
    case 'too_big':
      return `must ${boundOf(origin, inclusive ? 'at most' : 'less than', maximum)}`;
    case 'invalid_union':
      return unionOf(issue);
    case 'invalid_format':
      return issue.format === 'datetime' ? 'must be an instant in UTC like 2030-01-31T08:00:00Z' : issue.message;
    default:
      return issue.message;
  }
}

function boundOf(origin: unknown, bound: string, limit: unknown): string {
  if (origin === 'string') return `have ${bound} ${limit} characters`;
  if (origin === 'array' || origin === 'set') return `have ${bound} ${limit} items`;
  return `be ${bound} ${limit}`;
}

function unionOf({ errors = [], message }: Issue): string {
  const each = errors.flatMap(([first]) => (first === undefined ? [] : [expectationOf(first)]));
  return each.length === 0 ? message : [...new Set(each)].join(', or ');
}

/** The value that was given, where it is short and plain. */
function shown(value: unknown): string {
  const isPlain = typeof value === 'number' || typeof value === 'boolean' || value === null;
  if (isPlain) return `, and is ${String(value)}`;
  return typeof value === 'string' && value.length <= MAX_SHOWN_LENGTH ? `, and is ${quoted(value)}` : '';
}

function quoted(value: unknown): string {
  const shortened = typeof value === 'string' ? value.slice(0, MAX_SHOWN_LENGTH) : value;
  return escaped(JSON.stringify(shortened) ?? String(value));
}

/** Problems are read on terminals: what would control them, hide or reorder text is written out, as JSON writes it. */
function escaped(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    Array.from({ length: character.length }, (_, at) => {
      return `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.hasOwn(value, key) ? (value as Record<PropertyKey, unknown>)[key] : undefined;
  }
  return value;
}
