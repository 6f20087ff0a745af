/** What the platform needs to run microVMs, as set-up has built it. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { cacheDir, readJson, touch } from './cache.ts';
import { inputsDigest } from './inputs.ts';

/** Paths are absolute; digests are SHA-256 in hexadecimal, of content. */
export interface Assets {
  readonly vmm: {
    /** The folder that holds the whole VMM: program, libraries, firmware. Copy it to keep a build. */
    readonly root: string;
    /** Put in front of `binary`: the VMM's own loader and where its libraries lie. */
    readonly loaderArgv: readonly string[];
    readonly binary: string;
    /** One `-L` each. */
    readonly firmwareDirs: readonly string[];
    /** For people: `10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)`. */
    readonly version: string;
    /** Of the whole folder. Device state is only ever loaded by the same build. */
    readonly digest: string;
  };
  readonly kernel: {
    /** An uncompressed ELF file, for `-kernel`. */
    readonly vmlinux: string;
    readonly release: string;
    readonly digest: string;
  };
  readonly initramfs: { readonly path: string; readonly digest: string; readonly agentVersion: string };
  /** The program that starts a VMM in its jail. */
  readonly jail: { readonly launcher: string; readonly digest: string };
  /** The process that has root. */
  readonly helper: { readonly program: string; readonly digest: string };
  /** The process that shows what is in an encrypted vault, where the kernel does not. */
  readonly vaultServer: { readonly program: string; readonly digest: string };
  readonly templates: {
    /** `disk` is a sparse raw image with one ext4 file system and no partitions. */
    readonly base: {
      readonly name: string;
      readonly disk: string;
      readonly sizeBytes: number;
      readonly digest: string;
    };
  };
}

const path = z.string().startsWith('/');
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const assetsSchema: z.ZodType<Assets> = z.strictObject({
  vmm: z.strictObject({
    root: path,
    loaderArgv: z.array(z.string()).min(1),
    binary: path,
    firmwareDirs: z.array(path),
    version: z.string(),
    digest,
  }),
  kernel: z.strictObject({ vmlinux: path, release: z.string(), digest }),
  initramfs: z.strictObject({ path, digest, agentVersion: z.string() }),
  jail: z.strictObject({ launcher: path, digest }),
  helper: z.strictObject({ program: path, digest }),
  vaultServer: z.strictObject({ program: path, digest }),
  templates: z.strictObject({
    base: z.strictObject({ name: z.string(), disk: path, sizeBytes: z.int().positive(), digest }),
  }),
});

export const assetsPath = (inputs: string): string => join(cacheDir(), 'assets', `${inputs.slice(0, 32)}.json`);

/** The assets that belong to this checkout's sources; throws, and says what to do, when they are not all there. */
export async function loadAssets(): Promise<Assets> {
  const assets = await findAssets();
  if (assets) {
    await markUsed();
    return assets;
  }
  throw new Error(
    `The VMM, guest kernel and base image for these sources are not in ${cacheDir()}: they have not been built yet, ` +
      'or the sources changed since. Run setup/bootstrap.sh (./demo, ./test and npm start do it too).',
  );
}

/** Keeps them from being pruned; to be called once a day while they are in use. */
export async function markUsed(): Promise<void> {
  await touch(assetsPath(await inputsDigest()));
}

/** `undefined` when something is missing. */
export async function findAssets(): Promise<Assets | undefined> {
  const found = await readJson(assetsPath(await inputsDigest()));
  if (found === undefined) return undefined;
  const assets = assetsSchema.parse(found);
  const files = [
    assets.vmm.binary,
    assets.kernel.vmlinux,
    assets.initramfs.path,
    assets.jail.launcher,
    assets.helper.program,
    assets.vaultServer.program,
    assets.templates.base.disk,
  ];
  const there = await Promise.allSettled(files.map((file) => access(file)));
  return there.every((result) => result.status === 'fulfilled') ? assets : undefined;
}
