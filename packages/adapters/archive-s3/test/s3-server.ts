/**
 * A small storage that speaks as much of S3 as the adapter asks for, over real HTTP: paths with the bucket, listings in pages,
 * errors in XML, and the digest of each body checked against what was signed. A test can make it fail in the ways in which
 * storages and networks do.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const BUCKET = 'archives';
const PAGE = 2;

export type Fault = 'error' | 'slow_down' | 'denied' | 'cut' | 'silent' | 'too_long' | 'unconditional' | 'lost';

interface Put {
  readonly key: string;
  readonly body: Buffer;
  readonly fault: Fault | undefined;
}

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly objects: Map<string, Buffer>;
  /** What becomes of the next requests, in order. */
  readonly faults: Fault[];
  /** Method and path of each request. */
  readonly requests: string[];
  close(): Promise<void>;
}

export async function startS3Server(): Promise<S3Server> {
  const objects = new Map<string, Buffer>();
  const faults: Fault[] = [];
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    answer(request, response).catch((thrown: unknown) => response.destroy(thrown as Error));
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>));
    const url = new URL(request.url ?? '/', 'http://localhost');
    const [, bucket, ...rest] = url.pathname.split('/');
    const key = decodeURIComponent(rest.join('/'));
    const fault = faults.shift();
    if (fault === 'silent') return;
    if (fault === 'error') return fail(response, 500, 'InternalError');
    if (fault === 'slow_down') return fail(response, 503, 'SlowDown');
    if (fault === 'denied' || request.headers.authorization === undefined) return fail(response, 403, 'AccessDenied');
    if (bucket !== BUCKET) return fail(response, 404, 'NoSuchBucket');
    if (request.method === 'HEAD' && key === '') return void response.end();
    if (request.method === 'GET' && key === '') return list(response, url);
    if (request.method === 'PUT') return put(request, response, { key, body, fault });
    if (request.method === 'DELETE') {
      objects.delete(key);
      response.statusCode = 204;
      return void response.end();
    }
    const found = objects.get(key);
    if (found === undefined) return fail(response, 404, request.method === 'HEAD' ? '' : 'NoSuchKey');
    response.setHeader('content-length', found.length);
    if (request.method === 'HEAD') return void response.end();
    if (fault === 'too_long') {
      response.removeHeader('content-length');
      return void response.end(Buffer.concat([found, Buffer.alloc(4096)]));
    }
    if (fault !== 'cut') return void response.end(found);
    response.write(found.subarray(0, found.length / 2));
    setTimeout(() => response.destroy(), 20);
  }

  function put(request: IncomingMessage, response: ServerResponse, { key, body, fault }: Put): void {
    const digest = createHash('sha256').update(body).digest('hex');
    const isConditional = request.headers['if-none-match'] === '*' && fault !== 'unconditional';
    if (isConditional && objects.has(key)) fail(response, 412, 'PreconditionFailed');
    else if (request.headers['x-amz-content-sha256'] === digest) {
      objects.set(key, body);
      if (fault === 'lost') response.destroy();
      else response.end();
    } else fail(response, 400, 'XAmzContentSHA256Mismatch');
  }

  function list(response: ServerResponse, { searchParams }: URL): void {
    const prefix = searchParams.get('prefix') ?? '';
    const after = searchParams.get('continuation-token') ?? '';
    const all = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = all.slice(0, PAGE);
    const next = all.length > PAGE ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    const keys = page.map((key) => `<Contents><Key>${key}</Key></Contents>`).join('');
    response.setHeader('content-type', 'application/xml');
    response.end(`<ListBucketResult><IsTruncated>${next !== ''}</IsTruncated>${keys}${next}</ListBucketResult>`);
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bucket: BUCKET,
    objects,
    faults,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function fail(response: ServerResponse, status: number, code: string): void {
  response.statusCode = status;
  response.setHeader('content-type', 'application/xml');
  response.end(code === '' ? undefined : `<Error><Code>${code}</Code><Message>told by the test</Message></Error>`);
}
