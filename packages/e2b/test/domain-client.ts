/** What a user's program does when sandboxes have names of hosts: `domain-client.ts PORT PACKAGE`, a port that a server in the sandbox listens on, and which SDK. */
import { once } from 'node:events';
import type * as Sdk from 'e2b';

const [, , port, name = 'e2b'] = process.argv;
const { Sandbox } = (await import(name)) as typeof Sdk;

const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
await sandbox.files.write('a', 'written');
console.log((await sandbox.commands.run('cat a')).stdout);
console.log(await (await fetch(await sandbox.downloadUrl('a', { useSignatureExpiration: 60 }))).text());
const form = new FormData();
form.append('file', new Blob(['sent up']), 'b');
await fetch(await sandbox.uploadUrl('b'), { method: 'POST', body: form });
console.log(await sandbox.files.read('b'));
const host = sandbox.getHost(Number(port));
console.log(await (await fetch(`https://${host}/there?`)).text());
const socket = new WebSocket(`wss://${host}/socket`);
await once(socket, 'open');
socket.close();
console.log('opened');
await sandbox.kill();
console.log(await sandbox.isRunning());
const gone = await fetch(`https://${host}/`);
console.log(gone.status, await gone.text());
