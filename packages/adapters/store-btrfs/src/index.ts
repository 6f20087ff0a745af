/**
 * The vault port on Btrfs. Memory and disk of a microVM are files in one subvolume, so a snapshot of both at one instant
 * is one metadata operation, and so is a life that starts from it.
 *
 * The file system is made, mounted and unmounted by the helper, which has root; all that is in it is the node's own.
 *
 * Invariants: two processes never have one vault open; what has a name in the vault is whole and durable; opening removes
 * what a dead process had in the making; closing proves that nothing can still reach the vault.
 */
export { BtrfsContainers, type ContainersOptions } from './containers.ts';
export { openVault, type VaultOptions } from './open-vault.ts';
