/**
 * Builds what is missing in the cache and writes down what belongs together. Run as root, under the build lock, by
 * setup/bootstrap.sh. Does nothing when everything is there.
 */
import { agentPath, buildAgent, parseAgentNote } from './agent.ts';
import { type Assets, assetsPath, findAssets, markUsed } from './assets.ts';
import { baseDiskPath, buildBase, parseBaseNote } from './base.ts';
import { cacheDir, provideArtefact, removeDeadBuilds, writeFileAtomic } from './cache.ts';
import { digestValue } from './digest.ts';
import { buildHostProgram, type HostProgram, hostProgramPath, parseHostProgramNote } from './host-programs.ts';
import { buildInitramfs, initramfsPath, parseInitramfsNote } from './initramfs.ts';
import { type InputKeys, inputKeys } from './inputs.ts';
import { buildKernel, kernelPaths, parseKernelNote } from './kernel.ts';
import { reportStep } from './progress.ts';
import { KEPT_UNUSED_DAYS, pruneCache } from './prune.ts';
import { parseBaseRecipe, parseKernelRecipe, parseVmmRecipe, readRecipe } from './recipe.ts';
import { buildVmm, parseVmmNote, vmmPaths } from './vmm.ts';

const TOTAL_STEPS = 11;

async function buildAssets(keys: InputKeys, signal: AbortSignal): Promise<Assets> {
  const [vmmRecipe, kernelRecipe, baseRecipe] = await Promise.all([
    readRecipe('vmm.json', parseVmmRecipe),
    readRecipe('kernel.json', parseKernelRecipe),
    readRecipe('base.json', parseBaseRecipe),
  ]);
  const step = (number: number, title: string) => ({ number, total: TOTAL_STEPS, title });

  const vmmBuild = reportStep(step(5, 'VMM'), () =>
    provideArtefact({
      kind: 'vmm',
      key: keys.vmm,
      parse: parseVmmNote,
      make: (dir) => buildVmm(vmmRecipe, dir, signal),
    }),
  );
  const kernelBuild = reportStep(step(6, 'Guest kernel'), () =>
    provideArtefact({
      kind: 'kernel',
      key: keys.kernel,
      parse: parseKernelNote,
      make: (dir) => buildKernel(kernelRecipe, dir, signal),
    }),
  );
  const baseBuild = reportStep(step(7, 'Base image'), () =>
    provideArtefact({
      kind: 'base',
      key: keys.base,
      parse: parseBaseNote,
      make: (dir) => buildBase(baseRecipe, dir, signal),
    }),
  );
  const hostProgram = (kind: HostProgram) =>
    provideArtefact({
      kind,
      key: keys[kind],
      parse: parseHostProgramNote,
      make: (dir) => buildHostProgram(kind, dir, signal),
    });
  const jailBuild = reportStep(step(8, 'Jail of the VMM'), () => hostProgram('jail'));
  const helperBuild = reportStep(step(9, 'Helper that has root'), () => hostProgram('helper'));
  const vaultServerBuild = reportStep(step(10, 'Vault server'), () => hostProgram('vault-server'));
  const initramfsBuild = reportStep(step(11, 'Guest agent and initramfs'), async () => {
    const [agent, kernel] = await Promise.all([
      provideArtefact({
        kind: 'agent',
        key: keys.agent,
        parse: parseAgentNote,
        make: (dir) => buildAgent(dir, signal),
      }),
      kernelBuild,
    ]);
    const parts = {
      agent: agentPath(agent.dir),
      agentVersion: agent.version,
      modules: kernelPaths(kernel.dir).modules,
    };
    return provideArtefact({
      kind: 'initramfs',
      key: keys.initramfs,
      parse: parseInitramfsNote,
      make: (dir) => buildInitramfs(parts, dir),
    });
  });

  await settleAll([vmmBuild, kernelBuild, baseBuild, jailBuild, helperBuild, vaultServerBuild, initramfsBuild]);
  const [vmm, kernel, base, jail, helper, vaultServer, initramfs] = await Promise.all([
    vmmBuild,
    kernelBuild,
    baseBuild,
    jailBuild,
    helperBuild,
    vaultServerBuild,
    initramfsBuild,
  ]);
  const paths = vmmPaths(vmm.dir, vmmRecipe);
  return {
    vmm: {
      root: paths.root,
      loaderArgv: [paths.loader, '--library-path', paths.libraryPath],
      binary: paths.binary,
      firmwareDirs: paths.firmwareDirs,
      version: vmm.version,
      digest: vmm.digest,
    },
    kernel: { vmlinux: kernelPaths(kernel.dir).vmlinux, release: kernel.release, digest: kernel.digest },
    initramfs: { path: initramfsPath(initramfs.dir), digest: initramfs.digest, agentVersion: initramfs.agentVersion },
    jail: { launcher: hostProgramPath('jail', jail.dir), digest: jail.digest },
    helper: { program: hostProgramPath('helper', helper.dir), digest: helper.digest },
    vaultServer: { program: hostProgramPath('vault-server', vaultServer.dir), digest: vaultServer.digest },
    templates: {
      base: { name: baseRecipe.name, disk: baseDiskPath(base.dir), sizeBytes: base.sizeBytes, digest: base.digest },
    },
  };
}

/** Waits for all, so that what can be built is built and kept, then fails with everything that went wrong. */
async function settleAll(builds: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(builds);
  const failures = results.flatMap((result): unknown[] => (result.status === 'rejected' ? [result.reason] : []));
  if (failures.length > 0) throw new AggregateError(new Set(failures), 'Not everything could be built');
}

async function main(): Promise<void> {
  if (await findAssets()) {
    await markUsed();
    return prune();
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => stop.abort(new Error(`Stopped by ${signal}; run it again to go on`)));
  }
  // What is built is read by other users: the VMM runs as one.
  process.umask(0o022);
  await removeDeadBuilds();
  const keys = await inputKeys();
  const assets = await buildAssets(keys, stop.signal);
  await writeFileAtomic(assetsPath(digestValue(keys)), `${JSON.stringify(assets, null, 2)}\n`);
  await prune();
}

/** What has come to nothing by it is no failure of set-up. */
async function prune(): Promise<void> {
  const { removed, failed } = await pruneCache();
  const say = (text: string) => process.stderr.write(`${text}\n`);
  if (removed.length > 0) say(`Removed from ${cacheDir()}, unused for ${KEPT_UNUSED_DAYS} days: ${removed.join(', ')}`);
  for (const one of failed) say(`Not removed from ${cacheDir()}: ${one}`);
}

/** Every message in a chain of causes, innermost last: what failed, and why. */
function explain(error: unknown, indent = ''): string {
  if (!(error instanceof Error)) return `${indent}${String(error)}`;
  const below = error instanceof AggregateError ? error.errors : error.cause === undefined ? [] : [error.cause];
  return [`${indent}${error.message}`, ...below.map((inner) => explain(inner, `${indent}  `))].join('\n');
}

await main().catch((error: unknown) => {
  process.stderr.write(`Set-up failed: ${explain(error)}\n`);
  process.exitCode = 1;
});
