/** Debian packages unpacked or installed into a folder by mmdebstrap, which verifies them by the archive's keys. */
import { confined, run } from './run.ts';

export interface PackageSet {
  readonly suite: string;
  readonly packages: readonly string[];
}

/** Unpacks packages and all they depend on; runs none of their scripts. */
export async function unpackPackages(set: PackageSet, dir: string, signal?: AbortSignal): Promise<void> {
  await mmdebstrap(['--variant=extract'], set, { dir, signal });
}

export interface SystemOptions {
  /** Patterns that dpkg leaves out, and exceptions from them. */
  readonly exclude: readonly string[];
  readonly include: readonly string[];
}

/** Installs a small Debian system with apt, so that more can be installed in it later. dpkg's options stay in it. */
export async function installSystem(
  set: PackageSet,
  options: SystemOptions,
  target: { readonly dir: string; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const settings = [
    // No flush per file: the image is flushed as a whole when it is done, and in the guest snapshots are what is kept.
    '--dpkgopt=force-unsafe-io',
    ...options.exclude.map((pattern) => `--dpkgopt=path-exclude=${pattern}`),
    ...options.include.map((pattern) => `--dpkgopt=path-include=${pattern}`),
  ];
  await mmdebstrap(['--variant=minbase', ...settings], set, target);
}

async function mmdebstrap(
  mode: readonly string[],
  set: PackageSet,
  target: { readonly dir: string; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const argv = [
    'mmdebstrap',
    '--quiet',
    '--mode=root',
    '--format=directory',
    '--components=main',
    '--architectures=amd64',
    ...mode,
    '--aptopt=Acquire::Retries "3"',
    '--aptopt=Acquire::Languages "none"',
    ...(await hostProxies()).map((option) => `--aptopt=${option}`),
    `--include=${set.packages.join(',')}`,
    set.suite,
    target.dir,
  ];
  await run(confined(argv), {
    env: { DEBIAN_FRONTEND: 'noninteractive' },
    ...(target.signal && { signal: target.signal }),
  });
}

/** mmdebstrap does not read the host's apt configuration; a proxy that is set there is needed all the same. */
async function hostProxies(): Promise<string[]> {
  const settings = await run(['apt-config', 'dump', '--no-empty']);
  return settings
    .split('\n')
    .filter((line) => /^Acquire::https?::Proxy/.test(line))
    .map((line) => line.replace(/;$/, ''));
}
