/**
 * The file that lets the next terminal just work: URL and key for the clients of whoever started the platform. It belongs to
 * them, also when the platform was started by sudo, and only they can read it.
 */
import { chown, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** What became of it: written, or left since it names another server. */
export type ConfigOutcome = 'written' | 'names another server';

export async function writeClientConfig(
  path: string,
  config: { readonly url: string; readonly apiKey: string },
): Promise<ConfigOutcome> {
  const earlier = await readFile(path, 'utf8').catch(() => null);
  if (earlier !== null && urlIn(earlier) !== config.url) return 'names another server';
  const owner = await ownerOf(dirname(path));
  await makeFolder(dirname(path), owner);
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  // Never through a link that somebody else has put there.
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(`${JSON.stringify(config, null, 2)}\n`);
    await file.chown(owner.uid, owner.gid);
  } finally {
    await file.close();
  }
  await rename(draft, path);
  return 'written';
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Of the nearest folder that is there. */
async function ownerOf(folder: string): Promise<Owner> {
  const found = await stat(folder).catch(() => null);
  return found ?? ownerOf(dirname(folder));
}

async function makeFolder(folder: string, { uid, gid }: Owner): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) await chown(made, uid, gid);
}

function urlIn(text: string): unknown {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null && 'url' in parsed ? parsed.url : undefined;
  } catch {
    return undefined;
  }
}
