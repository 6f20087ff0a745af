/**
 * Heads of HTTP/1.1 that may be read in more than one way, as bytes: no server may hear what stands hidden in them. HOST is the host
 * that the connection is to, PORT its port, OTHER another host. Rules let HOST be read below `/open`.
 */
export interface RequestTrick {
  readonly name: string;
  readonly bytes: string;
}

const INNER = 'POST /shut HTTP/1.1\r\nHost: HOST:PORT\r\nContent-Length: 0\r\n\r\n';
const OPEN = 'GET /open HTTP/1.1\r\nHost: HOST:PORT\r\n';
const HELLO = 'POST /open HTTP/1.1\r\nHost: HOST:PORT\r\n';

export function bytesOf({ bytes }: RequestTrick, at: { host: string; other: string; port: number }): string {
  return bytes.replaceAll('HOST', at.host).replaceAll('OTHER', at.other).replaceAll('PORT', `${at.port}`);
}

const named = (tricks: Readonly<Record<string, string>>): readonly RequestTrick[] =>
  Object.entries(tricks).map(([name, bytes]) => ({ name, bytes }));

/** The gateway must be the last to read it, by a refusal. */
export const TWO_WAY_HEADS = named({
  'two hosts': 'GET /open HTTP/1.1\r\nHost: HOST:PORT\r\nHost: OTHER\r\n\r\n',
  'two hosts that are the same': 'GET /open HTTP/1.1\r\nHost: HOST:PORT\r\nHost: HOST:PORT\r\n\r\n',
  'no host': 'GET /open HTTP/1.1\r\n\r\n',
  'no host, in HTTP/1.0': 'GET /open HTTP/1.0\r\n\r\n',
  'another host': 'GET /open HTTP/1.1\r\nHost: OTHER\r\n\r\n',
  'the host with another port': 'GET /open HTTP/1.1\r\nHost: HOST:81\r\n\r\n',
  'a host with a user': 'GET /open HTTP/1.1\r\nHost: HOST:PORT@OTHER\r\n\r\n',
  'two hosts in one': 'GET /open HTTP/1.1\r\nHost: HOST:PORT, OTHER\r\n\r\n',
  'a host in other letters': 'GET /open HTTP/1.1\r\nHost: \xd0\xbe.HOST:PORT\r\n\r\n',
  'an absolute form': 'GET http://OTHER/open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'an absolute form of the same host': 'GET http://HOST:PORT/open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'CONNECT to the same host': 'CONNECT HOST:PORT HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'CONNECT to another host': 'CONNECT OTHER:443 HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'CONNECT, and a request to another host inside':
    'CONNECT HOST:PORT HTTP/1.1\r\nHost: HOST:PORT\r\n\r\nGET /shut HTTP/1.1\r\nHost: OTHER\r\n\r\n',
  'a folded header': `${OPEN}X-A: 1\r\n X-B: 2\r\n\r\n`,
  'a folded host': 'GET /open HTTP/1.1\r\nHost:\r\n HOST:PORT\r\n\r\n',
  'a length and chunks': `${HELLO}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'two lengths': `${HELLO}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
  'an unknown coding': `${HELLO}Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n`,
  'chunks twice': `${HELLO}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a space before a colon': 'GET /open HTTP/1.1\r\nHost : HOST:PORT\r\n\r\n',
  'a bare carriage return': `${OPEN}X: a\rHost: OTHER\r\n\r\n`,
  'a zero byte': 'GET /open HTTP/1.1\r\nHost: HOST:PORT\0.OTHER\r\n\r\n',
  'a header that is to be dropped': `${OPEN}Connection: close, Host\r\n\r\n`,
  'a method that is none': 'G=T /open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'a path that does not begin with a slash': 'GET open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'a fragment': 'GET /open#b HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
});

/** What is hidden must reach nobody; the request around it may not either. */
export const HIDDEN_REQUESTS = named({
  'in a body that servers do not expect': `${OPEN}Content-Length: 64\r\n\r\n${INNER}`,
  'in chunks': `${OPEN}Transfer-Encoding: chunked\r\n\r\n39\r\n${INNER}\r\n0\r\n\r\n`,
  'behind a chunk extension': `${OPEN}Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n${INNER}`,
  'behind a chunk that ends in a bare line feed': `${OPEN}Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n${INNER}`,
  'behind more headers than are kept': `${OPEN}${'a:b\r\n'.repeat(1021)}Content-Length: 99\r\n\r\n${INNER}`,
  'behind far more headers than are kept': `${OPEN}${'a:b\r\n'.repeat(2100)}Content-Length: 99\r\n\r\n${INNER}`,
  'behind lines that end in bare line feeds': `${OPEN}X: y\n\n${INNER}`,
  'behind Expect': `${OPEN}Expect: 100-continue\r\nContent-Length: 99\r\n\r\n${INNER}`,
  'behind an upgrade': `${OPEN}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${INNER}`,
  'in a header by a carriage return': `${OPEN}X: y\r${INNER}`,
  'in a trailer': `${OPEN}Transfer-Encoding: chunked\r\n\r\n0\r\nX-HTTP-Method-Override: DELETE\r\n\r\n`,
});

/** Where only reading is allowed. */
export const DISGUISED_WRITES = named({
  'a method in small letters': 'get /open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  PROPFIND: 'PROPFIND /open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  MKCOL: 'MKCOL /open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  TRACE: 'TRACE /open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  QUERY: 'QUERY /open HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n',
  'an override of the method': `${OPEN}X-HTTP-Method-Override: DELETE\r\n\r\n`,
  'an override with underscores': `${OPEN}X_HTTP_Method_Override: DELETE\r\n\r\n`,
  'an override by another name': `${OPEN}x-http_method: DELETE\r\n\r\n`,
  'a body': `${OPEN}Content-Length: 1\r\n\r\nx`,
});

/** A rule for `/open` covers none of them. */
export const STRAY_PATHS = [
  '/open/../shut',
  '/open/%2e%2e/shut',
  '/open/..%2fshut',
  '/open/..%5cshut',
  '/open/..;/shut',
  '/open//../shut',
  '/open/%c0%ae%c0%ae/shut',
  '/open/%C0%AF../shut',
  '/open/\xc0\xae\xc0\xae/shut',
  '/open/%u002e%u002e/shut',
  '/open/..%20/shut',
  '/open/..%09/shut',
  '/open/%0d%0aX',
  '/open/%252e%252e/shut',
  '/opened',
  '/OPEN',
  '/%6fpen',
];

export const REWRITING_HEADERS = ['X-Original-URL', 'X-Rewrite-URL', 'x_original_url'];
