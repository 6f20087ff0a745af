/** Our Rust programs, static where nothing is said: built by cargo as the user who owns the checkout. */
import { copyFile, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { digestFile, digestTree } from './digest.ts';
import { run } from './run.ts';

const TARGET = 'x86_64-unknown-linux-gnu';

/** What a program is built from; the crate's tests and build results are not. */
const crateParts = ['.cargo', 'Cargo.lock', 'Cargo.toml', 'build.rs', 'src'];

export async function digestCrate(crateDir: string): Promise<string> {
  return digestTree(crateDir, { keep: (path) => crateParts.includes(path.split('/')[0] ?? '') });
}

/** Puts the program at `target`. */
export async function buildCrate(
  crateDir: string,
  target: string,
  signal: AbortSignal,
  isStatic = true,
): Promise<{ version: string; digest: string }> {
  const manifest = await readFile(join(crateDir, 'Cargo.toml'), 'utf8');
  const name = /^name\s*=\s*"([^"]+)"/m.exec(manifest)?.[1];
  const version = /^version\s*=\s*"([^"]+)"/m.exec(manifest)?.[1];
  if (name === undefined || version === undefined) throw new Error(`${crateDir}/Cargo.toml lacks a name or a version`);

  const owner = await asOwner(crateDir);
  const build = [cargo(), 'build', '--release', '--locked', '--quiet', '--target', TARGET];
  await run([...owner.prefix, ...build], {
    cwd: crateDir,
    env: {
      ...owner.env,
      CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS: `-C target-feature=${isStatic ? '+' : '-'}crt-static`,
    },
    signal,
  });
  await copyFile(join(crateDir, 'target', TARGET, 'release', name), target);
  return { version, digest: await digestFile(target) };
}

/** Nothing in a user's checkout should end as root's, and cargo keeps things in the home folder. */
async function asOwner(path: string): Promise<{ prefix: string[]; env: Record<string, string> }> {
  const { uid } = await stat(path);
  const entry = (await run(['getent', 'passwd', String(uid)])).trim().split(':');
  const env = { HOME: entry[5] ?? '/', PATH: `${dirname(cargo())}:${process.env['PATH'] ?? ''}` };
  if (uid === process.getuid?.()) return { prefix: [], env };
  return { prefix: ['setpriv', '--reuid', String(uid), '--regid', entry[3] ?? '', '--init-groups', '--'], env };
}

/** Set-up says which cargo is new enough. */
const cargo = (): string => process.env['SPACE_CARGO'] || '/usr/bin/cargo';
