/** Stores of secrets outside of the platform, as the operator configures them. All run in the gateway; none logs. */
import { type SecretStore, unreachable } from '@space/core';
import { type AwsOptions, awsStore } from './aws.ts';
import { type HttpOptions, httpStore } from './http.ts';
import { envStore, filesStore } from './machine.ts';
import { type OAuth2Options, oauth2Store } from './oauth2.ts';
import { type OnePasswordOptions, onePasswordStore } from './onepassword.ts';
import { type VaultOptions, vaultStore } from './vault.ts';
import { type WayOptions, wayTo } from './way.ts';

export type { Dial } from './way.ts';

export type StoreConfig =
  | ({ readonly kind: 'vault' } & VaultOptions)
  | ({ readonly kind: 'aws' } & AwsOptions)
  | ({ readonly kind: 'onepassword' } & OnePasswordOptions)
  | ({ readonly kind: 'http' } & HttpOptions)
  | ({ readonly kind: 'oauth2' } & OAuth2Options)
  | { readonly kind: 'files'; readonly folder: string }
  | { readonly kind: 'env' };

/** Throws when it would be asked in clear text over a network. */
export function openStore(config: StoreConfig, options: WayOptions = {}): SecretStore {
  const way = wayTo(options);
  switch (config.kind) {
    case 'vault':
      return vaultStore(config, way);
    case 'aws':
      return awsStore(config, way);
    case 'onepassword':
      return onePasswordStore(config, way);
    case 'http':
      return httpStore(config, way);
    case 'oauth2':
      return oauth2Store(config, way);
    case 'files':
      return filesStore(config);
    case 'env':
      return envStore();
    default:
      return unreachable(config);
  }
}
