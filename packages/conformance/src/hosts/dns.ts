/** The authoritative name server of the hosts: it knows the names of its zone, and records each question. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

const A = 1;
const AAAA = 28;
const NO_SUCH_NAME = 3;

/** Addresses of a name; given how often it was asked for before, from 0 on, where they change. */
export type Zone = (name: string, asked: number) => readonly string[] | null;

export class Dns {
  readonly #socket: Socket;
  readonly #zone: Zone;
  readonly #onQuestion: (name: string) => void;
  readonly #counts = new Map<string, number>();

  private constructor(socket: Socket, zone: Zone, onQuestion: (name: string) => void) {
    this.#socket = socket;
    this.#zone = zone;
    this.#onQuestion = onQuestion;
  }

  static async listen(zone: Zone, onQuestion: (name: string) => void): Promise<Dns> {
    const socket = createSocket('udp4');
    const dns = new Dns(socket, zone, onQuestion);
    socket.on('message', (question, from) => {
      const answer = dns.#answer(question);
      if (answer !== null) socket.send(answer, from.port, from.address);
    });
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    return dns;
  }

  get address(): string {
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  close(): void {
    this.#socket.close();
  }

  #answer(question: Buffer): Buffer | null {
    const read = readQuestion(question);
    if (read === null) return null;
    const { name, kind, end } = read;
    this.#onQuestion(name);
    const asked = this.#counts.get(name) ?? 0;
    if (kind === A) this.#counts.set(name, asked + 1);
    const found = this.#zone(name, asked);
    const records = (found ?? []).filter((address) => (address.includes(':') ? AAAA : A) === kind).map(recordOf);
    const head = Buffer.from(question.subarray(0, 12));
    head.writeUInt16BE(0x8580 | (found === null ? NO_SUCH_NAME : 0), 2);
    head.writeUInt16BE(records.length, 6);
    head.writeUInt32BE(0, 8);
    return Buffer.concat([head, question.subarray(12, end), ...records]);
  }
}

function readQuestion(question: Buffer): { name: string; kind: number; end: number } | null {
  const labels: string[] = [];
  let at = 12;
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    if (length > 63) return null;
    labels.push(question.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  if (at + 5 > question.length) return null;
  return { name: labels.join('.').toLowerCase(), kind: question.readUInt16BE(at + 1), end: at + 5 };
}

/** Good for no time at all, so that every connection asks anew. */
function recordOf(address: string): Buffer {
  const data = address.includes(':') ? bytesOfV6(address) : Buffer.from(address.split('.').map(Number));
  const head = Buffer.from([0xc0, 12, 0, data.length === 4 ? A : AAAA, 0, 1, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([head, data]);
}

/** Of an address without an IPv4 part. */
function bytesOfV6(address: string): Buffer {
  const [head = [], tail = []] = address.split('::').map((half) => half.split(':').filter(Boolean));
  const groups = [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => '0'), ...tail];
  return Buffer.from(groups.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]));
}
