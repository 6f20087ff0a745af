/**
 * The OpenAPI 3.1 document, derived from the route table. Nothing is written by hand that the table or a schema already
 * says. Schemas with an `id` become components; all are shown as they are on the wire, that is, before parsing.
 */
import { ACTIONS, ROLE_ACTIONS, ROLES, type Role } from '@space/core';
import { z } from 'zod';
import { type ProblemCode, problemKindOf } from './problem-codes.ts';
import { type Route, takesIdempotencyKey } from './route.ts';
import { COMMON_ERRORS, ROUTE_NAMES, ROUTES } from './routes.ts';
import { operation, problem } from './schemas/index.ts';

type Json = Record<string, unknown>;

/** Names the project that a request means. */
export const PROJECT_HEADER_NAME = 'X-Space-Project';
/** In every answer: the version of the server. */
export const VERSION_HEADER_NAME = 'X-Space-Version';
/** How the caller wants to be answered. */
export const PREFER_HEADER_NAME = 'Prefer';
/** Names the call. */
export const IDEMPOTENCY_HEADER_NAME = 'Idempotency-Key';

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, Json>>;
  readonly required?: readonly string[];
}

export const API_VERSION = '0.1.0';

export function buildOpenApi(): Json & { readonly openapi: '3.1.0' } {
  const components = new Components();
  const paths: Record<string, Json> = {};
  for (const name of ROUTE_NAMES) {
    const route: Route = ROUTES[name];
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(name, route, components) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'SPACE',
      version: API_VERSION,
      description:
        'Sandboxes for AI agents. Fields and query parameters that are not declared here are refused. Errors are ' +
        'problem details (RFC 9457). A client that sends `X-Space-Interim: 102` gets an interim answer 102 every ' +
        'half minute while it waits, so that its own timeout for headers does not cut a long call.',
    },
    security: [{ key: [] }],
    paths,
    components: {
      schemas: components.sorted(),
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'The API key.' } },
    },
  };
}

function operationOf(name: string, route: Route, components: Components): Json {
  return {
    operationId: name,
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    ...(route.open ? { security: [] } : { 'x-space-action': route.action, 'x-space-roles': rolesOf(route) }),
    ...parametersOf(route, components),
    ...requestBodyOf(route, components),
    responses: responsesOf(route, components),
  };
}

const PROJECT_HEADER: Json = {
  name: PROJECT_HEADER_NAME,
  in: 'header',
  required: false,
  description: 'The project (id or name) that is meant, for a key of several; left out: the first of its organisation.',
  schema: { type: 'string' },
};

const PREFER_HEADER: Json = {
  name: PREFER_HEADER_NAME,
  in: 'header',
  required: false,
  description: '`respond-async`: answer with 202 and the operation as soon as it has begun.',
  schema: { type: 'string' },
};

const IDEMPOTENCY_HEADER: Json = {
  name: IDEMPOTENCY_HEADER_NAME,
  in: 'header',
  required: false,
  description:
    'Up to 255 visible ASCII characters that name this call of this API key for 24 hours: sent again with the same ' +
    'input, it is not carried out again and has the same answer. Failures that changed nothing are not remembered.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

function parametersOf(route: Route, components: Components): Json {
  const parameters = [
    ...parametersIn('path', components.schemaOf(route.params)),
    ...parametersIn('query', components.schemaOf(route.query)),
    ...(route.action !== undefined && ACTIONS[route.action] === 'project' ? [PROJECT_HEADER] : []),
    ...(takesIdempotencyKey(route) ? [IDEMPOTENCY_HEADER] : []),
    ...(route.async ? [PREFER_HEADER] : []),
  ];
  return parameters.length === 0 ? {} : { parameters };
}

function parametersIn(place: 'path' | 'query', schema: Json): Json[] {
  const { properties = {}, required = [] }: ObjectSchema = schema;
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: property,
  }));
}

function requestBodyOf(route: Route, components: Components): Json {
  if (route.body.kind === 'none') return {};
  if (route.body.kind === 'bytes') {
    return { requestBody: { required: true, content: { 'application/octet-stream': {} } } };
  }
  const optional = route.body.schema.safeParse({}).success;
  const content = { 'application/json': { schema: components.schemaOf(route.body.schema) } };
  return { requestBody: { required: !optional, content } };
}

