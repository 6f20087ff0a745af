/**
 * Where things lie in a vault. All of it can be listed and rebuilt from names alone.
 *
 *     vault.json                    id, name, format; the id is also the file system's UUID
 *     ballast                       space to fall back on when the vault is full
 *     commits/                      empty subvolume, turned over for each commit (`commits.ts`)
 *     images/<digest>/              read-only subvolume: disk.img
 *     lives/<lifeId>/               writable subvolume: disk.img, memory
 *     points/<snapshotId>/          read-only subvolume: disk.img, memory, device.state, manifest.json;
 *                                   of kind `disk`: disk.img, manifest.json
 *     sandboxes/<sandboxId>.json    records
 *
 * A thing in the making has the prefix `.staged-` beside its final place: a read-only subvolume can be renamed within
 * its folder but not moved to another one, and it must be read-only before it gets its name. No list shows staged
 * things; opening the vault removes them. `lives/.staged-<snapshotId>` is what a life left that ended as that point
 * (`kept-life.ts`).
 *
 * A life that started from a point, or was sealed as one, also holds that point's `device.state` and `manifest.json`. In a life
 * they say nothing: a seal lays new ones there first, for the snapshot to hold.
 */
import { join } from 'node:path';
import { AppError } from '@space/core';

export const DISK = 'disk.img';
export const MEMORY = 'memory';
export const DEVICE_STATE = 'device.state';
export const MANIFEST = 'manifest.json';
export const VAULT_FILE = 'vault.json';
export const BALLAST = 'ballast';
export const VAULT_FORMAT = 1;

export const FOLDERS = ['images', 'lives', 'points', 'sandboxes'] as const;
export type Folder = (typeof FOLDERS)[number];
/** Disks and memories are owned by the users of their VMMs, which the helper sees to; the node's group reads them. */
export const VMM_FILE_MODE = 0o640;

const STAGED_PREFIX = '.staged-';
/** Ids and digests; nothing that could leave its folder or look staged. */
const SAFE_NAME = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

export class Layout {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  folder(folder: Folder): string {
    return join(this.root, folder);
  }

  place(folder: Folder, name: string): string {
    return join(this.root, folder, safeName(name));
  }

  staged(folder: Folder, name: string): string {
    return join(this.root, folder, STAGED_PREFIX + safeName(name));
  }
}

export function isStaged(entry: string): boolean {
  return entry.startsWith(STAGED_PREFIX);
}

function safeName(name: string): string {
  if (!SAFE_NAME.test(name))
    throw new AppError('bad_request', `${JSON.stringify(name)} cannot name a thing in a vault.`);
  return name;
}
