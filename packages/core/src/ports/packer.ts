/** The packer port: what makes chunks of archives smaller, and gives them back. What it packs, every other one unpacks (zstd). */
export interface Packer {
  pack(bytes: Uint8Array): Promise<Uint8Array>;
  /** Throws when it was not packed so, or comes to more than `maxBytes`. */
  unpack(packed: Uint8Array, maxBytes: number): Promise<Uint8Array>;
}
