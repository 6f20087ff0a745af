/** What a user's program does when sandboxes have names of hosts. Its argument is a port that a server in the sandbox listens on. */
import { Sandbox } from 'e2b';

const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
await sandbox.files.write('a', 'written');
console.log((await sandbox.commands.run('cat a')).stdout);
console.log(await (await fetch(await sandbox.downloadUrl('a', { useSignatureExpiration: 60 }))).text());
const form = new FormData();
form.append('file', new Blob(['sent up']), 'b');
await fetch(await sandbox.uploadUrl('b'), { method: 'POST', body: form });
console.log(await sandbox.files.read('b'));
console.log(await (await fetch(`https://${sandbox.getHost(Number(process.argv[2]))}/there?`)).text());
await sandbox.kill();
console.log(await sandbox.isRunning());
