/**
 * VMM processes that wait in preconfig for a restore, so that starting one is off its path. One kind, of the present build, fits every size. A
 * claim never waits for a spare that is not ready: it gets none, and starts a process of its own.
 */
import { type Launched, launchVmm } from './launch.ts';
import { nameOfBuild, type QemuRuntimeOptions } from './options.ts';
import { spareFolderName } from './run-folder.ts';

export class Spares {
  readonly #options: QemuRuntimeOptions;
  readonly #wanted: number;
  readonly #ready: Launched[] = [];
  readonly #stop = new AbortController();
  #filling: Promise<void> | null = null;
  #count = 0;

  constructor(options: QemuRuntimeOptions) {
    this.#options = options;
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

  claim(): Launched | null {
    return this.#ready.shift() ?? null;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('The runtime is closing'));
    await this.#filling;
    await Promise.all(this.#ready.splice(0).map((spare) => spare.discard()));
  }

  async #fill(): Promise<void> {
    try {
      while (this.#ready.length < this.#wanted && !this.#stop.signal.aborted) this.#add(await this.#start());
    } catch (thrown) {
      if (!this.#stop.signal.aborted) this.#options.onWarning?.(`A spare VMM could not be started: ${thrown}`);
    }
  }

  async #start(): Promise<Launched> {
    const { accelerator, vmm } = this.#options;
    const name = await spareFolderName(this.#count++);
    return await launchVmm(
      this.#options,
      name,
      { build: nameOfBuild(vmm), mode: 'restore', accelerator },
      this.#stop.signal,
    );
  }

  #add(spare: Launched): void {
    this.#ready.push(spare);
    void spare.exited.then(async (how) => {
      const index = this.#ready.indexOf(spare);
      if (index < 0) return;
      this.#ready.splice(index, 1);
      this.#options.onWarning?.(`A spare VMM ${how}. ${spare.complaints()}`);
      await spare.discard().catch((thrown) => this.#options.onWarning?.(`It could not be cleared away: ${thrown}`));
    });
  }
}
