/**
 * Notices of control to addresses that tenants have named. They leave by the gateway, since nothing else of the platform has a way
 * out, and by the same care as what leaves sandboxes: the name is resolved here, only public addresses (and hosts that who runs
 * the installation has named) are dialled, whoever answers proves to be the host, and no redirect is followed. Signed as Standard
 * Webhooks are, by a key that is made from one that never leaves the gateway's own folder.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { type ClientRequest, request } from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import {
  type AddressClass,
  AppError,
  decideAddress,
  type EgressTarget,
  NO_CONSTRAINTS,
  type Notice,
  normaliseHost,
  type OrganisationId,
} from '@space/core';
import { secure } from './dial.ts';
import { findOwn, keepOwn } from './own-files.ts';
import { type ReachTools, reach } from './reach.ts';
import { refused } from './refusal.ts';

const ANSWER_WITHIN_MS = 10_000;
const KEY_BYTES = 32;
const KEY_FILE = 'notices.key';

export interface NoticeTools extends ReachTools {
  readonly trusted: SecureContext;
}

export class Notices {
  readonly #folder: string;
  #key: Promise<Buffer> | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** In the form in which receivers of Standard Webhooks take it. */
  async secretOf(organisationId: OrganisationId, url: string): Promise<string> {
    return `whsec_${(await this.#keyOf(organisationId, url)).toString('base64')}`;
  }

  /** Throws `egress_refused` and `egress_failed`. */
  async send(notice: Notice, tools: NoticeTools): Promise<void> {
    const { organisationId, url, id, body, privateHosts } = notice;
    const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
    const { target, isSecure, path, authority } = targetOf(url);
    const rules = { policy: NO_CONSTRAINTS, constraints: { ...NO_CONSTRAINTS, privateHosts } };
    const judge = (classes: readonly AddressClass[]): void => {
      for (const is of classes) {
        const decision = decideAddress(rules, target, is);
        if (!decision.allowed) throw refused(decision);
      }
    };
    const plain = await reach({ rules, target, judge, signal }, tools);
    const socket: Duplex = isSecure
      ? await secure(plain, target, { trusted: tools.trusted, protocols: ['http/1.1'], sessions: null, signal })
      : plain;
    const at = `${Math.floor(Date.now() / 1000)}`;
    const signature = createHmac('sha256', await this.#keyOf(organisationId, url)).update(`${id}.${at}.${body}`);
    try {
      const status = await answerOf(
        request({
          createConnection: () => socket as never,
          method: 'POST',
          path,
          setHost: false,
          signal,
          headers: {
            host: authority,
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
            'user-agent': 'SPACE',
            'webhook-id': id,
            'webhook-timestamp': at,
            'webhook-signature': `v1,${signature.digest('base64')}`,
            connection: 'close',
          },
        }),
        body,
      );
      if (status < 200 || status > 299) throw new AppError('egress_failed', `The address answered with ${status}.`);
    } finally {
      socket.destroy();
    }
  }

  async #keyOf(organisationId: OrganisationId, url: string): Promise<Buffer> {
    this.#key ??= readOrMakeKey(this.#folder);
    this.#key.catch(() => {
      this.#key = null;
    });
    return createHmac('sha256', await this.#key)
      .update(`notices\0${organisationId}\0${url}`)
      .digest();
  }
}

/** The status. The rest of the answer is not read. */
function answerOf(asked: ClientRequest, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    asked.once('response', (response) => {
      resolve(response.statusCode ?? 0);
      response.destroy();
    });
    asked.on('error', (cause) => reject(new AppError('egress_failed', 'The address did not answer.', { cause })));
    asked.end(body);
  });
}

interface NoticeTarget {
  readonly target: EgressTarget;
  readonly isSecure: boolean;
  readonly path: string;
  readonly authority: string;
}

function targetOf(text: string): NoticeTarget {
  const url = new URL(text);
  const host = normaliseHost(url.hostname);
  const isSecure = url.protocol === 'https:';
  if (host === null || !isSecure || url.username !== '' || url.password !== '') {
    throw new AppError('egress_refused', 'Notices go to https addresses without a password in them.');
  }
  const port = url.port === '' ? 443 : Number(url.port);
  return { target: { host, port }, isSecure, path: url.pathname + url.search, authority: url.host };
}

async function readOrMakeKey(folder: string): Promise<Buffer> {
  const path = join(folder, KEY_FILE);
  const kept = await findOwn(path);
  const key = kept ?? randomBytes(KEY_BYTES);
  if (kept === null) await keepOwn(path, key);
  if (key.length !== KEY_BYTES) throw new Error(`${path} is not a key`);
  return key;
}
