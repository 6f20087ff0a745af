/**
 * One process of the platform, started by the supervisor: `role.ts NAME UID GID [traced]`. It loads its code as root, becomes its
 * user, and only then reads anything. When the supervisor is gone it ends at once, as if it had been killed: what it did is
 * taken up by the next start.
 */
import { parseArgs } from 'node:util';
import { ROLES, type RoleName } from './places.ts';
import type { FromRole, Role, ToRole } from './role-messages.ts';
import { becomeUser } from './users.ts';

const LOAD: Readonly<Record<RoleName, () => Promise<Role>>> = {
  node: async () => (await import('./node-role.ts')).nodeRole(),
  control: async () => (await import('./control-role.ts')).controlRole(),
  gateway: async () => (await import('./gateway-role.ts')).gatewayRole(),
};

const [name, uid, gid, traced] = parseArgs({ allowPositionals: true }).positionals;
const known = ROLES.find((role) => role === name);
if (known === undefined || process.send === undefined) throw new Error('This program is started by the supervisor.');
// An exit would wait for what its threads still ask of a disk, and who starts next waits for this process.
const endAtOnce = (): void => void process.kill(process.pid, 'SIGKILL');
process.on('disconnect', endAtOnce);
if (!process.connected) endAtOnce();
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);

const role = await LOAD[known]();
await role.prepare?.(traced !== undefined);
becomeUser({ uid: Number(uid), gid: Number(gid) });

const say = (message: FromRole): void => {
  if (process.connected) process.send?.(message);
};
const stopped = new AbortController();
let beginning: Promise<void> = Promise.resolve();
process.on('message', (message: ToRole) => {
  if (message.kind === 'begin') {
    beginning = role.begin(message, say, stopped.signal).catch((error: unknown) => {
      say({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) });
    });
    return;
  }
  if (message.kind === 'tls') {
    void beginning.then(() => role.replaceTls?.(message.tls));
    return;
  }
  stopped.abort(new Error('The platform is being stopped.'));
  void beginning
    .then(() => role.end(message, say))
    .catch((error: unknown) => console.error(error))
    .then(() => process.exit(0));
});
