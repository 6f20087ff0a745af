/**
 * What each artefact is made from, as digests: the recipe and the code that acts on it. A change of either makes a new
 * artefact; another checkout with the same files finds what is already built.
 */
import { join } from 'node:path';
import { digestAgentSources } from './agent.ts';
import { digestFile, digestValue } from './digest.ts';
import { digestHostProgram } from './host-programs.ts';
import { recipeDir } from './recipe.ts';

export interface InputKeys {
  readonly vmm: string;
  readonly kernel: string;
  readonly agent: string;
  readonly jail: string;
  readonly helper: string;
  readonly 'vault-server': string;
  readonly initramfs: string;
  readonly base: string;
}

const digestFiles = async (paths: readonly string[]): Promise<string> =>
  digestValue(await Promise.all(paths.map(digestFile)));

const source = (name: string): string => join(import.meta.dirname, name);
const recipe = (name: string): string => join(recipeDir, name);

export async function inputKeys(): Promise<InputKeys> {
  const [vmm, kernel, base, crateBuild, agentBuild, agentSources, jailSources, helperSources, serverSources, packing] =
    await Promise.all([
      digestFiles([recipe('vmm.json'), source('vmm.ts'), source('debian.ts')]),
      digestFiles([recipe('kernel.json'), ...['kernel.ts', 'bzimage.ts', 'modules.ts', 'debian.ts'].map(source)]),
      digestFiles([recipe('base.json'), source('base.ts'), source('debian.ts')]),
      digestFiles([source('crate.ts')]),
      digestFiles([source('agent.ts')]),
      digestAgentSources(),
      digestHostProgram('jail'),
      digestHostProgram('helper'),
      digestHostProgram('vault-server'),
      digestFiles([source('initramfs.ts'), source('cpio.ts')]),
    ]);
  const agent = digestValue({ crateBuild, agentBuild, agentSources });
  const jail = digestValue({ crateBuild, jailSources });
  const helper = digestValue({ crateBuild, helperSources });
  const server = digestValue({ crateBuild, serverSources });
  return {
    vmm,
    kernel,
    agent,
    jail,
    helper,
    'vault-server': server,
    initramfs: digestValue({ kernel, agent, packing }),
    base,
  };
}

/** One digest of everything that the assets are made from. */
export async function inputsDigest(): Promise<string> {
  return digestValue(await inputKeys());
}
