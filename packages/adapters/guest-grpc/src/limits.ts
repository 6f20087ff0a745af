/** Every wait on the agent, in milliseconds. Silence beyond one is `agent_lost`. */
export interface Limits {
  /** The handshake of a session; a VM that boots needs longer. */
  readonly openMs: number;
  readonly helloMs: number;
  /** Identity, thaw, signals, lists, stat: calls with one short reply. */
  readonly replyMs: number;
  /** Beyond the time that the caller gave to the agent for a freeze. */
  readonly freezeMarginMs: number;
  /** From the dialling of a port to its answer; the agent gives up sooner. */
  readonly dialMs: number;
  /** From a command's start to its first event. */
  readonly startMs: number;
  /** Between two parts of a file that is read or written. */
  readonly stallMs: number;
  /** From the last byte of a written file to the reply: the guest syncs its disk. */
  readonly commitMs: number;
}

export const DEFAULT_LIMITS: Limits = {
  openMs: 5_000,
  helloMs: 5_000,
  replyMs: 30_000,
  freezeMarginMs: 5_000,
  dialMs: 10_000,
  startMs: 30_000,
  stallMs: 60_000,
  commitMs: 120_000,
};
