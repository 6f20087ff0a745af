/** Ways out that are no connection of TCP, and ways to speak with a name server that nobody judges. */
import { type Case, trick } from '../case.ts';
import type { Try } from '../guest/tries.ts';
import { all, failsAtOnce, reachesNobody, refusedUnseen, type Seen, type Verdict } from '../verdicts.ts';

const TOPIC = 'a way around';
/** What a secret looks like that goes out in names. */
const LABELS = 'c2VjcmV0LXRoYXQtZ29lcy1vdXQ.aW4tbmFtZXM';
const KINDS = { A: 1, NS: 2, CNAME: 5, MX: 15, TXT: 16, AAAA: 28, SRV: 33, HTTPS: 65, ANY: 255 } as const;
const RESOLVERS = ['1.1.1.1', '8.8.8.8', '2606:4700:4700::1111'];

/** The guest answers, and nobody else is asked. */
const answeredInside: Verdict = ({ answers }: Seen) => {
  const odd = answers.find(({ error, code }) => error !== null || code !== 0);
  return odd === undefined ? null : `a question came to ${odd.error ?? `code ${odd.code}`}`;
};

const withoutRecord: Verdict = ({ answers }) =>
  answers.some(({ count }) => count !== 0) ? 'it was told something' : null;

/** A program's first packet of QUIC: a long header of version 1, and bytes. */
const QUIC = `\xc3\0\0\0\x01\x08conforms\0\0\x44\xd0${'\0'.repeat(1180)}`;

function questions(name: string, kinds: readonly number[]): (places: { shut: string }) => readonly Try[] {
  return ({ shut }) =>
    kinds.flatMap((kind) =>
      ['198.18.0.2', '8.8.8.8'].flatMap((address) =>
        [false, true].map((tcp) => ({ do: 'dns', address, name: `${name}.${shut}`, kind, tcp }) as const),
      ),
    );
}

export const CHANNEL_CASES: readonly Case[] = [
  trick(TOPIC, {
    name: 'labels of names, at the name server and at another, by UDP and TCP',
    scene: 'internet',
    tries: questions(LABELS, [KINDS.A, KINDS.AAAA]),
    verdict: all(answeredInside, reachesNobody),
  }),
  trick(TOPIC, {
    name: 'records of other kinds: TXT, HTTPS, MX, …',
    scene: 'internet',
    tries: questions(LABELS, [KINDS.NS, KINDS.CNAME, KINDS.MX, KINDS.TXT, KINDS.SRV, KINDS.HTTPS, KINDS.ANY]),
    verdict: all(answeredInside, withoutRecord, reachesNobody),
  }),
  trick(TOPIC, {
    name: 'a name that no rule allows is not even asked for when a program connects',
    scene: 'nothing',
    tries: ({ shut }) => [{ do: 'tcp', host: `${LABELS}.${shut}`, port: 443, say: ['\x16\x03'], shut: true }],
    verdict: refusedUnseen,
  }),
  trick(TOPIC, {
    name: 'QUIC, to addresses and to the host',
    scene: 'internet',
    tries: ({ open }) =>
      [...RESOLVERS, '198.18.0.16', open].map((address) => ({ do: 'udp', address, port: 443, say: QUIC })),
    verdict: all(failsAtOnce('EPERM'), reachesNobody),
  }),
  trick(TOPIC, {
    name: 'other UDP: NTP, mDNS, a port of no name',
    scene: 'internet',
    tries: () => [
      ...[123, 5353, 40_000].map((port) => ({ do: 'udp', address: '192.0.2.9', port, say: 'x' }) as const),
      { do: 'udp', address: '198.18.0.2', port: 5353, say: 'x' },
      { do: 'udp', address: '2001:db8::9', port: 53_000, say: 'x' },
    ],
    verdict: all(failsAtOnce('EPERM'), reachesNobody),
  }),
  trick(TOPIC, {
    name: 'ICMP, SCTP, GRE and IP in IP',
    scene: 'internet',
    tries: () =>
      [1, 132, 47, 4].map((protocol) => ({ do: 'raw', address: '1.1.1.1', protocol, say: '\x08\0\xf7\xff\0\0\0\0' })),
    verdict: all(failsAtOnce('EPERM'), reachesNobody),
  }),
  trick(TOPIC, {
    name: 'DNS over HTTPS, by address and by name',
    scene: 'nothing',
    tries: () =>
      ['1.1.1.1', 'dns.google', 'cloudflare-dns.com'].map((host) => ({
        do: 'tcp',
        host,
        port: 443,
        tls: { sni: host },
        say: [`GET /dns-query?dns=EjQBAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
      })),
    verdict: refusedUnseen,
  }),
  trick(TOPIC, {
    name: 'DNS over TLS, by address and by name',
    scene: 'nothing',
    tries: () =>
      ['1.1.1.1', 'dns.google'].map((host) => ({ do: 'tcp', host, port: 853, tls: { sni: host }, say: ['\0\x0cx'] })),
    verdict: refusedUnseen,
  }),
  trick(TOPIC, {
    name: 'TCP to addresses and names that no rule allows: SSH, SMTP, a database, anything',
    scene: 'reading',
    tries: ({ shut }) =>
      ['192.0.2.9', '2001:db8::9', '1.1.1.1', shut].flatMap((host) =>
        (
          [
            [22, 'SSH-2.0-conformance\r\n'],
            [25, 'EHLO conformance\r\n'],
            [5432, '\0\0\0\x08\x04\xd2\x16\x2f'],
            [4444, '\0'],
          ] as const
        ).map(([port, said]) => ({ do: 'tcp', host, port, say: [said], shut: true }) as const),
      ),
    verdict: refusedUnseen,
  }),
  trick(TOPIC, {
    name: 'TCP that waits for the other side to speak, where no rule allows any',
    scene: 'nothing',
    tries: ({ shut }) => [{ do: 'tcp', host: shut, port: 22, say: [], shut: true }],
    verdict: refusedUnseen,
  }),
];
