/** One identity for each connection: whoever is named twice is named the same, or nothing leaves. */
import { type Case, ownOf, trick } from '../case.ts';
import type { Header, Try } from '../guest/tries.ts';
import type { Places } from '../places.ts';
import { OPEN_PATH } from '../scenes.ts';
import { all, arrives, endsRefused, neverHears, refused, refusedUnseen, type Seen, shown } from '../verdicts.ts';

const TOPIC = 'one host';
/** No server has it; documentation alone names it. */
const LITERAL = '192.0.2.9';

interface Asking {
  /** What is dialled. */
  readonly to: string;
  readonly sni: string | null;
  readonly host: string;
}

/** A request by HTTPS; each name may be another. */
function ask({ to, sni, host }: Asking, { https }: Places): Try {
  const say = [`GET ${OPEN_PATH} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`];
  return { do: 'tcp', host: to, port: https, tls: { sni }, say };
}

function asking(name: string, of: (places: Places & { readonly at: (host: string) => string }) => Asking): Case {
  return trick(TOPIC, {
    name,
    scene: 'reading',
    needs: ['open host'],
    tries: (places) => [ask(of({ ...places, at: (host) => `${host}:${places.https}` }), places)],
    verdict: refused,
  });
}

/** As any program asks the host. */
export function requestTo({ open, https: port }: Places, host = open): Try {
  const say = [`GET ${OPEN_PATH} HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`];
  return { do: 'tcp', host: open, port, tls: { sni: open, verify: true }, say };
}

/** Cyrillic letters, in bytes of UTF-8, that are drawn as Latin ones. */
const DRAWN_ALIKE: Readonly<Record<string, string>> = {
  a: '\xd0\xb0',
  c: '\xd1\x81',
  e: '\xd0\xb5',
  i: '\xd1\x96',
  o: '\xd0\xbe',
  p: '\xd1\x80',
};

function lookalike(host: string): string {
  const other = host.replace(/[aceiop]/, (letter) => DRAWN_ALIKE[letter] ?? letter);
  return other === host ? `${host}\xd0\xb0` : other;
}

/** In one connection, or two hosts' worth of streams. */
function streams(
  name: string,
  more: (places: Places) => readonly (readonly Header[])[],
  scene: Case['scene'] = 'reading',
) {
  return trick(TOPIC, {
    name,
    scene,
    needs: ['own hosts'],
    tries: (places) => {
      const { h2: port } = ownOf(places);
      const plain = headOf(`${places.open}:${port}`);
      const asked = [plain, ...more(places), plain].map((headers) => ({ headers }));
      return [{ do: 'h2', host: places.open, port, tls: { sni: places.open }, streams: asked }];
    },
    verdict: all(onlyTheOuter, neverHears(/shut/)),
  });
}

function headOf(authority: string, ...more: readonly Header[]): readonly Header[] {
  return [[':method', 'GET'], [':scheme', 'https'], [':path', OPEN_PATH], [':authority', authority], ...more];
}

/** The first and the last stream are as they must be, and are answered; what stands between is refused by itself. */
function onlyTheOuter({ answers: [answer] }: Seen): string | null {
  const told = answer?.streams ?? [];
  for (const [index, { status, said, reset }] of told.entries()) {
    const isOuter = index === 0 || index === told.length - 1;
    if (isOuter && status !== 200)
      return `stream ${index} came to ${status ?? answer?.error ?? 'nothing'}: ${shown(said)}`;
    const isRefused = (status !== null && status >= 400 && status < 500) || reset !== undefined;
    if (!isOuter && !isRefused)
      return `stream ${index} came to ${status ?? answer?.error ?? 'nothing'}: ${shown(said)}`;
  }
  return told.length > 2 ? null : 'there were no streams';
}

