/**
 * One connection of a sandbox, carried to its end: judged by its name before anything is looked up, told apart by its first
 * bytes, and let out as what it is.
 *
 * ```
 *   name, port ─► any rule? ─► first bytes ─┬─ TLS ──► SNI = name? ─► dialled and verified ─► ended here ─► each request
 *                                           ├─ HTTP ─► each request
 *                                           └─ else ─► a rule for any bytes? ─► dialled ─► bytes both ways
 * ```
 */
import type { Duplex } from 'node:stream';
import { type SecureContext, TLSSocket } from 'node:tls';
import { AppError, asAppError, normaliseHost } from '@space/core';
import type { Authorities } from './authorities.ts';
import { secure } from './dial.ts';
import type { Http1Front, Way } from './http1.ts';
import { serveHttp2 } from './http2.ts';
import type { Passage } from './passage.ts';
import { pump } from './pump.ts';
import { type ReachTools, reach } from './reach.ts';
import { mismatch, refused } from './refusal.ts';
import { screenOfBytes } from './secrets/placeholder-screen.ts';
import type { Sessions } from './sessions.ts';
import { type ClientHello, type FirstBytes, sniff } from './sniff.ts';
import { within } from './until.ts';

/** After so long without a byte it may be that the server is to speak first. */
const SPEAKS_FIRST_MS = 300;
const FIRST_BYTES_WITHIN_MS = 30_000;
/** When nothing can be reached, so that a program that is slow to speak can be told why. */
const LAST_WORDS_WITHIN_MS = 2_000;
const HANDSHAKE_WITHIN_MS = 30_000;
const NOBODY_NEEDS_IT = new AppError('egress_failed', 'The connection of the program is over.');

export interface CarryTools extends ReachTools {
  readonly authorities: Authorities;
  readonly http1: Http1Front;
  readonly trusted: SecureContext;
  readonly sessions: Sessions;
}

/** Throws `egress_refused` or `egress_failed` when the guest was told nothing: its connection is for the caller to reset. */
export async function carry(passage: Passage, tools: CarryTools): Promise<void> {
  const carrier = new Carrier(passage, tools);
  try {
    await carrier.carry();
    passage.guest.destroy();
  } finally {
    carrier.close();
  }
}

class Carrier {
  readonly #passage: Passage;
  readonly #tools: CarryTools;
  /** Dialled while it was not known yet who speaks first. */
  #dialled: Promise<Duplex> | null = null;
  /** Aborts when nobody needs any more what is being dialled. */
  readonly #over = new AbortController();

  constructor(passage: Passage, tools: CarryTools) {
    this.#passage = passage;
    this.#tools = tools;
    passage.signal.addEventListener('abort', this.#end, { once: true });
  }

  async carry(): Promise<void> {
    const first = await this.#firstBytes();
    switch (first.kind) {
      case 'tls':
        return this.#carryTls(first.hello);
      case 'http1':
        return this.#tools.http1.serve(this.#passage.bind(this.#passage.guest), this.#passage, this.#plainWay());
      case 'http2':
        return serveHttp2(this.#passage.bind(this.#passage.guest), this.#passage, this.#plainWay());
      case 'unreadable':
        throw this.#told(mismatch('It begins as TLS that cannot be read.'));
      case 'other':
        return this.#carryBytes(this.#passage.guest);
    }
  }

  close(): void {
    this.#passage.signal.removeEventListener('abort', this.#end);
    this.#end();
    void this.#dialled?.then(
      (socket) => socket.destroy(),
      () => undefined,
    );
  }

  readonly #end = (): void => this.#over.abort(NOBODY_NEEDS_IT);

  async #firstBytes(): Promise<FirstBytes> {
    const { guest, signal } = this.#passage;
    const soon = await within(SPEAKS_FIRST_MS, signal, (limit) => guest.peek(sniff, limit));
    if (soon !== null) return soon;
    let patienceMs = FIRST_BYTES_WITHIN_MS;
    if (!guest.hasSpoken && !guest.hasEnded && this.#passage.judgeOpaque('tcp').allowed) {
      try {
        const spoken = await this.#whoSpeaks();
        if (spoken !== null) return spoken;
      } catch (thrown) {
        // Whoever needs the way finds it as it is, and says so as the guest speaks.
        if (!(thrown instanceof AppError)) throw thrown;
        patienceMs = LAST_WORDS_WITHIN_MS;
      }
    }
    return (await within(patienceMs, signal, (limit) => guest.peek(sniff, limit))) ?? { kind: 'other' };
  }

