/**
 * A program that asks both hosts without end, from the first moment that anything of the guest runs: it is there in every snapshot,
 * so it goes on with the thaw of each life, before anybody could have told anybody of anything.
 */
import type { Sandbox } from '@space/sdk';
import type { OwnPlaces, Places } from '../places.ts';

/** By what its requests say who sent them: the name of the machine, which a fork gets anew. */
const PROGRAM = `
import http.client, socket, sys, time
open_host, shut_host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
while True:
    for host, path in (open_host, "/open/beacon/"), (shut_host, "/shut/beacon/"):
        try:
            asked = http.client.HTTPConnection(host, port, timeout=5)
            asked.request("GET", path + socket.gethostname()); asked.getresponse().read(); asked.close()
        except Exception: pass
    time.sleep(0.05)
`;

export async function startBeacon(sandbox: Sandbox, { open, shut }: Places, { http }: OwnPlaces): Promise<void> {
  await sandbox.start(['python3', '-c', PROGRAM, open, shut, `${http}`], { user: 'root' });
}
