import { describe, expect, it } from 'vitest';
import { classify, type ReadableRequest, wantsBody } from './classify.ts';
import type { GraphqlKind } from './graphql.ts';
import { describeSpoken, type Spoken } from './spoken.ts';

const JSON_TYPE = ['content-type', 'application/json'] as const;

function post(given: Partial<ReadableRequest> = {}): ReadableRequest {
  return { method: 'POST', path: '/x', search: '', headers: [JSON_TYPE], hasBody: true, ...given };
}

function get(path: string, search = ''): ReadableRequest {
  return { method: 'GET', path, search, headers: [], hasBody: false };
}

/** Reads documents of one word each. */
function readDocument(document: string): readonly GraphqlKind[] | null {
  const kinds = document.split(' ').filter((one) => one === 'query' || one === 'mutation');
  return kinds.length === document.split(' ').length ? kinds : null;
}

function callsIn(speaks: Spoken, request: ReadableRequest, body: string | Uint8Array | null) {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return classify([speaks], request, bytes, readDocument)[0]?.calls;
}

const call = (tool: string) => ({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: {} } });

describe('git', () => {
  const type = (service: string) => [['Content-Type', `application/x-git-${service}-request`] as const];

  it('fetches and pushes by its paths, compressed or not, and nothing is read ahead', () => {
    const compressed = [...type('upload-pack'), ['content-encoding', 'gzip'] as const];
    expect(callsIn('git', post({ path: '/a/b.git/git-upload-pack', headers: compressed }), null)).toEqual([
      { method: 'upload-pack' },
    ]);
    const push = post({ path: '/a/b.git/git-receive-pack', headers: type('receive-pack') });
    expect(callsIn('git', push, null)).toEqual([{ method: 'receive-pack' }]);
    expect(wantsBody(['git'], push)).toBe(false);
  });

  it.each([
    [post({ path: '/a/git-upload-pack', headers: type('receive-pack') })],
    [post({ path: '/a/git-upload-pack', headers: [...type('upload-pack'), ...type('upload-pack')] })],
    [post({ path: '/a/git-upload-pack', headers: [] })],
    [post({ path: '/a/git-upload-pack', headers: [...type('upload-pack'), ['content_type', 'x']] })],
    [post({ path: '/a/git-upload-pack', headers: type('upload-pack'), search: 'service=git-receive-pack' })],
    [post({ path: '/a/git-upload-pack/x', headers: type('upload-pack') })],
    [post({ path: '/a/GIT-UPLOAD-PACK', headers: type('upload-pack') })],
    [post({ path: '/agit-upload-pack', headers: type('upload-pack') })],
    [post({ method: 'PUT', path: '/a/git-upload-pack', headers: type('upload-pack') })],
  ])('is not told from %j', (request) => {
    expect(callsIn('git', request, null)).toBeNull();
  });

  it.each(['service=git-receive-pack', 'service=%67it-receive%2Dpack', 'a=1&service=git-Receive-Pack'])(
    'that asks for a push is seen also where no rule speaks of git: %s',
    (search) => {
      const said = [{ speaks: 'git', calls: [{ method: 'receive-pack' }] }];
      expect(classify([], get('/a/b.git/info/refs', search), null, readDocument)).toEqual(said);
    },
  );

  it('that asks for a fetch, or for anything else, says nothing', () => {
    expect(callsIn('git', get('/a/b.git/info/refs', 'service=git-upload-pack'), null)).toEqual([]);
    expect(classify([], get('/a', 'service=git-receive-pack'), null, readDocument)).toEqual([]);
  });
});

