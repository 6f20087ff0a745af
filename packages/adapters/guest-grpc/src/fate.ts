/**
 * Why a guest's channel is gone: one reason, the first, shared by every call that it broke and by `Guest.closed`. When the
 * VM has ended its sockets close a moment before its death is proved, so a lost link waits shortly for that better reason.
 */
import { AppError } from '@space/core';

/** How long a lost link waits to hear that the VM itself has ended. */
const VM_END_WAIT_MS = 500;

export interface VmEnded {
  readonly detail: string;
}

export class Fate {
  /** Settles with the reason; never rejects. */
  readonly settled: Promise<AppError>;
  readonly #settle: (reason: AppError) => void;
  readonly #vmEnded: Promise<VmEnded> | undefined;
  readonly #onGone: () => void;
  #gone = false;

  /** `onGone` is called once, as soon as the channel is known to be gone, to tear down what is left of it. */
  constructor(vmEnded: Promise<VmEnded> | undefined, onGone: () => void) {
    const { promise, resolve } = Promise.withResolvers<AppError>();
    this.settled = promise;
    this.#settle = resolve;
    this.#vmEnded = vmEnded;
    this.#onGone = onGone;
    vmEnded?.then(
      (end) => this.lose(vmLost(end)),
      () => {},
    );
  }

  get gone(): boolean {
    return this.#gone;
  }

  lose(reason: AppError): void {
    if (this.#gone) return;
    this.#gone = true;
    if (this.#vmEnded === undefined || reason.code !== 'link_lost') this.#settle(reason);
    else this.#awaitVmEnd(this.#vmEnded, reason);
    this.#onGone();
  }

  #awaitVmEnd(vmEnded: Promise<VmEnded>, otherwise: AppError): void {
    const timer = setTimeout(() => this.#settle(otherwise), VM_END_WAIT_MS);
    vmEnded.then(
      (end) => {
        clearTimeout(timer);
        this.#settle(vmLost(end));
      },
      () => {},
    );
  }
}

function vmLost(end: VmEnded): AppError {
  return new AppError('vm_lost', end.detail);
}
