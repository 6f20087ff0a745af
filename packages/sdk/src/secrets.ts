/** Secrets of an organisation, and what they are bound to, for who may manage them. No call gives a value back. */
import type { Request, SealingKey, Secret, SecretBinding, SecretBindingList, SecretList } from '@space/contract';
import { refuseUnknown } from './options.ts';
import { seal } from './sealing.ts';
import { type CallOptions, type ConnectionOptions, signalOf, Transport, withoutConnection } from './transport.ts';

export type { Secret, SecretBinding };
export type SecretSource = NonNullable<Request<'setSecret'>['source']>;

type Options = ConnectionOptions & CallOptions;

/** Which requests a secret is placed in, where, and for whose sandboxes. What is left out is the stricter thing. */
export type BindingOptions = Omit<Request<'setSecretBinding'>, 'id'> & Options;

/** By name. */
export async function listSecrets(options: Options = {}): Promise<Secret[]> {
  const { secrets } = await callOf<SecretList>(options, { method: 'GET', path: '/v1/secrets' });
  return secrets;
}

/**
 * Sets the value of a secret, or where it comes from each time. A value is sealed here, for the gateway, and nobody else reads it.
 * The next request that it is placed in has the new one.
 */
export async function setSecret(name: string, value: string | SecretSource, options: Options = {}): Promise<Secret> {
  const json = typeof value === 'string' ? { sealed: await sealed(name, value, options) } : { source: value };
  return callOf(options, { method: 'PUT', path: secretPath(name), json });
}

/** With its bindings; what goes on with it is cut. Errors: `not_found`. */
export async function deleteSecret(name: string, options: Options = {}): Promise<void> {
  await new Transport(options).done({ method: 'DELETE', path: secretPath(name), signal: signalOf(options) });
}

/** Those that the project may use; with a role for secrets, all of the organisation. */
export async function listSecretBindings(options: Options = {}): Promise<SecretBinding[]> {
  const { bindings } = await callOf<SecretBindingList>(options, { method: 'GET', path: '/v1/secret-bindings' });
  return bindings;
}

/** Replaces the whole binding of that name. Errors: `not_found` (the secret, or a project). */
export async function setSecretBinding(name: string, options: BindingOptions): Promise<SecretBinding> {
  const { secret, hosts, ports, methods, paths, place, projects, env, signal, ...unknown } = withoutConnection(options);
  refuseUnknown(unknown);
  const json = { secret, hosts, ports, methods, paths, place, projects, env };
  return new Transport(options).json({ method: 'PUT', path: bindingPath(name), json, signal });
}

/** What goes on with it is cut. Errors: `not_found`. */
export async function deleteSecretBinding(name: string, options: Options = {}): Promise<void> {
  await new Transport(options).done({ method: 'DELETE', path: bindingPath(name), signal: signalOf(options) });
}

async function sealed(name: string, value: string, options: Options): Promise<string> {
  const key = await callOf<SealingKey>(options, { method: 'GET', path: '/v1/sealing-key' });
  return seal({ ...key, name }, value);
}

function callOf<T>(options: Options, call: Parameters<Transport['json']>[0]): Promise<T> {
  return new Transport(options).json({ ...call, signal: signalOf(options) });
}

function secretPath(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`;
}

function bindingPath(name: string): string {
  return `/v1/secret-bindings/${encodeURIComponent(name)}`;
}
