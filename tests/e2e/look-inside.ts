/** What a test sees of a sandbox from the side of its node. */
import type { Sandbox } from '@space/sdk';
import type { World } from './world.ts';

export async function lifeOf({ platform }: World, sandbox: Sandbox): Promise<string> {
  type SandboxId = Parameters<typeof platform.node.inspect>[0];
  const { life } = await platform.node.inspect(sandbox.id as SandboxId);
  if (life === null) throw new Error(`${sandbox.id} has no life`);
  return life;
}
