/** A node in memory, served on a socket of its own, and the node port of who gives it orders. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_SIZE, DEFAULT_VAULT, newId, type SandboxId } from '@space/core';
import { connectNode, type RemoteNode, type Service, serveNode } from '@space/link';
import { type FakeNode, seededChance } from '@space/testkit';

const chance = seededChance(11);

export interface World extends AsyncDisposable {
  readonly socketPath: string;
  readonly remote: RemoteNode;
  /** What the serving process met and nobody expected. */
  readonly unexpected: unknown[];
  /** Serves it, in place of what was served before. */
  serve(node: FakeNode): Promise<void>;
  /** As the death of the node's process. */
  cut(): Promise<void>;
}

export async function makeWorld(node: FakeNode, silenceMs?: number): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'space-link-'));
  const socketPath = join(folder, 'socket');
  const unexpected: unknown[] = [];
  let service: Service | null = null;
  const serve = async (served: FakeNode) => {
    await service?.close();
    service = await serveNode({ node: served, socketPath, onUnexpected: (thrown) => unexpected.push(thrown) });
  };
  await serve(node);
  const remote = connectNode({ socketPath, ...(silenceMs === undefined ? {} : { silenceMs }) });
  await remote.whenUp(AbortSignal.timeout(5_000));
  return {
    socketPath,
    remote,
    unexpected,
    serve,
    async cut() {
      await service?.close();
    },
    async [Symbol.asyncDispose]() {
      await remote.close();
      await service?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function start(node: Pick<FakeNode, 'ensureReady' | 'start'>): Promise<SandboxId> {
  const sandboxId = newId('sandbox', chance);
  const from = await node.ensureReady(DEFAULT_VAULT, 'base', DEFAULT_SIZE);
  const order = { vault: DEFAULT_VAULT, sandboxId, epoch: 1, from, template: 'base', generation: 1 };
  await node.start({ ...order, size: DEFAULT_SIZE });
  return sandboxId;
}

export const command = (word: string) => ({ processId: newId('process', chance), argv: [word], env: {} });

export const snapshotOrder = (sandboxId: SandboxId) => ({
  vault: DEFAULT_VAULT,
  sandboxId,
  epoch: 2,
  snapshotId: newId('snapshot', chance),
});
