/** Where cases try to go: the names and ports of the hosts, which are ours with `--local`, and somebody's else. */

export interface Places {
  /** The host that rules allow. */
  readonly open: string;
  /** Another, that no rule of most scenes allows; of ours, at the same address. */
  readonly shut: string;
  /** Of HTTPS. */
  readonly https: number;
  /** What only hosts of ours have. Null: there are none. */
  readonly own: OwnPlaces | null;
}

export interface OwnPlaces {
  /** All names of ours lie below it. */
  readonly domain: string;
  readonly http: number;
  /** Of HTTP/2 over TLS. */
  readonly h2: number;
  /** Says back what it is told. */
  readonly echo: number;
  /** Speaks first, as SSH does. */
  readonly greeter: number;
}

/** What reached our hosts, and what our name server was asked for, in some time. */
export interface Heard {
  /** In clear text, as bytes came. */
  readonly text: string;
  readonly connections: number;
  readonly names: readonly string[];
}

/** Hosts of our own. */
export interface OwnHosts {
  /** What was heard since it was asked last. */
  take(): Heard;
  /** That are open now. */
  readonly connections: number;
}

export const NOTHING_HEARD: Heard = { text: '', connections: 0, names: [] };
