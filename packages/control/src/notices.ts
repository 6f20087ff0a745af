/**
 * Tells an organisation's address of what waits for a reviewer. The gateway sends it, since control has no way out; what is sent
 * names the request and holds neither its query nor its headers nor its body. What fails is tried again, later and later, for as
 * long as the approval waits; nobody waits for it, and what one address does not take holds up no other.
 */
import type { Input, Webhook, WebhookSet } from '@space/contract';
import { AppError, asAppError, type GatewayPort, type OrganisationId } from '@space/core';
import type { GatedCaller } from './gated-caller.ts';
import type { DueNotice } from './notice-records.ts';
import type { ControlPorts } from './ports.ts';

/** Of one look; of one organisation at a time. */
const MAX_DUE = 200;
const MAX_AT_ONCE = 4;
const FIRST_RETRY_MS = 5_000;
const LAST_RETRY_MS = 5 * 60_000;

export class Notices {
  readonly #ports: ControlPorts;
  readonly #gateway: GatewayPort;
  /** Of organisations whose address is being told something. */
  readonly #underWay = new Map<OrganisationId, Promise<void>>();

  constructor(ports: ControlPorts, gateway: GatewayPort) {
    this.#ports = ports;
    this.#gateway = gateway;
  }

  async getWebhook({ principal: { organisationId } }: GatedCaller): Promise<Webhook> {
    const found = await this.#ports.records.notices.findWebhook(organisationId);
    if (found === null) throw new AppError('not_found', 'The organisation has no webhook.');
    const { url, setAt, failure } = found;
    return {
      url,
      setAt: setAt.toISOString(),
      failure: failure === null ? null : { code: failure.code, at: failure.at.toISOString() },
    };
  }

  async setWebhook({ principal }: GatedCaller, { url }: Input<'setWebhook'>): Promise<WebhookSet> {
    const { records, clock } = this.#ports;
    const { organisationId } = principal;
    const secretKey = await this.#gateway.noticeSecret(organisationId, url);
    await records.notices.setWebhook(organisationId, url, new Date(clock.now()));
    return { url, secretKey };
  }

  async removeWebhook({ principal: { organisationId } }: GatedCaller): Promise<void> {
    const { records, clock } = this.#ports;
    await records.notices.setWebhook(organisationId, null, new Date(clock.now()));
  }

  /** What is begun here ends by itself. */
  async round(): Promise<void> {
    const { records, clock, logger } = this.#ports;
    const due = await records.notices.due(new Date(clock.now()), MAX_DUE);
    for (const [organisationId, own] of Map.groupBy(due, ({ approval }) => approval.organisationId)) {
      if (this.#underWay.has(organisationId)) continue;
      const telling = this.#tell(organisationId, own.slice(0, MAX_AT_ONCE))
        .catch((err: unknown) => logger.warn({ organisationId, err }, 'what became of notices was not written down'))
        .finally(() => this.#underWay.delete(organisationId));
      this.#underWay.set(organisationId, telling);
    }
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  async #tell(organisationId: OrganisationId, due: readonly DueNotice[]): Promise<void> {
    const organisation = await this.#ports.records.tenants.findOrganisation(organisationId);
    const privateHosts = organisation?.network.privateHosts ?? [];
    await Promise.all(due.map((notice) => this.#tellOne(notice, privateHosts)));
  }

  async #tellOne({ approval, url, tries }: DueNotice, privateHosts: readonly string[]): Promise<void> {
    const { records, clock, logger } = this.#ports;
    const { id, organisationId } = approval;
    try {
      await this.#gateway.sendNotice({ organisationId, url, id, body: bodyOf(approval), privateHosts });
    } catch (thrown) {
      const { code } = asAppError(thrown);
      logger.info({ organisationId, approvalId: id, err: thrown }, 'a notice was not taken');
      const at = clock.now();
      const nextAt = new Date(at + Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** tries));
      return records.notices.failed(approval, { code, at: new Date(at), nextAt });
    }
    await records.notices.sent(approval);
  }
}

function bodyOf({ id, projectId, sandboxId, rule, request, requestedAt, expiresAt }: DueNotice['approval']): string {
  const { method, scheme, host, port, url } = request;
  return JSON.stringify({
    type: 'approval.requested',
    timestamp: requestedAt.toISOString(),
    data: {
      id,
      project: projectId,
      sandbox: sandboxId,
      rule,
      request: { method, scheme, host, port, path: url.split('?', 1)[0] },
      expiresAt: expiresAt.toISOString(),
    },
  });
}
