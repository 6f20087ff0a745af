/** Secrets by name, and what they are bound to. No answer holds a value, nor does a request in clear. */
import { DEFAULT_BINDING_PORTS, isPlaceOfSecret, MAX_SEALED_LENGTH, normaliseHostPattern } from '@space/core';
import { z } from 'zod';
import { name, organisationId, projectReference, timestamp } from './fields.ts';
import { pathPrefix, rulePorts } from './network.ts';

const MAX_BINDING_HOSTS = 50;
const MAX_BINDING_PATHS = 50;
const MAX_BINDING_PROJECTS = 200;
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;

const secretHost = z
  .string()
  .min(1)
  .max(255)
  .transform((text, context) => {
    const pattern = normaliseHostPattern(text);
    if (pattern !== null && pattern !== '*') return pattern;
    context.addIssue({ code: 'custom', message: 'must be a host, an address, or `*.` and a name' });
    return z.NEVER;
  })
  .meta({ description: 'A name; `*.` and a name: all that lies below it; or an address. Never all hosts.' });

const reference = z.string().min(1).max(500);
const store = name.meta({ description: 'A store of secrets that the operator has configured.' });

const askedSource = z
  .union([
    z
      .strictObject({ kind: z.literal('store'), store, path: reference, field: reference.nullable().default(null) })
      .meta({ description: 'A value in a store; what `path` and `field` are depends on its kind.' }),
    z
      .strictObject({
        kind: z.literal('oauth2'),
        store,
        clientId: reference,
        clientSecret: name.nullable().default(null),
        refreshToken: name.nullable().default(null),
        scope: z.string().max(1000).nullable().default(null),
      })
      .meta({
        description:
          'Access tokens of an authorisation server; `clientSecret` and `refreshToken` name secrets of the organisation that ' +
          'are kept by the gateway. Without a refresh token: client credentials.',
      }),
  ])
  .meta({ id: 'SecretSource' });

const shownSource = z.union([
  z.strictObject({ kind: z.literal('local') }),
  z.strictObject({ kind: z.literal('store'), store: z.string(), path: z.string(), field: z.string().nullable() }),
  z.strictObject({
    kind: z.literal('oauth2'),
    store: z.string(),
    clientId: z.string(),
    clientSecret: z.string().nullable(),
    refreshToken: z.string().nullable(),
    scope: z.string().nullable(),
  }),
]);

export const secret = z
  .strictObject({
    name,
    source: shownSource.meta({ description: '`local`: the gateway keeps the value.' }),
    version: z.number().int().min(1).meta({ description: 'Goes up with each change.' }),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Secret', description: 'Its value is in no answer.' });

export const secretList = z.strictObject({ secrets: z.array(secret) }).meta({ id: 'SecretList' });
export const secretParams = z.strictObject({ id: name });

export const setSecretBody = z
  .strictObject({
    sealed: z
      .string()
      .regex(/^[A-Za-z0-9+/]+={0,2}$/, 'must be base64')
      .max(MAX_SEALED_LENGTH)
      .exactOptional()
      .meta({
        description: 'The value, sealed for the gateway (`/v1/sealing-key`); the SDK and the command line do that.',
      }),
    source: askedSource.exactOptional().meta({ description: 'Where the value comes from, each time.' }),
  })
  .refine((body) => (body.sealed === undefined) !== (body.source === undefined), 'must have either sealed or source')
  .meta({ id: 'SetSecret', oneOf: [{ required: ['sealed'] }, { required: ['source'] }] });

export const sealingKey = z
  .strictObject({
    publicKey: z.string().meta({ description: 'Of X25519, raw, in base64.' }),
    organisation: organisationId.meta({ description: 'A value is sealed for one secret of one organisation.' }),
  })
  .meta({ id: 'SealingKey' });

const headerName = z
  .string()
  .regex(HEADER_NAME, 'must be the name of a header')
  .refine(isPlaceOfSecret, 'must be a header that may hold a secret');
const visible = z.string().regex(/^[\x21-\x7e]([\x20-\x7e]*[\x20-\x7e])?$/, 'must be visible ASCII');

const place = z
  .discriminatedUnion('in', [
    z.strictObject({
      in: z.literal('header'),
      name: headerName,
      prefix: visible.max(100).or(z.literal('')).default('').meta({ description: 'Stands before the value.' }),
    }),
    z.strictObject({ in: z.literal('bearer') }),
    z.strictObject({
      in: z.literal('basic'),
      username: z
        .string()
        .regex(/^[\x20-\x39\x3b-\x7e]{0,200}$/, 'must be ASCII without a colon')
        .meta({ description: 'The value is the password.' }),
    }),
    z.strictObject({
      in: z.literal('query'),
      name: z.string().regex(/^[A-Za-z0-9._~-]{1,100}$/, 'must be a plain name'),
    }),
  ])
  .meta({ id: 'SecretPlace' });

const method = z.string().regex(/^[A-Z][A-Z-]{0,31}$/, 'must be a method, in capitals');
const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be the name of a variable');

export const setBindingBody = z
  .strictObject({
    secret: name.meta({ description: 'The secret that is placed.' }),
    hosts: z.array(secretHost).min(1).max(MAX_BINDING_HOSTS),
    ports: rulePorts.default([...DEFAULT_BINDING_PORTS]).meta({ description: 'Left out: 443.' }),
    methods: z
      .union([z.array(method).min(1).max(20), z.literal('all')])
      .default('all')
      .meta({ description: 'Left out: all that the sandbox may send.' }),
    paths: z
      .array(pathPrefix)
      .min(1)
      .max(MAX_BINDING_PATHS)
      .default(['/'])
      .meta({ description: 'Requests for one of them and what lies below it. Left out: all.' }),
    place: place.meta({ description: 'Where in the request it goes.' }),
    projects: z
      .union([z.array(projectReference).max(MAX_BINDING_PROJECTS), z.literal('all')])
      .default([])
      .meta({ description: 'Whose sandboxes may name it (ids or names). Left out: none.' }),
    env: variable
      .nullable()
      .default(null)
      .meta({ description: 'A variable of the environment of commands that shows the placeholder. Left out: none.' }),
  })
  .meta({ id: 'SetSecretBinding', description: 'Replaces the whole binding.' });

export const secretBinding = z
  .strictObject({
    name,
    secret: name,
    hosts: z.array(z.string()),
    ports: rulePorts,
    methods: z.union([z.array(z.string()), z.literal('all')]),
    paths: z.array(z.string()),
    place,
    projects: z.union([z.array(z.string()), z.literal('all')]),
    env: z.string().nullable(),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'SecretBinding' });

export const secretBindingList = z.strictObject({ bindings: z.array(secretBinding) }).meta({ id: 'SecretBindingList' });
