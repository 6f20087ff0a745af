/**
 * What keeps the audit as it was written, also from a program with the rights of the platform: triggers. Who owns the tables can
 * drop them; that shows in the chains, as long as somebody knows an earlier head.
 */

const refuse = (what: string) => `raise exception '${what}' using errcode = 'restrict_violation'`;

/** A link is never changed, and goes only when the anchor of its chain has come behind it. */
const LINKS = `
  create function audit_links_kept() returns trigger language plpgsql as $$
  begin
    if tg_op = 'DELETE' and exists (
      select from audit_chains where organisation_id = old.organisation_id and chain = old.chain and anchor_number >= old.number
    ) then return old; end if;
    ${refuse('links of the audit are only added')};
  end $$`;

/** The head and the anchor only go on, each to a link that is there. */
const CHAINS = `
  create function audit_chains_kept() returns trigger language plpgsql as $$
  begin
    if tg_op = 'UPDATE' and new.organisation_id = old.organisation_id and new.chain = old.chain
      and new.head_number >= old.head_number and new.anchor_number >= old.anchor_number
      and ((new.head_number, new.head_digest) = (old.head_number, old.head_digest) or exists (
        select from audit_links where organisation_id = new.organisation_id and chain = new.chain
          and number = new.head_number and digest = new.head_digest
      ))
      and ((new.anchor_number, new.anchor_digest) = (old.anchor_number, old.anchor_digest) or exists (
        select from audit_links where organisation_id = new.organisation_id and chain = new.chain
          and number = new.anchor_number and digest = new.anchor_digest
      ))
    then return new; end if;
    ${refuse('chains of the audit only go on')};
  end $$`;

/** Of a call only its end is told later, and nothing when it is linked; it goes with its link. */
const CALLS = `
  create function audit_kept() returns trigger language plpgsql as $$
  begin
    if tg_op = 'UPDATE' and old.link is null
      and (new.id, new.request_id, new.api_key_id, new.organisation_id, new.action, new.call, new.at)
        = (old.id, old.request_id, old.api_key_id, old.organisation_id, old.action, old.call, old.at)
      and new.project_id is not distinct from old.project_id
    then return new; end if;
    if tg_op = 'DELETE' and old.link is not null and exists (
      select from audit_chains where organisation_id = old.organisation_id and chain = 'calls' and anchor_number >= old.link
    ) then return old; end if;
    ${refuse('what is in the audit is not changed')};
  end $$`;

const ALL = `
  create function audit_not_emptied() returns trigger language plpgsql as $$
  begin
    ${refuse('the audit is not emptied')};
  end $$`;

const KEPT = { audit_links: 'audit_links_kept', audit_chains: 'audit_chains_kept', audit: 'audit_kept' } as const;

export const ONLY_ADDED_TO: readonly string[] = [
  LINKS,
  CHAINS,
  CALLS,
  ALL,
  ...Object.entries(KEPT).flatMap(([table, check]) => [
    `create trigger ${check} before update or delete on ${table} for each row execute function ${check}()`,
    `create trigger ${check}_all before truncate on ${table} for each statement execute function audit_not_emptied()`,
  ]),
];
