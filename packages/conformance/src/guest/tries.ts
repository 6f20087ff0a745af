/** What the program in a sandbox is told to do, and what it tells of that. Text stands for bytes, a letter for each (latin1). */

interface Tls {
  /** Null: none is sent. */
  readonly sni: string | null;
  readonly alpn?: readonly string[];
  /** Whether the certificate is checked, as ordinary programs do. Left out: no. */
  readonly verify?: boolean;
}

interface Connecting {
  readonly host: string;
  readonly port: number;
  /** Dialled in the place of what the name leads to. */
  readonly address?: string;
  readonly tls?: Tls;
  /** For each step. Left out: 15. */
  readonly seconds?: number;
}

export type Header = readonly [name: string, value: string];

export type Try =
  /** Says the pieces, each after something of an answer to the one before, and reads to the end, or until `until` was said. */
  | ({
      readonly do: 'tcp';
      readonly say: readonly string[];
      readonly shut?: boolean;
      readonly until?: string;
    } & Connecting)
  /** Opens all streams of HTTP/2 at once. */
  | ({
      readonly do: 'h2';
      readonly tls: Tls;
      readonly streams: readonly { readonly headers: readonly Header[]; readonly body?: string }[];
    } & Connecting)
  | { readonly do: 'udp'; readonly address: string; readonly port: number; readonly say: string }
  /** A packet of another protocol of IP. */
  | { readonly do: 'raw'; readonly address: string; readonly protocol: number; readonly say: string }
  | {
      readonly do: 'dns';
      readonly address: string;
      readonly name: string;
      readonly kind: number;
      readonly tcp?: boolean;
    }
  | { readonly do: 'run'; readonly argv: readonly string[]; readonly stdin?: string; readonly seconds?: number }
  /** Writes a file, or (null) puts back what it was. */
  | { readonly do: 'file'; readonly path: string; readonly text: string | null }
  | ({ readonly do: 'many'; readonly count: number; readonly atOnce: number } & Connecting);

export interface Answer {
  /** By its name, as `ECONNRESET`. Null: there was none. */
  readonly error: string | null;
  readonly said: string;
  readonly seconds: number;
  /** Of TLS: whether the certificate is one that the gateway has made. */
  readonly byGateway?: boolean | null;
  readonly streams?: readonly StreamAnswer[];
  /** Of a question for a name. */
  readonly code?: number;
  readonly count?: number;
  readonly exit?: number;
  readonly answered?: number;
  readonly refused?: Readonly<Record<string, number>>;
}

interface StreamAnswer {
  readonly status: number | null;
  readonly said: string;
  /** How many heads came: two when there were trailers. */
  readonly heads: number;
  readonly reset?: number;
}
