/** Addresses that are nobody's business outside: by every notation, and by names that lead there. */
import { type Case, ownOf, trick } from '../case.ts';
import type { Try } from '../guest/tries.ts';
import { FLIPPING, LEADING_ASTRAY } from '../hosts/zone.ts';
import { all, reachesNobody, refused, type Seen, shown } from '../verdicts.ts';

const TOPIC = 'an address that is not public';

/** In the notations that programs know; what a program takes for the guest itself is refused there. */
const LITERALS = [
  '169.254.169.254',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '2852039166',
  '169.254.43518',
  '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe',
  '64:ff9b::a9fe:a9fe',
  'fd00:ec2::254',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '127.0.0.1',
  '127.1',
  '2130706433',
  '::1',
  '::ffff:127.0.0.1',
  '0.0.0.0',
  '10.0.0.1',
  '0x0a000001',
  '172.16.0.1',
  '192.168.0.1',
  '192.168.1',
  '100.64.0.1',
  '169.254.0.1',
  '198.18.0.2',
  '198.19.255.254',
  '192.0.2.9',
  '198.51.100.1',
  '203.0.113.1',
  '240.0.0.1',
  'fc00::1',
  'fd12:3456:789a::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '2002:a9fe:a9fe::',
  '2001:0:7f00:1::',
  '64:ff9b::7f00:1',
  '64:ff9b:1::a9fe:a9fe',
];

function request(host: string, port: number): Try {
  const named = host.includes(':') ? `[${host}]` : host;
  const say = [`GET /latest/meta-data/ HTTP/1.1\r\nHost: ${named}${port === 80 ? '' : `:${port}`}\r\n\r\n`];
  return { do: 'tcp', host, port, say };
}

/** Each connection is let out where its one question for the name led to a host, and not at all where it led elsewhere. */
function followsOneAnswer({ answers, heard }: Seen): string | null {
  const arrived = answers.filter(({ said }) => said.includes('well')).length;
  const stopped = answers.filter(({ said }) => /^x-space-egress: egress_refused/im.test(said)).length;
  if (arrived + stopped !== answers.length || arrived !== stopped) {
    return `${arrived} arrived and ${stopped} were refused, of ${answers.length}: ${shown(answers.at(-1)?.said ?? '')}`;
  }
  // One for each kind of address.
  const asked = heard?.names.length ?? 0;
  return asked === 2 * answers.length ? null : `${answers.length} connections asked for the name ${asked} times`;
}

export const ADDRESS_CASES: readonly Case[] = [
  ...LITERALS.map((literal) =>
    trick(TOPIC, {
      name: literal,
      scene: 'internet',
      tries: () => [request(literal, 80), { ...request(literal, 443), tls: { sni: null } } as Try],
      verdict: all(refused, reachesNobody),
    }),
  ),
  ...Object.entries(LEADING_ASTRAY).map(([label, addresses]) =>
    trick(TOPIC, {
      name: `a name that leads to ${addresses.join(' and ')}`,
      scene: 'internet',
      needs: ['own hosts'],
      tries: (places) => {
        const { domain, http } = ownOf(places);
        return [request(`${label}.${domain}`, http)];
      },
      verdict: all(refused, (seen) => (seen.heard?.connections ? 'a connection came to a host' : null)),
    }),
  ),
  trick(TOPIC, {
    name: 'a name whose address changes with every question',
    scene: 'flipping',
    needs: ['own hosts'],
    tries: (places) => {
      const { domain, http } = ownOf(places);
      const host = `${FLIPPING}.${domain}`;
      const say = [`GET /open HTTP/1.1\r\nHost: ${host}:${http}\r\nConnection: close\r\n\r\n`];
      return Array.from({ length: 10 }, () => ({ do: 'tcp', host, port: http, say }) as const);
    },
    verdict: followsOneAnswer,
  }),
];
