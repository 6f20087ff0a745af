/** Repositories over HTTP: git's own server program, behind a few lines of CGI. */
import { execFile, spawn } from 'node:child_process';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Serves the repositories in a folder below a path, pushes as well. */
export function gitBackend(root: string, below = '') {
  return (incoming: IncomingMessage, answer: ServerResponse): void => {
    const { pathname, search } = new URL(incoming.url ?? '/', 'http://x');
    const { headers } = incoming;
    const backend = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env['PATH'],
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: 'tester',
        REQUEST_METHOD: incoming.method,
        PATH_INFO: pathname.slice(below.length),
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: headers['content-type'],
        HTTP_CONTENT_ENCODING: headers['content-encoding'],
        HTTP_GIT_PROTOCOL: `${headers['git-protocol'] ?? ''}`,
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    backend.on('error', () => answer.writeHead(500).end());
    backend.stdin.on('error', () => undefined);
    incoming.pipe(backend.stdin);
    const parts: Buffer[] = [];
    backend.stdout.on('data', (part: Buffer) => parts.push(part));
    backend.on('close', () => answerCgi(Buffer.concat(parts), answer));
  };
}

/** A bare one with a commit, which takes pushes. */
export async function makeRepository(path: string): Promise<void> {
  const git = (...args: string[]) => run('git', ['-C', path, ...args], { env: { PATH: process.env['PATH'] } });
  await run('git', ['init', '-q', '--bare', '-b', 'main', path]);
  await git('config', 'http.receivepack', 'true');
  const tree = (await git('hash-object', '-t', 'tree', '-w', '/dev/null')).stdout.trim();
  const as = ['-c', 'user.name=space', '-c', 'user.email=space@localhost'];
  const commit = (await git(...as, 'commit-tree', tree, '-m', 'first')).stdout.trim();
  await git('update-ref', 'refs/heads/main', commit);
}

function answerCgi(output: Buffer, answer: ServerResponse): void {
  if (answer.headersSent) return;
  const end = output.indexOf('\r\n\r\n');
  for (const line of output.subarray(0, end).toString().split('\r\n')) {
    const [, name = '', value = ''] = /^([^:]+): *(.*)$/.exec(line) ?? [];
    if (name.toLowerCase() === 'status') answer.statusCode = Number.parseInt(value, 10);
    else if (name !== '') answer.setHeader(name, value);
  }
  answer.end(output.subarray(end + 4));
}
