/**
 * The part of the records that says which secrets an organisation has, and what they are bound to. There is no value in it. A
 * binding goes with its secret, and with its last project what it grants.
 */
import type { NamedSecret, OrganisationId, SecretBinding } from '@space/core';

export interface RecordedSecret extends NamedSecret {
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface RecordedBinding extends SecretBinding {
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface SecretRecords {
  /** By name. */
  list(organisationId: OrganisationId): Promise<readonly RecordedSecret[]>;
  /** In the place of one of that name, whose version goes up. Throws `limit_reached`. */
  put(organisationId: OrganisationId, secret: Pick<NamedSecret, 'name' | 'source'>, at: Date): Promise<RecordedSecret>;
  /** With its bindings. False: there is none. */
  remove(organisationId: OrganisationId, name: string): Promise<boolean>;
  /** By name. */
  bindings(organisationId: OrganisationId): Promise<readonly RecordedBinding[]>;
  /** In the place of one of that name. Null: there is no such secret. Throws `limit_reached`. */
  putBinding(organisationId: OrganisationId, binding: SecretBinding, at: Date): Promise<RecordedBinding | null>;
  /** False: there is none. */
  removeBinding(organisationId: OrganisationId, name: string): Promise<boolean>;
}
