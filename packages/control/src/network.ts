/**
 * What sandboxes may reach, as the gateway has to know it. The records hold what was asked for; the gateway holds what is in
 * force, and forgets it when it ends. So it is told before a life runs, when something changes, and all of it when it is
 * another one. While it does not answer, nothing leaves: a life begins all the same.
 */
import type { NetworkConstraints as ShownConstraints } from '@space/contract';
import {
  AppError,
  type BoundSecret,
  checkWithin,
  type GatewayPort,
  holdsVm,
  isGrantedTo,
  type NetworkConstraints,
  type NetworkPolicy,
  NO_CONSTRAINTS,
  type NodePort,
  type OrganisationId,
  type ProjectId,
  type SandboxId,
} from '@space/core';
import type { ControlPorts } from './ports.ts';
import type { RecordedSandbox } from './records.ts';
import { Seen } from './seen.ts';
import { mapInParallel, Turns } from './turns.ts';
import { viewNetwork } from './views.ts';

const PARALLEL_LOADS = 16;

type NetworkPorts = Omit<ControlPorts, 'node'>;

export class Network {
  readonly #ports: NetworkPorts;
  readonly #gateway: GatewayPort;
  readonly #turns = new Turns<SandboxId>();
  readonly #certificates = new Map<OrganisationId, string>();
  readonly #seen: Seen;
  /** The gateway that knows all rules; null: none does for certain. */
  #loaded: string | null = null;
  /** How often something could not be set. */
  #missed = 0;
  #isAway = false;

  constructor(ports: NetworkPorts, gateway: GatewayPort) {
    this.#ports = ports;
    this.#gateway = gateway;
    this.#seen = new Seen(ports, gateway);
  }

