/** What a sandbox may reach. What is left out of a rule is the stricter thing. */
import {
  ACCESSES,
  ASKS_FOR,
  CALL_NAME,
  DEFAULT_RULE_PORTS,
  EGRESS_OUTCOMES,
  EGRESS_PROTOCOLS,
  MAX_ALLOW_RULES,
  MAX_ASK_RULES,
  MAX_DENY_RULES,
  MAX_RULE_NAMES,
  MAX_RULE_PORTS,
  NETWORK_PRESETS,
  normaliseDenial,
  normaliseHostPattern,
  SPOKEN,
} from '@space/core';
import { z } from 'zod';
import { approvalId, nextCursor, timestamp } from './fields.ts';

const MAX_HOST_LENGTH = 255;
const MAX_PATH_PREFIX_LENGTH = 500;
const MAX_NAME_PATTERN_LENGTH = 129;

const preset = z.enum(NETWORK_PRESETS).meta({
  description:
    '`none`: nothing. `packages`: reading from the public package registries. `internet`: every public address.',
});

const host = z
  .string()
  .min(1)
  .max(MAX_HOST_LENGTH)
  .transform((text, context) => {
    const pattern = normaliseHostPattern(text);
    if (pattern !== null) return pattern;
    context.addIssue({ code: 'custom', message: 'must be a host, an address, `*.` and a name, or `*`' });
    return z.NEVER;
  })
  .meta({
    description: 'A name; `*.` and a name: all that lies below it, and not itself; an address; or `*`: any. No port.',
  });

const deniedHost = z
  .string()
  .min(1)
  .max(MAX_HOST_LENGTH)
  .transform((text, context) => {
    const pattern = normaliseDenial(text);
    if (pattern !== null) return pattern;
    const message = 'must be a host, an address, a network, `*.` and a name, or `*`';
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  })
  .meta({
    description:
      'As the host of a rule; or a network, `10.0.0.0/8`. What has a denied address, or one of a denied network, is denied by ' +
      'whatever name; where all leaves by a proxy, names are not known to have one.',
  });

const port = z.number().int().min(1).max(65_535);
export const rulePorts = z.union([z.array(port).min(1).max(MAX_RULE_PORTS), z.literal('all')]);
const access = z
  .enum(ACCESSES)
  .meta({ description: '`read`: GET, HEAD and OPTIONS, and what `speaks` adds. Left out: `read`.' });