describe('MCP', () => {
  it('is read message by message, and calls of tools by their names', () => {
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    expect(callsIn('mcp', post(), JSON.stringify(list))).toEqual([{ method: 'tools/list' }]);
    expect(callsIn('mcp', post(), JSON.stringify([list, call('search')]))).toEqual([
      { method: 'tools/list' },
      { method: 'tools/call', tool: 'search' },
    ]);
    expect(callsIn('mcp', post(), '{"jsonrpc":"2.0","id":1,"result":{}}')).toEqual([{ method: 'empty answer' }]);
    expect(callsIn('mcp', post(), '{"jsonrpc":"2.0","id":1,"result":{"a":1}}')).toEqual([{ method: 'answer' }]);
    expect(callsIn('mcp', get('/mcp'), null)).toEqual([]);
    expect(callsIn('mcp', { ...get('/mcp'), method: 'DELETE' }, null)).toEqual([{ method: 'DELETE' }]);
  });

  it('takes an escaped name for what it is', () => {
    const escaped = JSON.stringify(call('search')).replace('"search"', '"\\u0073earch"');
    expect(callsIn('mcp', post(), escaped)).toEqual([{ method: 'tools/call', tool: 'search' }]);
  });

  const text = JSON.stringify(call('search'));
  it.each<[string, string | Uint8Array]>([
    ['a name twice', text.replace('"name"', '"name":"delete","name"')],
    ['a name twice, once escaped', text.replace('"name"', '"n\\u0061me":"delete","name"')],
    ['a method twice', text.replace('"method"', '"method":"tools/list","method"')],
    ['a name twice, far inside', text.replace('{}', '{"a":[{"b":1,"b":2}]}')],
    ['a name in another case beside it', text.replace('"id"', '"Method":"tools/list","id"')],
    ['a name in another case instead', text.replace('"method"', '"METHOD"')],
    ['a letter that folds to another', text.replace('"params"', '"paramſ":{"name":"delete"},"params"')],
    ['a tool in another case of its name', text.replace('"arguments"', '"Name":"delete","arguments"')],
    ['a NUL in the name of a tool', text.replace('search', 'search\\u0000')],
    ['letters that look alike', text.replace('search', 'se\u0430rch')],
    ['half of a letter', text.replace('search', 'search\\ud800')],
    ['a tool that is no text', text.replace('"search"', '["search"]')],
    ['parameters in a list', text.replace(/"params":.*}/, '"params":["search"]}')],
    ['a mark at the beginning', `\ufeff${text}`],
    ['UTF-16', Buffer.from(text, 'utf16le')],
    ['bytes that are no UTF-8', Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0x20, 0xff, 0x7d])])],
    ['another text behind it', `${text}${text}`],
    ['a NUL behind it', `${text}\0`],
    ['a comment', `/* */${text}`],
    ['nothing', ''],
    ['an empty batch', '[]'],
    ['a batch in a batch', `[[${text}]]`],
    ['a batch without end', `[${Array.from({ length: 101 }, () => text).join()}]`],
    ['a method and a result', text.replace('"id"', '"result":{},"id"')],
    ['no version', text.replace('"jsonrpc":"2.0",', '')],
    ['more depth than anybody needs', text.replace('{}', `${'['.repeat(100)}${']'.repeat(100)}`)],
    ['depth that breaks readers', `${'['.repeat(200_000)}`],
  ])('is not told when it has %s', (_, body) => {
    expect(callsIn('mcp', post(), body)).toBeNull();
  });

  it.each<[string, ReadableRequest['headers']]>([
    ['no type', []],
    ['another type', [['content-type', 'text/plain']]],
    ['two types', [JSON_TYPE, JSON_TYPE]],
    ['two types, one for CGI', [JSON_TYPE, ['Content_Type', 'text/plain']]],
    ['another charset', [['content-type', 'application/json; charset=utf-16']]],
    ['two charsets', [['content-type', 'application/json; charset=utf-8; charset=utf-7']]],
    ['an encoding', [JSON_TYPE, ['Content-Encoding', 'gzip']]],
    ['an encoding that changes nothing', [JSON_TYPE, ['content-encoding', 'identity']]],
  ])('is not read when it has %s', (_, headers) => {
    expect(wantsBody(['mcp'], post({ headers }))).toBe(false);
    expect(callsIn('mcp', post({ headers }), text)).toBeNull();
  });

  it('is not told when its headers say something else', () => {
    const said = (name: string, value: string) => post({ headers: [JSON_TYPE, [name, value]] });
    expect(callsIn('mcp', said('Mcp-Name', 'search'), text)).toHaveLength(1);
    expect(callsIn('mcp', said('Mcp-Name', 'delete'), text)).toBeNull();
    expect(callsIn('mcp', said('Mcp-Method', 'tools/list'), text)).toBeNull();
    expect(callsIn('mcp', said('mcp-method', 'tools/call'), `[${text}]`)).toBeNull();
  });

  it('that was not read to its end is not told', () => {
    expect(callsIn('mcp', post(), null)).toBeNull();
  });
});

