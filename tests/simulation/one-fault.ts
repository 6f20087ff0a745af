/** A fate in which one thing goes wrong, at one step. */
import { type Fate, type Fault, labelOf, type StepKind } from './steps.ts';

export interface Place {
  readonly label: string;
  readonly step: StepKind;
  /** Of its label. */
  readonly nth: number;
}

/** Strikes once it is armed. */
export class OneFault implements Fate {
  armed = false;
  readonly #at: (Place & { readonly fault: Fault }) | null;
  #seen = 0;

  constructor(at: (Place & { readonly fault: Fault }) | null) {
    this.#at = at;
  }

  delayMs(): number {
    return 1;
  }

  faultAt(step: StepKind): Fault | null {
    if (!this.armed || this.#at === null || labelOf(step) !== this.#at.label) return null;
    this.#seen += 1;
    return this.#seen === this.#at.nth ? this.#at.fault : null;
  }
}
