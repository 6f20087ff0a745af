/**
 * A guest over gRPC: the control port for the machine and its commands, the traffic port for files and tunnels. That is
 * opened by the first call that needs it, so that a restore pays one handshake. Both share one fate: when either is gone
 * the guest is closed, and whoever wants to go on connects again.
 */
import type { Duplex } from 'node:stream';
import { AppError, type Clock, type Guest, type GuestPort } from '@space/core';
import { Channel, type ChannelOptions } from './channel.ts';
import { Fate, type VmEnded } from './fate.ts';
import { fileCalls } from './file-calls.ts';
import { DEFAULT_LIMITS, type Limits } from './limits.ts';
import * as machine from './machine.ts';
import { outgoing } from './outgoing.ts';
import * as processes from './processes.ts';
import { openPort } from './tunnel.ts';

export interface ConnectOptions {
  readonly limits?: Partial<Limits>;
  /** The VM's own end, so that its death is not taken for a broken link: `Vm.ended`. */
  readonly vmEnded?: Promise<VmEnded>;
  readonly clock?: Clock;
}

/** `Vm.connect`: a fresh connection to a port of the agent. */
export type ConnectPort = (port: GuestPort) => Promise<Duplex>;

const WINDOWS = {
  // Bounds what a command may have printed beyond what its reader took.
  control: { streamWindowBytes: 256 * 1024, sessionWindowBytes: 4 * 1024 * 1024 },
  // What each reader that stands still can make us hold.
  traffic: { streamWindowBytes: 256 * 1024, sessionWindowBytes: 8 * 1024 * 1024 },
} as const;

const SYSTEM_CLOCK: Clock = { now: () => Date.now(), monotonicMs: () => performance.now() };

/**
 * Returns as soon as the control port is connected. The handshake goes out together with the first call; its limit
 * (`limits.openMs`) comes before the call's own, so a VM that still boots only needs a longer one.
 */
export async function connectGuest(connect: ConnectPort, options: ConnectOptions = {}): Promise<Guest> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const clock = options.clock ?? SYSTEM_CLOCK;
  const ports = new Ports(connect, limits, options.vmEnded);
  const channel = await ports.open('control');
  const control = { channel, limits, clock };
  const traffic = async () => ({ channel: await ports.open('traffic'), limits });

  return {
    hello: () => machine.hello(control),
    freeze: (timeoutMs) => machine.freeze(control, timeoutMs),
    assumeIdentity: (identity) => machine.assumeIdentity(control, identity),
    thaw: () => machine.thaw(control),
    exec: (command, signal) => processes.exec(control, command, signal),
    attach: (at, signal) => processes.attach(control, at, signal),
    writeInput: (input) => processes.writeInput(control, input),
    resizeTerminal: (processId, size) => processes.resizeTerminal(control, processId, size),
    signalProcess: (processId, signal, target) => processes.signalProcess(control, processId, signal, target),
    processes: (options) => processes.processes(control, options),
    ...fileCalls(traffic),
    outgoing: (signal) => outgoing(channel, traffic, signal),
    openPort: async (port, signal) => openPort(await traffic(), port, signal),
    closed: ports.fate.settled.then((reason) => reason.message),
    close: async () => ports.close(),
  };
}

/** The channels of one guest, each opened once. */
class Ports {
  readonly fate: Fate;
  readonly #connect: ConnectPort;
  readonly #limits: Limits;
  readonly #channels = new Map<GuestPort, Promise<Channel>>();
  readonly #open = new Set<Channel>();

  constructor(connect: ConnectPort, limits: Limits, vmEnded: Promise<VmEnded> | undefined) {
    this.#connect = connect;
    this.#limits = limits;
    this.fate = new Fate(vmEnded, () => this.#tearDown());
  }

  open(port: GuestPort): Promise<Channel> {
    const known = this.#channels.get(port);
    if (known) return known;
    const channel = this.#openChannel(port);
    this.#channels.set(port, channel);
    return channel;
  }

  async close(): Promise<void> {
    this.fate.lose(new AppError('link_lost', 'The connection to the guest was closed.'));
    await Promise.allSettled(this.#channels.values());
  }

  async #openChannel(port: GuestPort): Promise<Channel> {
    if (this.fate.gone) throw await this.fate.settled;
    const raw = await this.#connectRaw(port);
    if (this.fate.gone) {
      raw.destroy();
      throw await this.fate.settled;
    }
    const options: ChannelOptions = { openLimitMs: this.#limits.openMs, ...WINDOWS[port] };
    const channel = new Channel(raw, this.fate, options);
    this.#open.add(channel);
    return channel;
  }

  async #connectRaw(port: GuestPort): Promise<Duplex> {
    try {
      return await this.#connect(port);
    } catch (thrown) {
      const reason = new AppError('link_lost', `The ${port} port of the guest could not be reached.`, {
        cause: thrown,
      });
      this.fate.lose(thrown instanceof AppError ? thrown : reason);
      throw await this.fate.settled;
    }
  }

  #tearDown(): void {
    for (const channel of this.#open) channel.destroy();
    this.#open.clear();
  }
}