  /** Dials, and waits for the first byte of either side. Null: the guest spoke, and not enough to tell what. */
  async #whoSpeaks(): Promise<FirstBytes | null> {
    const { guest, signal } = this.#passage;
    const socket = await this.#dial();
    const first = new AbortController();
    const server = (): void => first.abort();
    for (const event of ['readable', 'end', 'close']) socket.once(event, server);
    try {
      const told = await guest.peek(sniff, AbortSignal.any([signal, first.signal]));
      return told ?? (guest.hasSpoken ? null : { kind: 'other' });
    } finally {
      for (const event of ['readable', 'end', 'close']) socket.off(event, server);
    }
  }

  async #carryBytes(guest: Duplex): Promise<void> {
    await this.#pumpUnread('tcp', guest);
  }

  async #pumpUnread(protocol: 'tls' | 'tcp', guest: Duplex): Promise<void> {
    const passage = this.#passage;
    const judge = (): string => {
      const decision = passage.judgeOpaque(protocol);
      if (!decision.allowed) throw this.#told(refused(decision));
      return decision.rule;
    };
    judge();
    const far = await this.#dial();
    // Dialling takes a while, in which the rules may have changed.
    const screen = protocol === 'tls' ? null : screenOfBytes();
    await pump({ passage, guest, far, screen, account: passage.beginOpaque(protocol, judge()) });
  }

  async #carryTls(hello: ClientHello): Promise<void> {
    const { target } = this.#passage;
    const named = hello.serverName === null ? null : normaliseHost(hello.serverName);
    const isSame = hello.serverName === null || named === target.host;
    const passThrough = this.#passage.judgeOpaque('tls');
    // With a second name that is hidden, nobody knows which host it is for; opened here, that one comes to nothing.
    if (isSame && named !== null && passThrough.allowed && !hello.hidesName) {
      return this.#pumpUnread('tls', this.#passage.guest);
    }
    const shown = named ?? target.host;
    const decision = this.#passage.judgeTarget();
    if (!decision.allowed) return this.#explain(hello, shown, refused(decision));
    if (!isSame) {
      const asked = (hello.serverName ?? '').replace(/[^\x21-\x7e]/g, '?').slice(0, 100);
      return this.#explain(hello, shown, mismatch(`TLS asks for "${asked}" on a connection to ${target.host}.`));
    }
    await this.#endTls(hello, shown);
  }

  async #endTls(hello: ClientHello, shown: string): Promise<void> {
    const passage = this.#passage;
    const offered = hello.protocols.filter((protocol) => protocol === 'h2' || protocol === 'http/1.1');
    const connect = async () => {
      const socket = (await this.#dial()) as never;
      this.#dialled = null;
      const { trusted } = this.#tools;
      const sessions = this.#tools.sessions.of(passage.sandboxId, passage.target, offered);
      const { signal } = this.#over;
      const far = passage.bind(await secure(socket, passage.target, { trusted, protocols: offered, sessions, signal }));
      signal.addEventListener('abort', () => far.destroy(), { once: true });
      return far;
    };
    const secured = connect().catch(asAppError);
    // Whoever takes nothing but HTTP/1.1 gets that, whatever the host takes: so nobody waits for the other there.
    const isKnown = offered.length === 1 && offered[0] === 'http/1.1';
    const [far, early] = await Promise.all([secured, isKnown ? this.#accept(shown, hello, 'http/1.1') : null]);
    if (far instanceof AppError) return this.#explain(hello, shown, far, early);
    const near = early ?? (await this.#accept(shown, hello, far.alpnProtocol === 'h2' ? 'h2' : 'http/1.1'));
    let first: TLSSocket | null = far;
    const way: Way = {
      secure: true,
      open: async () => {
        const ready = first ?? (await connect());
        first = null;
        return ready;
      },
    };
    if (near.alpnProtocol === 'h2') return serveHttp2(near, passage, way);
    const isHttp = offered.length > 0 || (await speaksHttp(near, far));
    if (isHttp) return this.#tools.http1.serve(near, passage, way);
    const decision = passage.judgeOpaque('tcp');
    if (!decision.allowed) throw this.#told(refused(decision));
    const account = passage.beginOpaque('tcp', decision.rule);
    await pump({ passage, guest: near, far, screen: screenOfBytes(), account });
  }

  /** Ends the TLS of the guest with a certificate of the organisation's authority. */
  async #accept(shown: string, hello: ClientHello, protocol: string): Promise<TLSSocket> {
    const { guest, rules } = this.#passage;
    const secureContext = await this.#tools.authorities.contextFor(rules.organisationId, shown);
    // Over a socket of the kernel's, TLS needs no stream of ours for each record.
    const taken = guest.takeSocket();
    const near = new TLSSocket(taken?.socket ?? (guest as never), {
      isServer: true,
      secureContext,
      ...(hello.protocols.includes(protocol) ? { ALPNProtocols: [protocol] } : {}),
    });
    this.#passage.bind(near);
    near.once('close', this.#end);
    if (taken !== null) {
      near.once('finish', taken.ended);
      // It had ended before TLS began to read it, which is not told of it any more.
      taken.socket.once('end', () => near.destroy());
    }
    await handshake(near);
    // A server of TLS says so of its sockets; of one that was made here nobody does, and HTTP/2 would wait for it.
    return Object.assign(near, { secureConnecting: false });
  }

  /** Says to a program that speaks HTTP in TLS why nothing leaves. */
  async #explain(hello: ClientHello, shown: string, failure: AppError, early: TLSSocket | null = null): Promise<void> {
    const offersOnly2 = hello.protocols.includes('h2') && !hello.protocols.includes('http/1.1');
    const way: Way = { secure: true, open: () => Promise.reject(failure) };
    const passage = this.#passage;
    passage.failure = failure;
    const near = early ?? (await this.#accept(shown, hello, offersOnly2 ? 'h2' : 'http/1.1'));
    await (near.alpnProtocol === 'h2' ? serveHttp2(near, passage, way) : this.#tools.http1.serve(near, passage, way));
  }

  #plainWay(): Way {
    return {
      secure: false,
      open: async () => {
        const socket = this.#passage.bind(await this.#dial());
        this.#dialled = null;
        return socket;
      },
    };
  }

  #dial(): Promise<Duplex> {
    this.#dialled ??= this.#dialOnce();
    return this.#dialled;
  }

  async #dialOnce(): Promise<Duplex> {
    const decision = this.#passage.judgeTarget();
    if (!decision.allowed) throw refused(decision);
    const { rules, target } = this.#passage;
    const judge = this.#passage.judgeAddresses.bind(this.#passage);
    return reach({ rules, target, judge, signal: this.#over.signal }, this.#tools);
  }

  /** Written down, since nobody else does. */
  #told(failure: AppError): AppError {
    this.#passage.recordFailure(failure);
    return failure;
  }
}

/** Of the guest's side; the connection is destroyed when it does not come to its end. */
async function handshake(near: TLSSocket): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const giveUp = (): void => reject(new Error('the guest gave the handshake up'));
  near.once('secure', resolve).once('error', reject).once('close', giveUp);
  const late = setTimeout(() => near.destroy(), HANDSHAKE_WITHIN_MS);
  try {
    await promise;
  } catch (cause) {
    near.destroy();
    throw cause;
  } finally {
    clearTimeout(late);
    near.off('error', reject).off('close', giveUp);
  }
}

/** Without ALPN: whether the guest begins with a request. When the server speaks first it is something else. */
async function speaksHttp(near: TLSSocket, far: TLSSocket): Promise<boolean> {
  const seen: Buffer[] = [];
  let told: FirstBytes | null = null;
  while (told === null && !near.readableEnded && !near.destroyed) {
    const bytes = near.read() as Buffer | null;
    if (bytes !== null) {
      seen.push(bytes);
      told = sniff(Buffer.concat(seen));
      continue;
    }
    if (seen.length === 0 && far.readableLength > 0) break;
    await new Promise<void>((resolve) => {
      const go = (): void => {
        for (const event of ['readable', 'end', 'close']) near.off(event, go);
        far.off('readable', go);
        resolve();
      };
      for (const event of ['readable', 'end', 'close']) near.on(event, go);
      far.on('readable', go);
    });
  }
  if (seen.length > 0) near.unshift(Buffer.concat(seen));
  // Both streams find out in the next turn that nobody waits for them to be readable.
  await new Promise((resolve) => setImmediate(resolve));
  return told?.kind === 'http1';
}