export const pathPrefix = z
  .string()
  .max(MAX_PATH_PREFIX_LENGTH)
  .regex(/^\/[A-Za-z0-9._~!$&'()*+,=:@/-]*$/, 'must be a path without what a server could read in another way')
  .refine(
    (prefix) => !prefix.includes('//') && !prefix.split('/').some((segment) => /^\.{1,2}$/.test(segment)),
    'must have no empty segments, and none of dots',
  )
  .meta({ description: 'Requests for it and what lies below it, by whole segments. Left out: all.' });

const names = z
  .array(
    z
      .string()
      .max(MAX_NAME_PATTERN_LENGTH)
      .refine(
        (name) => name === '*' || CALL_NAME.test(name.replace(/\*$/, '')),
        'must be a name, or the begin of one and `*`',
      ),
  )
  .max(MAX_RULE_NAMES);
const speaks = z.enum(SPOKEN).meta({
  description:
    'What the host speaks there. Then fetches of `git`, queries of `graphql`, what `mcp` has that calls no tool, and the `reads` of ' +
    '`json-rpc` are reads too, though their method is POST. What cannot be told is a write.',
});
const tools = names.meta({
  description:
    'Of `mcp`: the tools that may be called, by name, or with `*` at the end. Left out: all where `access` is `write`, else none.',
});
const reads = names.meta({ description: 'Of `json-rpc`: the methods that read, in the same form. Left out: none.' });

const requestRule = z
  .strictObject({
    host,
    protocol: z.literal('http').default('http'),
    ports: rulePorts.default([...DEFAULT_RULE_PORTS]).meta({ description: 'Left out: 443.' }),
    access: access.default('read'),
    path: pathPrefix.default('/'),
    speaks: speaks.exactOptional(),
    tools: tools.exactOptional(),
    reads: reads.exactOptional(),
  })
  .refine((rule) => rule.tools === undefined || rule.speaks === 'mcp', 'has `tools`, which only `mcp` has')
  .refine((rule) => rule.reads === undefined || rule.speaks === 'json-rpc', 'has `reads`, which only `json-rpc` has')
  .meta({ description: 'Requests over HTTP and HTTPS, WebSocket (a write) and gRPC; each is judged.' });

const opaqueRule = z
  .strictObject({
    host,
    protocol: z.enum(['tls', 'tcp']),
    ports: rulePorts,
  })
  .transform((rule) => ({ ...rule, access: 'write' as const, path: '/' }))
  .meta({
    description:
      '`tls`: TLS to the host, by its SNI, that the gateway does not open. `tcp`: any bytes. Both count as writes, since ' +
      'nothing of them can be read.',
  });

const allow = z.array(z.union([requestRule, opaqueRule])).max(MAX_ALLOW_RULES);
const asksFor = z
  .enum(ASKS_FOR)
  .meta({ description: '`any`: all requests. `write`: those that write. Left out: `any`.' });
const askRule = z
  .strictObject({
    host,
    ports: rulePorts.default([...DEFAULT_RULE_PORTS]).meta({ description: 'Left out: 443.' }),
    access: asksFor.default('any'),
    path: pathPrefix.default('/'),
    speaks: speaks.exactOptional(),
    tools: names
      .min(1)
      .exactOptional()
      .meta({ description: 'Of `mcp`: only what calls, or may call, one of these is held.' }),
    reads: reads.exactOptional(),
  })
  .refine((rule) => rule.tools === undefined || rule.speaks === 'mcp', 'has `tools`, which only `mcp` has')
  .refine((rule) => rule.reads === undefined || rule.speaks === 'json-rpc', 'has `reads`, which only `json-rpc` has')
  .meta({
    description:
      'Requests that are held until a reviewer has approved them, each by itself. What nothing can be read of (TLS that is not ' +
      'opened, other TCP, upgrades) is denied at these hosts and ports.',
  });
const ask = z.array(askRule).max(MAX_ASK_RULES);
const hosts = z.array(host).max(MAX_DENY_RULES);
const deniedTools = z.strictObject({ host, path: pathPrefix.default('/'), tools: names.min(1) }).meta({
  description:
    'Tools of MCP servers that are not called. What has a body there and cannot be read as another call is denied as well.',
});
const deny = z.array(z.union([deniedHost, deniedTools])).max(MAX_DENY_RULES);

export const networkPolicy = z
  .strictObject({
    preset: preset.default('none'),
    allow: allow.default([]),
    ask: ask.default([]),
    deny: deny.default([]),
  })
  .meta({
    id: 'NetworkPolicy',
    description:
      'What it may reach: what the preset and the rules allow, what the rules under `ask` hold until a reviewer has approved it, ' +
      'and nothing of what is under `deny`. It is replaced as a whole, at ' +
      'any time, and open connections that it does not allow are cut before the answer.',
  });

const shownRule = z.strictObject({
  host: z.string(),
  protocol: z.enum(EGRESS_PROTOCOLS),
  ports: rulePorts,
  access: z.enum(ACCESSES),
  path: z.string(),
  speaks: z.enum(SPOKEN).exactOptional(),
  tools: z.array(z.string()).exactOptional(),
  reads: z.array(z.string()).exactOptional(),
});
const shownAsk = z.strictObject({
  host: z.string(),
  ports: rulePorts,
  access: z.enum(ASKS_FOR),
  path: z.string(),
  speaks: z.enum(SPOKEN).exactOptional(),
  tools: z.array(z.string()).exactOptional(),
  reads: z.array(z.string()).exactOptional(),
});
const shownDenial = z.union([
  z.string(),
  z.strictObject({ host: z.string(), path: z.string(), tools: z.array(z.string()) }),
]);
const shown = {
  preset: z.enum(NETWORK_PRESETS),
  allow: z.array(shownRule),
  ask: z.array(shownAsk),
  deny: z.array(shownDenial),
};

export const shownNetworkPolicy = z.strictObject(shown).meta({ id: 'ShownNetworkPolicy' });

export const networkConstraints = z
  .strictObject({
    ...shown,
    readOnly: z.array(z.string()).meta({ description: 'Hosts at which nothing is written, whatever a policy says.' }),
    privateHosts: z
      .array(z.string())
      .meta({ description: 'Hosts that may have a private address. Who runs the installation says which.' }),
  })
  .meta({ id: 'NetworkConstraints', description: 'The widest that any sandbox of the organisation may have.' });

/** Nothing may be left out: what is not said here is not limited. */
export const setNetworkBody = z
  .strictObject({ preset, allow, ask, deny, readOnly: hosts })
  .meta({ id: 'SetNetworkConstraints' });

export const privateHostsBody = z
  .strictObject({
    privateHosts: z.array(host.refine((pattern) => pattern !== '*', 'must not be any host')).max(MAX_DENY_RULES),
  })
  .meta({ id: 'SetPrivateHosts' });

export const egressRecord = z
  .strictObject({
    at: timestamp,
    lifeId: z.string().meta({ description: 'The run of the sandbox that it was of.' }),
    protocol: z.enum(EGRESS_PROTOCOLS),
    host: z.string(),
    port,
    method: z.string().nullable(),
    path: z.string().nullable().meta({ description: 'Without its query.' }),
    secret: z.string().nullable().meta({ description: 'The secret that was placed in it, by name. Null: none was.' }),
    approval: approvalId
      .nullable()
      .meta({ description: 'By which a reviewer let it through, or which it waits for. Null: nobody was asked.' }),
    calls: z.string().nullable().meta({ description: 'What it asked for, where a rule says what its host speaks.' }),
    rule: z.string().nullable().meta({ description: 'What decided.' }),
    outcome: z.enum(EGRESS_OUTCOMES),
    status: z.number().int().nullable().meta({ description: 'Of the answer of the host.' }),
    sentBytes: z.number().int().min(0),
    receivedBytes: z.number().int().min(0),
    durationMs: z.number().int().min(0),
    lostBefore: z.number().int().min(0).meta({ description: 'How many records are missing right before this one.' }),
  })
  .meta({ id: 'EgressRecord' });

export const egressList = z.strictObject({ records: z.array(egressRecord), nextCursor }).meta({ id: 'EgressList' });
