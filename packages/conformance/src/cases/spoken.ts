/** What passes where rules let it pass, in each protocol that is promised, and what of the same does not. */
import { type Case, ownOf, trick } from '../case.ts';
import type { Try } from '../guest/tries.ts';
import type { Places } from '../places.ts';
import { all, arrives, neverHears, refused, says, type Verdict } from '../verdicts.ts';
import { requestTo } from './identity.ts';

const TOPIC = 'what is spoken';

/** Masked, as programs must; by zeros. */
const FRAME = '\x81\x82\0\0\0\0hi';

/** By HTTPS to the host; bodies have their length. */
function send({ open, https: port }: Places, head: string, options: { headers?: string; body?: string } = {}): Try {
  const { headers = '', body } = options;
  const length = body === undefined ? '' : `Content-Length: ${body.length}\r\n`;
  const close = /upgrade/i.test(headers) ? '' : 'Connection: close\r\n';
  const say = [`${head} HTTP/1.1\r\nHost: ${open}:${port}\r\n${close}${headers}${length}\r\n${body ?? ''}`];
  return { do: 'tcp', host: open, port, tls: { sni: open, verify: true }, say };
}

function upgrade(places: Places): Try {
  const headers =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3BhY2U=\r\n';
  const asked = send(places, 'GET /open/socket', { headers });
  return asked.do === 'tcp' ? { ...asked, say: [...asked.say, FRAME], until: 'well' } : asked;
}

function call(places: Places, message: string): Try {
  return send(places, 'POST /open/mcp', { headers: 'Content-Type: application/json\r\n', body: message });
}

