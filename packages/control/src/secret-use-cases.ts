/**
 * The use-cases on secrets and their bindings. A value passes through here sealed, on its way to the gateway; what is recorded are
 * names. A change is in force when it answers, or nothing leaves.
 */
import type {
  Caller,
  Input,
  SealingKey,
  Secret,
  SecretBindingList,
  SecretList,
  SecretBinding as ShownBinding,
} from '@space/contract';
import {
  AppError,
  authorise,
  type GatewayPort,
  isGrantedTo,
  newPlaceholder,
  type OrganisationId,
  type ProjectId,
  type SecretGrant,
} from '@space/core';
import { findProject } from './api-keys.ts';
import type { Network } from './network.ts';
import type { ControlPorts } from './ports.ts';
import type { RecordedBinding, RecordedSecret } from './secret-records.ts';

type SecretPorts = Omit<ControlPorts, 'node'>;

export class SecretUseCases {
  readonly #ports: SecretPorts;
  readonly #gateway: GatewayPort;
  readonly #network: Network;

  constructor(ports: SecretPorts, gateway: GatewayPort, network: Network) {
    this.#ports = ports;
    this.#gateway = gateway;
    this.#network = network;
  }

  async getSealingKey({ principal: { organisationId } }: Caller): Promise<SealingKey> {
    return { ...(await this.#gateway.sealingKey()), organisation: organisationId };
  }

  async listSecrets({ principal }: Caller): Promise<SecretList> {
    return { secrets: (await this.#ports.records.secrets.list(principal.organisationId)).map(viewSecret) };
  }

  async setSecret({ principal }: Caller, { id: name, sealed, source }: Input<'setSecret'>): Promise<Secret> {
    const { records, clock } = this.#ports;
    const { organisationId } = principal;
    // The value is there before anything is placed that needs it, and goes when nothing does.
    if (sealed !== undefined) await this.#gateway.putSecret({ organisationId, name }, sealed);
    const secret = { name, source: source ?? ({ kind: 'local' } as const) };
    const recorded = await records.secrets.put(organisationId, secret, new Date(clock.now()));
    await this.#network.secretsChanged(organisationId);
    if (sealed === undefined) await this.#gateway.dropSecret({ organisationId, name });
    return viewSecret(recorded);
  }

  async deleteSecret({ principal: { organisationId } }: Caller, { id: name }: Input<'deleteSecret'>): Promise<void> {
    // From here on it is placed in nothing, whatever comes of the rest.
    await this.#gateway.dropSecret({ organisationId, name });
    if (!(await this.#ports.records.secrets.remove(organisationId, name))) throw noSecret(name);
    await this.#network.secretsChanged(organisationId);
  }

  async listSecretBindings({ principal, projectId }: Caller): Promise<SecretBindingList> {
    const { organisationId } = principal;
    const all = await this.#ports.records.secrets.bindings(organisationId);
    const seesAll = authorise(principal, 'secret.read', { kind: 'organisation', organisationId }).allowed;
    return {
      bindings: all
        .filter((one) => seesAll || isGrantedTo(one, projectId))
        .map((one) => viewBinding(one, seesAll ? null : projectId)),
    };
  }

  async setSecretBinding({ principal }: Caller, input: Input<'setSecretBinding'>): Promise<ShownBinding> {
    const { records, clock } = this.#ports;
    const { id: name, projects: asked, ...scope } = input;
    const projects =
      asked === 'all'
        ? ('all' as const)
        : await Promise.all(asked.map(async (one) => (await findProject(records.tenants, principal, one)).id));
    const binding = { ...scope, name, projects };
    const recorded = await records.secrets.putBinding(principal.organisationId, binding, new Date(clock.now()));
    if (recorded === null) throw noSecret(input.secret);
    await this.#network.secretsChanged(principal.organisationId);
    return viewBinding(recorded, null);
  }

  async deleteSecretBinding({ principal }: Caller, { id: name }: Input<'deleteSecretBinding'>): Promise<void> {
    const { organisationId } = principal;
    const removed = await this.#ports.records.secrets.removeBinding(organisationId, name);
    if (!removed) throw new AppError('not_found', `There is no secret binding "${name}".`);
    await this.#network.secretsChanged(organisationId);
  }
}

/** What a sandbox of the project is granted of the bindings that it names. Throws `secret_not_granted`. */
export async function grantsOf(
  { records, chance }: Pick<SecretPorts, 'records' | 'chance'>,
  projectId: ProjectId,
  names: readonly string[],
  before: readonly SecretGrant[] = [],
): Promise<readonly SecretGrant[]> {
  if (names.length === 0) return [];
  const granted = await grantedTo({ records }, projectId);
  return names.map((name) => {
    const binding = granted.find((one) => one.name === name);
    if (binding === undefined) {
      throw new AppError('secret_not_granted', {
        detail: `No secret binding "${name}" is granted to the project.`,
        facts: { binding: name },
      });
    }
    // Programs that run may hold the placeholder that it had.
    const placeholder = before.find((one) => one.binding === name)?.placeholder ?? newPlaceholder(chance);
    return { binding: name, placeholder, env: binding.env };
  });
}

/** Those of a source that a copy may have: what is granted today. */
export async function inheritedGrants(
  ports: Pick<SecretPorts, 'records'>,
  projectId: ProjectId,
  grants: readonly SecretGrant[],
): Promise<readonly SecretGrant[]> {
  if (grants.length === 0) return [];
  const granted = await grantedTo(ports, projectId);
  return grants.filter(({ binding }) => granted.some(({ name }) => name === binding));
}

/** Those of other bindings. */
export function without(grants: readonly SecretGrant[], named: readonly SecretGrant[]): readonly SecretGrant[] {
  return grants.filter(({ binding }) => !named.some((one) => one.binding === binding));
}

/** What commands see of what a sandbox is granted. */
export function placeholdersIn(grants: readonly SecretGrant[]): Record<string, string> {
  return Object.fromEntries(grants.flatMap(({ env, placeholder }) => (env === null ? [] : [[env, placeholder]])));
}

async function grantedTo({ records }: Pick<SecretPorts, 'records'>, projectId: ProjectId) {
  const organisationId: OrganisationId | null = await records.tenants.organisationOf(projectId);
  const all = organisationId === null ? [] : await records.secrets.bindings(organisationId);
  return all.filter((one) => isGrantedTo(one, projectId));
}

function noSecret(name: string): AppError {
  return new AppError('not_found', `There is no secret "${name}".`);
}

function viewSecret({ name, source, version, createdAt, updatedAt }: RecordedSecret): Secret {
  return { name, source, version, createdAt: createdAt.toISOString(), updatedAt: updatedAt.toISOString() };
}

/** Whose else it is, only who may see all of them is told. */
function viewBinding({ createdAt, updatedAt, ...binding }: RecordedBinding, only: ProjectId | null): ShownBinding {
  const { hosts, ports, methods, paths, projects } = binding;
  return {
    ...binding,
    hosts: [...hosts],
    ports: ports === 'all' ? ports : [...ports],
    methods: methods === 'all' ? methods : [...methods],
    paths: [...paths],
    projects: projects === 'all' ? projects : only === null ? [...projects] : [only],
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}
