/** What a test sees of a sandbox from the side of its node. */
import { DEFAULT_VAULT, type SandboxId } from '@space/core';
import type { Sandbox } from '@space/sdk';
import type { World } from './world.ts';

export async function lifeOf({ platform }: World, sandbox: Sandbox): Promise<string> {
  const { life } = await platform.node.inspect(DEFAULT_VAULT, sandbox.id as SandboxId);
  if (life === null) throw new Error(`${sandbox.id} has no life`);
  return life;
}