const toolCall = (name: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":{}}}`;

const ended =
  (well: boolean): Verdict =>
  ({ answers }) => {
    const odd = answers.find(({ exit, error }) => error !== null || (exit === 0) !== well);
    return odd === undefined
      ? null
      : `a program ended with ${odd.error ?? odd.exit}: ${JSON.stringify(odd.said.slice(-300))}`;
  };

const git = (places: Places, ...args: string[]): Try => ({ do: 'run', argv: ['git', ...args, repositoryAt(places)] });
const repositoryAt = ({ open, https }: Places) => `https://${open}:${https}/open/git/space.git`;

export const SPOKEN_CASES: readonly Case[] = [
  trick(TOPIC, {
    name: 'events of a server come as they are said, and not at their end',
    scene: 'reading',
    needs: ['own hosts'],
    tries: (places) => [{ ...send(places, 'GET /open/events'), until: 'first' } as Try],
    verdict: says('data: first'),
  }),
  trick(TOPIC, {
    name: 'a body in chunks, there and back',
    scene: 'writing',
    needs: ['own hosts'],
    tries: (places) => {
      const chunked = send(places, 'POST /open/echo', { headers: 'Transfer-Encoding: chunked\r\n' });
      return [chunked.do === 'tcp' ? { ...chunked, say: [`${chunked.say[0]}5\r\nhello\r\n0\r\n\r\n`] } : chunked];
    },
    verdict: arrives('hello'),
  }),
  trick(TOPIC, {
    name: 'a WebSocket, where writing is allowed',
    scene: 'writing',
    needs: ['own hosts'],
    tries: (places) => [upgrade(places)],
    verdict: arrives('well'),
  }),
  trick(TOPIC, {
    name: 'a WebSocket, where only reading is allowed: refused',
    scene: 'reading',
    needs: ['own hosts'],
    tries: (places) => [upgrade(places)],
    verdict: all(refused, neverHears(/websocket/i)),
  }),
  trick(TOPIC, {
    name: 'a call of gRPC, with its trailers',
    scene: 'writing',
    needs: ['own hosts'],
    tries: (places) => {
      const { h2: port } = ownOf(places);
      const headers = [
        [':method', 'POST'],
        [':scheme', 'https'],
        [':path', '/open/grpc'],
        [':authority', `${places.open}:${port}`],
        ['content-type', 'application/grpc'],
        ['te', 'trailers'],
      ] as const;
      const streams = [{ headers, body: '\0\0\0\0\0' }];
      return [{ do: 'h2', host: places.open, port, tls: { sni: places.open, verify: true }, streams }];
    },
    verdict: ({ answers: [answer] }) => {
      const [stream] = answer?.streams ?? [];
      const isWell = stream?.status === 200 && stream.said.endsWith('well') && stream.heads === 2;
      return isWell ? null : `it came to ${JSON.stringify(stream)} ${answer?.error ?? ''}`;
    },
  }),
  trick(TOPIC, {
    name: 'any bytes, to the host and port that a rule lets them to',
    scene: 'bytes',
    needs: ['own hosts'],
    tries: (places) => [{ do: 'tcp', host: places.open, port: ownOf(places).echo, say: ['\0\x01echo'], shut: true }],
    verdict: says('\0\x01echo'),
  }),
  trick(TOPIC, {
    name: 'a server that speaks first, as SSH does',
    scene: 'bytes',
    needs: ['own hosts'],
    tries: (places) => [{ do: 'tcp', host: places.open, port: ownOf(places).greeter, say: [], until: 'SSH-2.0' }],
    verdict: says('SSH-2.0-conformance'),
  }),
  trick(TOPIC, {
    name: 'SSH and other bytes to another port of that host: refused',
    scene: 'bytes',
    needs: ['own hosts'],
    tries: (places) =>
      [places.https, ownOf(places).http].flatMap((port) =>
        ['\0\x01echo', 'SSH-2.0-conformance\r\n'].map(
          (said) => ({ do: 'tcp', host: places.open, port, say: [said], shut: true }) as const,
        ),
      ),
    verdict: refused,
  }),
  trick(TOPIC, {
    name: 'a request where any bytes may pass: judged as a request, and refused for its Host',
    scene: 'bytes',
    needs: ['own hosts'],
    tries: (places) => {
      const port = ownOf(places).echo;
      return ['', '\r\n\r\n'].map((before) => ({
        do: 'tcp',
        host: places.open,
        port,
        say: [`${before}GET /open HTTP/1.1\r\nHost: ${places.shut}:${port}\r\n\r\n`],
      }));
    },
    verdict: refused,
  }),
  trick(TOPIC, {
    name: 'TLS that a rule leaves unopened: the certificate is the host’s own',
    scene: 'unopened',
    needs: ['own hosts'],
    tries: (places) => {
      const asked = requestTo(places);
      return [asked.do === 'tcp' ? { ...asked, tls: { sni: places.open } } : asked];
    },
    verdict: all(arrives(), ({ answers }) =>
      answers.some(({ byGateway }) => byGateway !== false) ? 'the certificate is one of the gateway' : null,
    ),
  }),
  trick(TOPIC, {
    name: 'TLS that a rule leaves unopened, with the SNI of another, and with none: refused',
    scene: 'unopened',
    needs: ['own hosts'],
    tries: (places) => {
      const asked = requestTo(places);
      return [places.shut, null].map((sni) => (asked.do === 'tcp' ? { ...asked, tls: { sni } } : asked));
    },
    verdict: refused,
  }),
  trick(TOPIC, {
    name: 'git fetches, where a rule says that the host speaks it',
    scene: 'git',
    needs: ['own hosts'],
    tries: (places) => [git(places, 'ls-remote')],
    verdict: all(ended(true), says('refs/heads/main')),
  }),
  trick(TOPIC, {
    name: 'git pushes: refused',
    scene: 'git',
    needs: ['own hosts'],
    tries: (places) => [
      { do: 'run', argv: ['git', 'init', '-q', '/tmp/pushed'] },
      {
        do: 'run',
        argv: ['/bin/sh', '-c', `cd /tmp/pushed && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x`],
      },
      {
        do: 'run',
        argv: ['/bin/sh', '-c', `! git -C /tmp/pushed push ${repositoryAt(places)} HEAD:refs/heads/pushed`],
      },
    ],
    verdict: all(ended(true), neverHears(/receive-pack/), ({ answers }) =>
      /403/.test(answers.at(-1)?.said ?? '') ? null : `git said ${JSON.stringify(answers.at(-1)?.said)}`,
    ),
  }),
  trick(TOPIC, {
    name: 'MCP: what calls no tool, and the tool that a rule names',
    scene: 'mcp',
    needs: ['own hosts'],
    tries: (places) => [
      call(places, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
      call(places, toolCall('search')),
    ],
    verdict: arrives(),
  }),
  trick(TOPIC, {
    name: 'MCP: another tool, also beside it in a batch, under a name that is there twice, or behind what is not JSON: refused',
    scene: 'mcp',
    needs: ['own hosts'],
    tries: (places) =>
      [
        toolCall('delete'),
        `[${toolCall('search')},${toolCall('delete')}]`,
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","name":"delete"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"delete"}}',
        `\xef\xbb\xbf${toolCall('search')}${toolCall('delete')}`,
      ].map((message) => call(places, message)),
    verdict: all(refused, neverHears(/delete/)),
  }),
];