describe('JSON-RPC', () => {
  it('is told by its methods, all of a batch', () => {
    const calls = [
      { id: 1, method: 'eth_call', params: [] },
      { id: 2, method: 'eth_sendRawTransaction' },
    ];
    expect(callsIn('json-rpc', post({ search: 'key=1' }), JSON.stringify(calls))).toEqual([
      { method: 'eth_call' },
      { method: 'eth_sendRawTransaction' },
    ]);
    expect(callsIn('json-rpc', post(), '{"method":"eth_call","Method":"eth_send"}')).toBeNull();
    expect(callsIn('json-rpc', post(), '{"result":{}}')).toBeNull();
  });
});

describe('GraphQL', () => {
  it('is told by all operations of all documents', () => {
    expect(callsIn('graphql', post(), '{"query":"query","variables":{"a":1}}')).toEqual([{ method: 'query' }]);
    expect(callsIn('graphql', post(), '{"query":"query mutation","operationName":"query"}')).toEqual([
      { method: 'query' },
      { method: 'mutation' },
    ]);
    expect(callsIn('graphql', post(), '[{"query":"query"},{"query":"mutation"}]')).toHaveLength(2);
    expect(callsIn('graphql', get('/graphql', 'query=mutation'), null)).toEqual([{ method: 'mutation' }]);
    expect(callsIn('graphql', get('/graphql', 'query=%71uery&operationName=a'), null)).toEqual([{ method: 'query' }]);
    expect(callsIn('graphql', get('/graphql'), null)).toEqual([]);
  });

  it.each<[string, ReadableRequest, string | null]>([
    ['a stored document', post(), '{"extensions":{"persistedQuery":{"sha256Hash":"x"}}}'],
    ['a stored document beside one', post(), '{"query":"query","extensions":{"persistedQuery":{}}}'],
    ['a stored document by id', post(), '{"query":"query","documentId":"x"}'],
    ['a document twice', post(), '{"query":"query","query":"mutation"}'],
    ['a document in another case', post(), '{"query":"query","Query":"mutation"}'],
    ['a document in the URL as well', post({ search: 'query=mutation' }), '{"query":"query"}'],
    ['a document that cannot be read', post(), '{"query":"what"}'],
    ['a document with a NUL', post(), '{"query":"query\\u0000mutation"}'],
    ['a document with a mark', post(), '{"query":"\\ufeffquery"}'],
    ['an empty document', post(), '{"query":""}'],
    ['nothing in a batch', post(), '[]'],
    ['a document in a list', post(), '{"query":["query"]}'],
    ['a form', post({ headers: [['content-type', 'application/x-www-form-urlencoded']] }), 'query=query'],
    ['a URL with two documents', get('/graphql', 'query=query&query=mutation'), null],
    ['a URL with two documents, one escaped', get('/graphql', 'query=query&%71uery=mutation'), null],
    ['a URL with another separator', get('/graphql', 'query=query;query=mutation'), null],
    ['a URL with a stored document', get('/graphql', 'extensions=%7B%22persistedQuery%22%3A%7B%7D%7D'), null],
    ['a URL with an unknown name', get('/graphql', 'id=1'), null],
    ['a URL that is no UTF-8', get('/graphql', 'query=query%ff'), null],
    ['another method', { ...get('/graphql'), method: 'PUT' }, null],
  ])('is not told when it has %s', (_, request, body) => {
    expect(callsIn('graphql', request, body)).toBeNull();
  });
});

describe('what was asked for', () => {
  it('is shown in a line', () => {
    expect(describeSpoken({ speaks: 'mcp', calls: [{ method: 'tools/call', tool: 'search' }] })).toBe(
      'mcp: tools/call search',
    );
    expect(describeSpoken({ speaks: 'graphql', calls: null })).toBe('graphql: not readable');
    expect(describeSpoken({ speaks: 'git', calls: [] })).toBeNull();
    const many = Array.from({ length: 100 }, () => ({ method: 'x'.repeat(128) }));
    expect(describeSpoken({ speaks: 'json-rpc', calls: many })).toHaveLength(200);
  });
});
