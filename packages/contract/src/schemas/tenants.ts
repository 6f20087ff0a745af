/** Who owns what and who may do what: organisations, their projects and their API keys. */
import { canDecide, ROLES } from '@space/core';
import { z } from 'zod';
import {
  apiKeyId,
  name,
  nextCursor,
  organisationId,
  projectId,
  projectReference,
  queryBoolean,
  timestamp,
} from './fields.ts';
import { policyChoice, shownPolicyChoice } from './snapshot-policy.ts';

export const role = z.enum(ROLES).meta({ id: 'Role' });

export const project = z
  .strictObject({ id: projectId, name, createdAt: timestamp, snapshots: shownPolicyChoice })
  .meta({ id: 'Project', description: 'Owns sandboxes and snapshots; their names are unique in it.' });

export const projectList = z.strictObject({ projects: z.array(project), nextCursor }).meta({ id: 'ProjectList' });
export const createProjectBody = z.strictObject({ name }).meta({ id: 'CreateProject' });
export const updateProjectBody = z
  .strictObject({ name: name.exactOptional(), snapshots: policyChoice.exactOptional() })
  .meta({ id: 'UpdateProject', description: 'What is left out stays.' });
export const deleteProjectQuery = z.strictObject({
  force: queryBoolean.default(false).meta({ description: 'Also its sandboxes and snapshots.' }),
});
export const projectParams = z.strictObject({ id: projectReference });

const apiKeyShape = {
  id: apiKeyId,
  name: name.nullable(),
  prefix: z.string().meta({ description: 'The first letters of the key, to recognise it by.' }),
  roles: z.array(role),
  project: projectId
    .nullable()
    .meta({ description: 'The only project that it reaches; null: all of its organisation.' }),
  createdAt: timestamp,
  revokedAt: timestamp.nullable(),
};

export const apiKey = z.strictObject(apiKeyShape).meta({ id: 'ApiKey' });
export const apiKeyList = z.strictObject({ keys: z.array(apiKey), nextCursor }).meta({ id: 'ApiKeyList' });

export const createdApiKey = z
  .strictObject({
    ...apiKeyShape,
    secretKey: z.string().nullable().meta({
      description: 'What a caller sends. Shown this once and kept nowhere: null when the answer is given again.',
    }),
  })
  .meta({ id: 'CreatedApiKey' });

export const createKeyBody = z
  .strictObject({
    name: name.exactOptional().meta({ description: 'For people; need not be unique.' }),
    roles: z
      .array(role)
      .min(1)
      .max(ROLES.length)
      .refine((roles) => new Set(roles).size === roles.length, 'must not repeat a role')
      .refine(
        (roles) => !roles.includes('reviewer') || canDecide(roles),
        'reviewer must not stand beside admin or developer: who has sandboxes or makes keys decides on none of their requests',
      )
      .meta({ uniqueItems: true }),
    project: projectReference.exactOptional().meta({ description: 'Limits the key to this project (id or name).' }),
  })
  .meta({ id: 'CreateKey' });

export const keyParams = z.strictObject({ id: apiKeyId });

const count = z.number().int().min(0);
const limit = count.max(1_000_000_000).nullable();

export const limits = z
  .strictObject({
    sandboxes: limit.meta({ description: 'In all, whatever their state is.' }),
    running: limit.meta({ description: 'With a microVM, from the begin of what starts it.' }),
    snapshots: limit.meta({
      description: 'Named and pinned ones; those that come and go by themselves are not counted.',
    }),
    memoryMib: limit.meta({ description: 'Of all microVMs together, MiB.' }),
  })
  .meta({ id: 'Limits', description: 'Null: no limit.' });

export const limitsAndUsage = z
  .strictObject({
    limits,
    present: z.strictObject({ sandboxes: count, running: count, snapshots: count, memoryMib: count }),
  })
  .meta({ id: 'LimitsAndUsage' });

export const limitsBody = z.strictObject({
  sandboxes: limit.exactOptional(),
  running: limit.exactOptional(),
  snapshots: limit.exactOptional(),
  memoryMib: limit.exactOptional(),
});

export const organisationParams = z.strictObject({ id: organisationId });

export const organisation = z
  .strictObject({
    id: organisationId,
    name,
    limits,
    operator: z.boolean().meta({ description: 'Whether it runs the installation; exactly one does.' }),
    createdAt: timestamp,
  })
  .meta({ id: 'Organisation' });

export const organisationList = z
  .strictObject({ organisations: z.array(organisation), nextCursor })
  .meta({ id: 'OrganisationList' });

export const createOrganisationBody = z.strictObject({ name }).meta({ id: 'CreateOrganisation' });

export const createdOrganisation = z
  .strictObject({ organisation, project, key: createdApiKey })
  .meta({ id: 'CreatedOrganisation', description: 'With its first project, and the first key of an admin.' });