export const IDENTITY_CASES: readonly Case[] = [
  trick(TOPIC, {
    name: 'the host that a rule allows is reached, by TLS that an ordinary program verifies',
    scene: 'reading',
    needs: ['open host'],
    tries: (places) => [requestTo(places)],
    verdict: arrives(),
  }),
  trick(TOPIC, {
    name: 'so it is in capital letters, and with a dot at its end',
    scene: 'reading',
    needs: ['open host'],
    tries: (places) => [places.open.toUpperCase(), `${places.open}.`].map((host) => requestTo(places, host)),
    verdict: arrives(),
  }),
  trick(TOPIC, {
    name: 'so it is without SNI, as the name that was dialled',
    scene: 'reading',
    needs: ['open host'],
    tries: (places) => [ask({ to: places.open, sni: null, host: `${places.open}:${places.https}` }, places)],
    verdict: arrives(),
  }),
  asking('Host of another than SNI', ({ open, shut, at }) => ({ to: open, sni: open, host: at(shut) })),
  asking('SNI of another than Host', ({ open, shut, at }) => ({ to: open, sni: shut, host: at(open) })),
  asking('SNI and Host of another, on a connection to the host', ({ open, shut, at }) => ({
    to: open,
    sni: shut,
    host: at(shut),
  })),
  asking('SNI and Host of the host, on a connection to another', ({ open, shut, at }) => ({
    to: shut,
    sni: open,
    host: at(open),
  })),
  asking('no SNI, and Host of another', ({ open, shut, at }) => ({ to: open, sni: null, host: at(shut) })),
  asking('an address, with SNI and Host of the host', ({ open, at }) => ({ to: LITERAL, sni: open, host: at(open) })),
  asking('an address, with Host of the host and no SNI', ({ open, at }) => ({
    to: LITERAL,
    sni: null,
    host: at(open),
  })),
  asking('an address as Host', ({ open, at }) => ({ to: open, sni: open, host: at(LITERAL) })),
  asking('a name below the host', ({ open, at }) => ({ to: `x.${open}`, sni: `x.${open}`, host: at(`x.${open}`) })),
  asking('the host with another port as Host', ({ open }) => ({ to: open, sni: open, host: `${open}:81` })),
  asking('letters that look like those of the host', ({ open, at }) => ({
    to: open,
    sni: open,
    host: at(lookalike(open)),
  })),
  asking('an A-label that looks like the host', ({ open, at }) => ({ to: open, sni: open, host: at(`xn--${open}`) })),
  trick(TOPIC, {
    name: 'a connection that stays, with another Host in its second request',
    scene: 'reading',
    needs: ['open host'],
    tries: ({ open, shut, https: port }) => {
      const request = (host: string) => `GET ${OPEN_PATH} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`;
      return [{ do: 'tcp', host: open, port, tls: { sni: open }, say: [request(open), request(shut)] }];
    },
    verdict: all(endsRefused, neverHears(/shut/)),
  }),
  trick(TOPIC, {
    name: 'a forged answer in the guest: the name of the host at another address',
    scene: 'reading',
    needs: ['open host'],
    tries: (places) => [
      { do: 'file', path: '/etc/hosts', text: `127.0.0.1 localhost\n${LITERAL} ${places.open}\n` },
      requestTo(places),
      { do: 'file', path: '/etc/hosts', text: null },
    ],
    verdict: refused,
  }),
  trick(TOPIC, {
    name: 'a forged answer in the guest: the name of another at the address of the host',
    scene: 'reading',
    needs: ['open host'],
    tries: (places) => [
      {
        ...ask({ to: places.shut, sni: places.shut, host: `${places.shut}:${places.https}` }, places),
        address: places.open,
      } as Try,
    ],
    verdict: refused,
  }),
  streams('another :authority for one stream of many', ({ shut, own }) => [headOf(`${shut}:${own?.h2}`)]),
  streams('a stream with a Host of another than :authority', ({ open, shut, own }) => [
    headOf(`${open}:${own?.h2}`, ['host', `${shut}:${own?.h2}`]),
  ]),
  streams('a stream of CONNECT to the host, and to another', ({ open, shut, own }) =>
    [open, shut].map((host) => [
      [':method', 'CONNECT'],
      [':authority', `${host}:${own?.h2}`],
    ]),
  ),
  streams('a stream of another scheme', ({ open, own }) => [
    [
      [':method', 'GET'],
      [':scheme', 'http'],
      [':path', OPEN_PATH],
      [':authority', `${open}:${own?.h2}`],
    ],
  ]),
  streams(
    'a connection shared by two hosts that a rule each allows and one certificate names',
    ({ shut, own }) => [headOf(`${shut}:${own?.h2}`)],
    'both',
  ),
  trick(TOPIC, {
    name: 'in clear text, another Host at an address that both share',
    scene: 'reading',
    needs: ['own hosts'],
    tries: (places) => {
      const { http: port } = ownOf(places);
      const say = [`GET ${OPEN_PATH} HTTP/1.1\r\nHost: ${places.shut}:${port}\r\n\r\n`];
      return [{ do: 'tcp', host: places.open, port, say }];
    },
    verdict: refusedUnseen,
  }),
];
