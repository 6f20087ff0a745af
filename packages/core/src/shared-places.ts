/** Places that organisations share: so many in all, and no organisation has more than are left for all others. */
import { AppError } from './errors.ts';
import type { OrganisationId } from './ids.ts';

/** Null: those of nobody that is known, who share like one organisation. */
type Holder = OrganisationId | null;

export class SharedPlaces {
  readonly #inAll: number;
  readonly #what: string;
  readonly #byOrganisation = new Map<Holder, number>();
  #count = 0;

  /** @param what - Those that have a place, as in "Too many … are open." */
  constructor(inAll: number, what: string) {
    this.#inAll = inAll;
    this.#what = what;
  }

  /** Returns what leaves the place, idempotent. Throws `unavailable` when the organisation has too many. */
  enter(organisationId: Holder): () => void {
    if ((this.#byOrganisation.get(organisationId) ?? 0) >= this.#inAll - this.#count) {
      throw new AppError('unavailable', `Too many ${this.#what} are open; others must end first.`);
    }
    this.#change(organisationId, 1);
    let isIn = true;
    return () => {
      if (isIn) this.#change(organisationId, -1);
      isIn = false;
    };
  }

  #change(organisationId: Holder, by: 1 | -1): void {
    this.#count += by;
    const count = (this.#byOrganisation.get(organisationId) ?? 0) + by;
    if (count > 0) this.#byOrganisation.set(organisationId, count);
    else this.#byOrganisation.delete(organisationId);
  }
}
