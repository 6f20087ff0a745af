/**
 * A TCP connection to a port inside a sandbox, from the host: bytes both ways, each direction with its own end. It belongs
 * to a life, and ends with it. Adapters: gRPC over the link, and testkit's fake.
 */

/** Of one sandbox at a time. */
export const MAX_PORT_CONNECTIONS = 100;

export interface PortConnection {
  /**
   * What comes out of the guest, until that ends its side. To be read once; nothing is read ahead of who reads. Throws
   * `link_lost` for a reset, and what ended the life.
   */
  readonly output: AsyncIterable<Uint8Array>;
  /** Returns when there is room for more. Throws as `output` does. */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends our side; the guest may still send. Idempotent. */
  end(): void;
  /** Ends both at once, unless both have ended: the guest sees a reset. Idempotent. */
  reset(): void;
  /** Settles when it is over, however. Never rejects. */
  readonly closed: Promise<void>;
}
