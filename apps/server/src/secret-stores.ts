/**
 * The file that names stores of secrets, and what of each an organisation may use. It holds no credential: those are in files of
 * their own, which the gateway's user must be able to read.
 */
import { dialThrough, type GatewayOptions } from '@space/gateway';
import { type Dial, openStore } from '@space/secrets-stores';
import { z } from 'zod';

const path = z.string().startsWith('/');
const url = z.url();
/** Paths by organisation: as they are, or ending in `*`. Who is not named may use nothing. */
const grants = z.record(z.string().regex(/^org_[0-9a-z]{16}$/), z.array(z.string().min(1)).min(1));

/** Not by the proxy that all else leaves by: it is of the same network as the gateway. */
const direct = z.boolean().default(false);

const store = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('vault'),
    url,
    tokenFile: path.exactOptional(),
    appRole: z
      .strictObject({ roleId: z.string(), secretIdFile: path, mount: z.string().exactOptional() })
      .exactOptional(),
    namespace: z.string().exactOptional(),
    direct,
    grants,
  }),
  z.strictObject({
    kind: z.literal('aws'),
    region: z.string().regex(/^[a-z0-9-]+$/),
    endpoint: url.exactOptional(),
    credentialsFile: path.exactOptional(),
    profile: z.string().exactOptional(),
    direct,
    grants,
  }),
  z.strictObject({ kind: z.literal('onepassword'), url, tokenFile: path, direct, grants }),
  z.strictObject({ kind: z.literal('http'), url, tokenFile: path.exactOptional(), direct, grants }),
  z.strictObject({ kind: z.literal('oauth2'), tokenUrl: url, direct, grants }),
  z.strictObject({ kind: z.literal('files'), folder: path, grants }),
  z.strictObject({ kind: z.literal('env'), grants }),
]);

const stores = z.record(z.string().regex(/^[a-z][a-z0-9-]{0,62}$/), store);

export type SecretStoresConfig = z.output<typeof stores>;

type StoresOptions = Pick<GatewayOptions, 'upstreamProxy' | 'upstreamAuthorities'> & {
  readonly secretStores?: SecretStoresConfig;
};

/** Throws with what is wrong in it. */
export function parseStores(text: string): SecretStoresConfig {
  const parsed = stores.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error));
  // What cannot be opened stops the start, not the first request.
  openStores({ secretStores: parsed.data });
  return parsed.data;
}

/** Reached as all else is that the gateway lets out. */
export function openStores({
  secretStores = {},
  upstreamProxy,
  upstreamAuthorities = [],
}: StoresOptions): NonNullable<GatewayOptions['secretStores']> {
  return Object.fromEntries(
    Object.entries(secretStores).map(([name, { grants: granted, ...config }]) => {
      const isDirect = upstreamProxy === undefined || ('direct' in config && config.direct);
      const dial = isDirect ? {} : { dial: dialBy(upstreamProxy) };
      const way = { authorities: upstreamAuthorities, ...dial };
      return [name, { store: openStore(config, way), grants: granted }];
    }),
  );
}

function dialBy(proxy: NonNullable<GatewayOptions['upstreamProxy']>): Dial {
  return (target, signal) => dialThrough(proxy, target, signal);
}
