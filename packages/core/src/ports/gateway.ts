/** The gateway port: what control asks of the process that lets sandboxes out. What no rule allows is refused. */
export interface GatewayPort {
  /** That it answers, and by what it decides. */
  health(): Promise<GatewayHealth>;
}

export interface GatewayHealth {
  /** None: every connection is refused. */
  readonly rules: 'none';
}