  /** The same node, but that the gateway knows the rules of a sandbox before a life of it begins. */
  before(node: NodePort): NodePort {
    const begins: Pick<NodePort, 'start' | 'rewind' | 'destroy'> = {
      start: async (order) => node.start({ ...order, ...(await this.#prepare(order.sandboxId)) }),
      rewind: async (order) => node.rewind({ ...order, ...(await this.#prepare(order.sandboxId)) }),
      destroy: async (order) => {
        await node.destroy(order);
        await this.#turns.take(order.sandboxId, () => this.#gateway.dropRules(order.sandboxId)).catch(() => undefined);
      },
    };
    return new Proxy(node, {
      get(target, name) {
        if (name === 'start' || name === 'rewind' || name === 'destroy') return begins[name];
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  /** Throws `network_too_wide`. */
  async check(projectId: ProjectId, policy: NetworkPolicy): Promise<void> {
    checkWithin(policy, (await this.#organisationOf(projectId)).constraints);
  }

  /** To be called when it was recorded: returns when it is in force, or nothing is. Throws, to be repeated, when what was before may be. */
  async changed(id: SandboxId): Promise<void> {
    await this.#inForce(() => this.#load(id), 'the rules of a sandbox could not be set');
  }

  async constraintsChanged(organisationId: OrganisationId): Promise<void> {
    await this.#reload(organisationId, () => true, 'the constraints of an organisation could not be set');
  }

  async secretsChanged(organisationId: OrganisationId): Promise<void> {
    await this.#reload(
      organisationId,
      ({ secrets }) => secrets.length > 0,
      'the secrets of an organisation could not be set',
    );
  }

  /** Looks whether it is another gateway, which has to be told all, and takes what was seen. */
  async round(): Promise<void> {
    try {
      const { instance } = await this.#gateway.health();
      if (instance !== this.#loaded) {
        const missed = this.#missed;
        await this.#loadAll();
        // What could not be set meanwhile may have been passed by.
        if (missed === this.#missed) this.#loaded = instance;
      }
      await this.#seen.take();
      this.#isAway = false;
    } catch (err) {
      if (!this.#isAway)
        this.#ports.logger.warn({ err }, 'the gateway does not do what it was asked; nothing new leaves');
      this.#isAway = true;
    }
  }

  async dropOld(): Promise<void> {
    await this.#seen.dropOld();
  }

  async getConstraints(organisationId: OrganisationId): Promise<ShownConstraints> {
    const organisation = await this.#ports.records.tenants.findOrganisation(organisationId);
    return viewConstraints(organisation?.network ?? NO_CONSTRAINTS);
  }

  async setConstraints(
    organisationId: OrganisationId,
    changes: Partial<NetworkConstraints>,
  ): Promise<ShownConstraints> {
    const set = await this.#ports.records.tenants.setNetwork(organisationId, changes);
    if (set === null) throw new AppError('not_found', `There is no organisation "${organisationId}".`);
    await this.constraintsChanged(organisationId);
    return viewConstraints(set);
  }

  async #reload(organisationId: OrganisationId, which: (sandbox: RecordedSandbox) => boolean, failure: string) {
    await this.#inForce(async () => {
      const running = (await this.#ports.records.allSandboxes()).filter((one) => holdsVm(one) && which(one));
      await mapInParallel(running, PARALLEL_LOADS, async (sandbox) => {
        const { id } = await this.#organisationOf(sandbox.projectId);
        if (id === organisationId) await this.#load(sandbox.id);
      });
    }, failure);
  }

  /** By today's grants, whatever they were when the sandbox named them. */
  async #boundSecrets(organisationId: OrganisationId, sandbox: RecordedSandbox): Promise<readonly BoundSecret[]> {
    if (sandbox.secrets.length === 0) return [];
    const { secrets } = this.#ports.records;
    const [bindings, all] = await Promise.all([secrets.bindings(organisationId), secrets.list(organisationId)]);
    return sandbox.secrets.flatMap(({ binding, placeholder }): BoundSecret[] => {
      const bound = bindings.find((one) => one.name === binding && isGrantedTo(one, sandbox.projectId));
      const secret = all.find(({ name }) => name === bound?.secret);
      if (bound === undefined || secret === undefined) return [];
      const { hosts, ports, methods, paths, place } = bound;
      const { name, source, version } = secret;
      return [{ binding, placeholder, secret: { name, source, version }, hosts, ports, methods, paths, place }];
    });
  }

  async #prepare(id: SandboxId): Promise<{ readonly trust?: string }> {
    let trust: string | undefined;
    const trustItsOwn = async (organisationId: OrganisationId) => {
      // What is known already is given also while the gateway does not answer.
      trust = this.#certificates.get(organisationId);
      trust = await this.#certificateOf(organisationId);
    };
    await this.#orLater(() => this.#load(id, trustItsOwn), 'a life begins without a way out');
    return trust === undefined ? {} : { trust };
  }

  async #certificateOf(organisationId: OrganisationId): Promise<string> {
    const known = this.#certificates.get(organisationId);
    if (known !== undefined) return known;
    const { certificatePem } = await this.#gateway.trust(organisationId);
    this.#certificates.set(organisationId, certificatePem);
    return certificatePem;
  }

  /** What fails is done with the next round: until then the gateway has what it had, or nothing. False: it failed. */
  async #orLater(work: () => Promise<void>, failure: string): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (err) {
      this.#loaded = null;
      this.#missed += 1;
      this.#ports.logger.warn({ err }, failure);
      return false;
    }
  }

  /** A gateway that is gone lets nothing out. One that answers has what it had: then this is tried once more, and throws. */
  async #inForce(work: () => Promise<void>, failure: string): Promise<void> {
    if (await this.#orLater(work, failure)) return;
    const answers = await this.#gateway.health().then(
      () => true,
      () => false,
    );
    if (answers) await work();
  }

  /** As it is recorded when its turn has come, so that of two changes the later one is in force. `beside` is done meanwhile. */
  #load(id: SandboxId, beside: (organisationId: OrganisationId) => Promise<void> = async () => undefined) {
    return this.#turns.take(id, async () => {
      const sandbox = await this.#ports.records.findSandbox(id);
      if (sandbox === null || sandbox.settled === 'deleted') return this.#gateway.dropRules(id);
      const organisation = await this.#organisationOf(sandbox.projectId);
      const setting = this.#gateway.setRules({
        sandboxId: id,
        organisationId: organisation.id,
        policy: sandbox.network,
        constraints: organisation.constraints,
        secrets: await this.#boundSecrets(organisation.id, sandbox),
      });
      await Promise.all([beside(organisation.id), setting]);
    });
  }

  async #loadAll(): Promise<void> {
    const running: readonly RecordedSandbox[] = (await this.#ports.records.allSandboxes()).filter(holdsVm);
    await mapInParallel(running, PARALLEL_LOADS, ({ id }) => this.#load(id));
  }

  async #organisationOf(projectId: ProjectId) {
    const organisation = await this.#ports.records.tenants.findOrganisationOf(projectId);
    if (organisation === null) throw new AppError('not_found', 'There is no such organisation.');
    return { id: organisation.id, constraints: organisation.network };
  }
}

function viewConstraints(constraints: NetworkConstraints): ShownConstraints {
  const { readOnly, privateHosts } = constraints;
  return { ...viewNetwork(constraints), readOnly: [...readOnly], privateHosts: [...privateHosts] };
}
