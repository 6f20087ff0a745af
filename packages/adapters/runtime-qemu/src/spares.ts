/**
 * VMM processes that wait in preconfig for a restore, so that starting one is off its path. One kind fits every size. A
 * claim never waits for a spare that is not ready: it gets none, and starts a process of its own.
 */
import { join } from 'node:path';
import type { Jail } from './jail.ts';
import { type Launched, launchVmm } from './launch.ts';
import type { QemuRuntimeOptions } from './options.ts';
import { RunFolder, spareFolderName } from './run-folder.ts';

export interface Spare {
  readonly folder: RunFolder;
  readonly vmm: Launched;
}

export class Spares {
  readonly #options: QemuRuntimeOptions;
  readonly #jail: Jail;
  readonly #wanted: number;
  readonly #ready: Spare[] = [];
  readonly #stop = new AbortController();
  #filling: Promise<void> | null = null;
  #count = 0;

  constructor(options: QemuRuntimeOptions, jail: Jail) {
    this.#options = options;
    this.#jail = jail;
    this.#wanted = options.spares ?? 1;
  }

  /** Starts what is missing, in the background. */
  refill(): void {
    if (this.#stop.signal.aborted) return;
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = null;
    });
  }

  /** Resolves when no spare is being started. */
  async settled(): Promise<void> {
    await this.#filling;
  }

  claim(): Spare | null {
    return this.#ready.shift() ?? null;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('The runtime is closing'));
    await this.#filling;
    await Promise.all(this.#ready.splice(0).map((spare) => this.discard(spare)));
  }

  /** Ends a spare, whatever has become of it. */
  async discard({ vmm, folder }: Spare): Promise<void> {
    await vmm.kill();
    await this.#jail.clear(folder);
  }

  async #fill(): Promise<void> {
    try {
      while (this.#ready.length < this.#wanted && !this.#stop.signal.aborted) this.#add(await this.#start());
    } catch (thrown) {
      if (!this.#stop.signal.aborted) this.#options.onWarning?.(`A spare VMM could not be started: ${thrown}`);
    }
  }

  async #start(): Promise<Spare> {
    const path = join(this.#options.runDir, await spareFolderName(this.#count++));
    const folder = await RunFolder.create(path);
    try {
      return { folder, vmm: await launchVmm(this.#jail, 'restore', folder, this.#stop.signal) };
    } catch (thrown) {
      await this.#jail.clear(folder);
      throw thrown;
    }
  }

  #add(spare: Spare): void {
    this.#ready.push(spare);
    void spare.vmm.exited.then(async (how) => {
      const index = this.#ready.indexOf(spare);
      if (index < 0) return;
      this.#ready.splice(index, 1);
      await this.#jail.clear(spare.folder);
      this.#options.onWarning?.(`A spare VMM ${how}. ${spare.vmm.complaints()}`);
    });
  }
}
