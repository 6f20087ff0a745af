/** Time as a port, so that retention and limits can be tested under a clock that jumps. */
export interface Clock {
  /** Wall clock, milliseconds since 1970. */
  now(): number;
  /** Never goes back; milliseconds from an arbitrary start. */
  monotonicMs(): number;
}