function responsesOf(route: Route, components: Components): Json {
  const success = successOf(route, components);
  return {
    [route.status]: success,
    ...(route.async ? { 202: acceptedOf(components) } : {}),
    ...(route.otherStatus === undefined ? {} : { [route.otherStatus]: success }),
    ...(route.response.kind === 'bytes' ? { 206: { ...success, description: 'The range that was asked for.' } } : {}),
    ...problemsOf(route, components),
  };
}

function acceptedOf(components: Components): Json {
  return {
    description: 'With `Prefer: respond-async`: the operation, which has begun and goes on.',
    headers: { Location: { description: 'Where to get the operation.', schema: { type: 'string' } } },
    content: { 'application/json': { schema: components.schemaOf(operation) } },
  };
}

function successOf(route: Route, components: Components): Json {
  const description = route.summary;
  switch (route.response.kind) {
    case 'none':
      return { description };
    case 'bytes':
      return { description, content: { 'application/octet-stream': {} } };
    case 'text':
      return { description, content: { [route.response.contentType]: { schema: { type: 'string' } } } };
    case 'upgrade':
      return { description: `${description}. The connection is then \`${route.response.protocol}\`.` };
    case 'json':
      return { description, content: { 'application/json': { schema: components.schemaOf(route.response.schema) } } };
    case 'ndjson':
      return {
        description: `One event per line; empty lines are signs of life. The last is ${route.response.last.join(' or ')}.`,
        content: { 'application/x-ndjson': { schema: components.schemaOf(route.response.event) } },
      };
  }
}

/** The codes that a route can answer, by status. */
function problemsOf(route: Route, components: Components): Json {
  const schema = components.schemaOf(problem);
  const responses: Json = {};
  for (const [status, codes] of Map.groupBy(problemCodesOf(route), (code) => problemKindOf(code).status)) {
    // A status that also carries the route's own answer keeps that.
    if (status === route.otherStatus) continue;
    const description = codes.map((code) => `\`${code}\`: ${problemKindOf(code).title}.`).join(' ');
    responses[status] = { description, content: { 'application/problem+json': { schema } } };
  }
  return responses;
}

/** Every code that the route may answer with, those of the protocol included. */
export function problemCodesOf(route: Route): ProblemCode[] {
  const codes = new Set<ProblemCode>([...route.errors, ...COMMON_ERRORS, 'host_refused']);
  // A project that the request names, and the caller does not reach, is not found.
  if (!route.open) codes.add('unauthenticated').add('forbidden').add('too_many_attempts').add('not_found');
  if (takesIdempotencyKey(route)) codes.add('idempotency_conflict').add('operation_in_progress');
  if (route.body.kind !== 'none') codes.add('unsupported_media_type').add('request_too_slow');
  if (route.body.kind === 'json') codes.add('payload_too_large');
  if (route.response.kind === 'bytes') codes.add('range_unsatisfiable');
  if (route.response.kind === 'upgrade') codes.add('upgrade_required');
  return [...codes];
}

function rolesOf({ action }: Route): readonly Role[] {
  return action === undefined ? [] : ROLES.filter((role) => ROLE_ACTIONS[role].includes(action));
}

/** Collects the schemas that have an id; what is asked for comes back with references to them. */
class Components {
  readonly #schemas = new Map<string, Json>();

  schemaOf(schema: z.ZodType): Json {
    // As a property of another, also the schema itself is put among the definitions when it has an id.
    const wrapped = z.toJSONSchema(z.strictObject({ it: schema }), { io: 'input', override: showQueryIntegers });
    for (const [id, definition] of Object.entries(wrapped.$defs ?? {})) {
      const { id: _, ...rest } = pointToComponents(definition) as Json;
      this.#schemas.set(id, rest);
    }
    const { it } = wrapped.properties as { readonly it: Json };
    return pointToComponents(it) as Json;
  }

  sorted(): Json {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

function showQueryIntegers({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.type === 'integer') delete jsonSchema.pattern;
}

function pointToComponents(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pointToComponents);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) =>
      key === '$ref' && typeof inner === 'string'
        ? [key, inner.replace('#/$defs/', '#/components/schemas/')]
        : [key, pointToComponents(inner)],
    ),
  );
}
