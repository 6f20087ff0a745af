/**
 * The file that names stores of secrets, and what of each an organisation may use. It holds no credential: those are in files of
 * their own, which the gateway's user must be able to read.
 */
import type { GatewayOptions } from '@space/gateway';
import { openStore } from '@space/secrets-stores';
import { z } from 'zod';

const path = z.string().startsWith('/');
const url = z.url();
/** Paths by organisation: as they are, or ending in `*`. Who is not named may use nothing. */
const grants = z.record(z.string().regex(/^org_[0-9a-z]{16}$/), z.array(z.string().min(1)).min(1));

const store = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('vault'),
    url,
    tokenFile: path.exactOptional(),
    appRole: z
      .strictObject({ roleId: z.string(), secretIdFile: path, mount: z.string().exactOptional() })
      .exactOptional(),
    namespace: z.string().exactOptional(),
    grants,
  }),
  z.strictObject({
    kind: z.literal('aws'),
    region: z.string().regex(/^[a-z0-9-]+$/),
    endpoint: url.exactOptional(),
    credentialsFile: path.exactOptional(),
    profile: z.string().exactOptional(),
    grants,
  }),
  z.strictObject({ kind: z.literal('onepassword'), url, tokenFile: path, grants }),
  z.strictObject({ kind: z.literal('http'), url, tokenFile: path.exactOptional(), grants }),
  z.strictObject({ kind: z.literal('oauth2'), tokenUrl: url, grants }),
  z.strictObject({ kind: z.literal('files'), folder: path, grants }),
  z.strictObject({ kind: z.literal('env'), grants }),
]);

const stores = z.record(z.string().regex(/^[a-z][a-z0-9-]{0,62}$/), store);

export type SecretStoresConfig = z.output<typeof stores>;

/** Throws with what is wrong in it. */
export function parseStores(text: string): SecretStoresConfig {
  const parsed = stores.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error));
  // What cannot be opened stops the start, not the first request.
  openStores(parsed.data);
  return parsed.data;
}

export function openStores(config: SecretStoresConfig): NonNullable<GatewayOptions['secretStores']> {
  return Object.fromEntries(
    Object.entries(config).map(([name, { grants: granted, ...one }]) => [
      name,
      { store: openStore(one), grants: granted },
    ]),
  );
}
