/**
 * Control: the use-cases of the contract over a node and records. It holds no state of its own that matters: a new control
 * on the same records goes on where an earlier one died.
 */
import type { UseCases } from '@space/contract';
import type { ApiKeyId, LifeEnd } from '@space/core';
import { verifyApiKey } from './api-keys.ts';
import { Nursery } from './birth.ts';
import { Driver } from './driver.ts';
import { Effects } from './effects.ts';
import { FileUseCases } from './file-use-cases.ts';
import { GuestUseCases } from './guest-use-cases.ts';
import { LifecycleUseCases } from './lifecycle-use-cases.ts';
import type { ControlPorts } from './ports.ts';
import { type ReconcileReport, Reconciler } from './reconcile.ts';
import { SnapshotUseCases } from './snapshot-use-cases.ts';
import { Pins } from './timeline.ts';

const RECONCILE_EVERY_MS = 15_000;
const CLOSE_TIMEOUT_MS = 20_000;

export interface Control extends UseCases {
  /** Reconciles once, then at intervals and when VMs end. Throws when the records or the node do not answer. */
  start(): Promise<ReconcileReport>;
  /** Refuses new operations, and waits for those in flight for at most 20 s; the next start ends the rest. */
  close(): Promise<void>;
  /** Whose key it is; null when it is none of ours. */
  authenticate(apiKey: string): Promise<ApiKeyId | null>;
}

export function createControl(ports: ControlPorts): Control {
  const pins = new Pins();
  const reconciler: Reconciler = new Reconciler(ports, (operationId) => driver.owns(operationId));
  const driver = new Driver(ports, (orphan) => reconciler.recover(orphan));
  const effects = new Effects(ports);
  const nursery = new Nursery(ports, driver);
  const machinery = { ports, driver, effects, nursery, pins };
  const sandboxes = new LifecycleUseCases(machinery);
  const guests = new GuestUseCases(machinery, sandboxes);
  const files = new FileUseCases(machinery, sandboxes);
  const snapshots = new SnapshotUseCases(machinery, sandboxes);
  const watch = new Watch(ports, reconciler, driver);

  return {
    createSandbox: (caller, input) => sandboxes.createSandbox(caller, input),
    listSandboxes: (caller, input) => sandboxes.listSandboxes(caller, input),
    getSandbox: (caller, input) => sandboxes.getSandbox(caller, input),
    deleteSandbox: (caller, input) => sandboxes.deleteSandbox(caller, input),
    pauseSandbox: (caller, input) => sandboxes.pauseSandbox(caller, input),
    resumeSandbox: (caller, input) => sandboxes.resumeSandbox(caller, input),
    takeSnapshot: (caller, input) => sandboxes.takeSnapshot(caller, input),
    forkSandbox: (caller, input) => sandboxes.forkSandbox(caller, input),
    rewindSandbox: (caller, input) => sandboxes.rewindSandbox(caller, input),
    exec: (caller, input) => guests.exec(caller, input),
    startProcess: (caller, input) => guests.startProcess(caller, input),
    attachProcess: (caller, input) => guests.attachProcess(caller, input),
    writeInput: (caller, input, body) => guests.writeInput(caller, input, body),
    resizeTerminal: (caller, input) => guests.resizeTerminal(caller, input),
    listProcesses: (caller, input) => guests.listProcesses(caller, input),
    signalProcess: (caller, input) => guests.signalProcess(caller, input),
    readFile: (caller, input) => files.readFile(caller, input),
    writeFile: (caller, input, body) => files.writeFile(caller, input, body),
    statFile: (caller, input) => files.statFile(caller, input),
    listFiles: (caller, input) => files.listFiles(caller, input),
    makeDirectory: (caller, input) => files.makeDirectory(caller, input),
    moveFile: (caller, input) => files.moveFile(caller, input),
    removeFile: (caller, input) => files.removeFile(caller, input),
    setFileAttributes: (caller, input) => files.setFileAttributes(caller, input),
    makeSymlink: (caller, input) => files.makeSymlink(caller, input),
    listXattrs: (caller, input) => files.listXattrs(caller, input),
    getXattr: (caller, input) => files.getXattr(caller, input),
    setXattr: (caller, input) => files.setXattr(caller, input),
    removeXattr: (caller, input) => files.removeXattr(caller, input),
    watchFiles: (caller, input) => files.watchFiles(caller, input),
    getTimeline: (caller, input) => snapshots.getTimeline(caller, input),
    listSnapshots: (caller, input) => snapshots.listSnapshots(caller, input),
    getSnapshot: (caller, input) => snapshots.getSnapshot(caller, input),
    deleteSnapshot: (caller, input) => snapshots.deleteSnapshot(caller, input),
    listTemplates: (caller, input) => snapshots.listTemplates(caller, input),
    getCapabilities: (caller, input) => snapshots.getCapabilities(caller, input),
    readiness: () => snapshots.readiness(),
    authenticate: (apiKey) => verifyApiKey(ports.records, apiKey),
    start: () => watch.start(),
    close: () => watch.close(),
  };
}

/** What runs by itself: the reconciler's rounds. */
class Watch {
  readonly #ports: ControlPorts;
  readonly #reconciler: Reconciler;
  readonly #driver: Driver;
  readonly #busy = new Set<Promise<unknown>>();
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(ports: ControlPorts, reconciler: Reconciler, driver: Driver) {
    this.#ports = ports;
    this.#reconciler = reconciler;
    this.#driver = driver;
  }

  async start(): Promise<ReconcileReport> {
    this.#unsubscribe = this.#ports.node.onLifeEnded((end) => this.#inBackground(this.#lifeEnded(end)));
    const report = await this.#reconciler.reconcile();
    this.#timer = setInterval(() => {
      // A round that is not over yet is this round.
      if (this.#busy.size === 0) this.#inBackground(this.#reconciler.reconcile());
    }, RECONCILE_EVERY_MS);
    this.#timer.unref();
    return report;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe?.();
    await this.#driver.close(CLOSE_TIMEOUT_MS);
    await Promise.allSettled(this.#busy);
  }

  /** The end of an operation says what is real; only a life that ended at rest is news. */
  async #lifeEnded(end: LifeEnd): Promise<void> {
    await this.#driver.idle(end.sandboxId);
    await this.#reconciler.lifeEnded(end);
  }

  #inBackground(work: Promise<unknown>): void {
    const watched = work
      .catch((err: unknown) => this.#ports.logger.error({ err }, 'a round of the reconciler failed; the next will try'))
      .finally(() => this.#busy.delete(watched));
    this.#busy.add(watched);
  }
}
