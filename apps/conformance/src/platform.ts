/** A platform of its own, in a folder that goes with it: all its processes, as in use. It asks our name server and believes our hosts. */
import { mkdtemp, rm } from 'node:fs/promises';
import type { Hosts } from '@space/conformance/hosts';
import { type ConnectionOptions, listOrganisations, Sandbox, setPrivateHosts } from '@space/sdk';
import { configFrom, mountsNaming, processesNaming, superviseRoles } from '@space/server';

const PLACE = '/var/tmp/space-conformance-';
const VAULT_GIB = '16';

/** What a platform has to know of them. */
export type LocalHosts = Pick<Hosts, 'dnsServer' | 'authorityPem' | 'places'>;

export interface LocalPlatform extends AsyncDisposable {
  readonly connection: ConnectionOptions;
  /** Ends the gateway as a crash would; it is started again by itself. */
  killGateway(): void;
}

export async function openPlatform(hosts: LocalHosts, report: (step: string) => void): Promise<LocalPlatform> {
  const folder = await mkdtemp(PLACE);
  const argv = ['--data', folder, '--listen', '127.0.0.1:0', '--vault-size', VAULT_GIB, '--pool-memory', '0'];
  const made = configFrom([...argv, '--log-level', 'error', '--dns', hosts.dnsServer], {
    SPACE_MEMORY_MIB: process.env['SPACE_MEMORY_MIB'],
  });
  if (made === null) throw new Error('the proof has no configuration');
  const config = { ...made, gateway: { ...made.gateway, upstreamAuthorities: [hosts.authorityPem] } };
  const removeAll = async (): Promise<void> => {
    await rm(folder, { recursive: true, force: true });
    await rm(config.runDir, { recursive: true, force: true });
    const left = [...(await processesNaming(folder, config.runDir)), ...(await mountsNaming(folder))];
    if (left.length > 0) throw new Error(`left behind: ${left.join('; ')}`);
  };
  const platform = await superviseRoles({
    config,
    report,
    onEnd: ({ role, code, signal, stderr }) =>
      report(`the process ${role} ended with ${signal ?? code}; ${stderr.slice(-500)}`),
    onHelperEnd: (message) => report(message),
  }).catch(async (thrown: unknown) => {
    await removeAll();
    throw thrown;
  });
  const { url, apiKey } = platform.welcome;
  const connection = { baseUrl: url, apiKey: apiKey ?? '' };
  const close = async (): Promise<void> => {
    // Whatever a proof that broke off has left runs no more when its machine is gone.
    for (const sandbox of await Sandbox.list(connection)) await sandbox.delete();
    await platform.pauseAndClose();
    await removeAll();
  };
  try {
    const { domain } = hosts.places.own ?? { domain: '' };
    const privateHosts = ['open', 'shut', 'flips'].map((label) => `${label}.${domain}`);
    for (const { id } of await listOrganisations(connection)) await setPrivateHosts(id, privateHosts, connection);
  } catch (thrown) {
    await close();
    throw thrown;
  }
  return {
    connection,
    killGateway() {
      const pid = platform.pids.gateway();
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
    },
    [Symbol.asyncDispose]: close,
  };
}
