/** A user's program that knows nothing but E2B_DOMAIN, E2B_API_KEY and which authority to believe. What it learns, it prints. */
import { Sandbox } from 'e2b';

const sandbox = await Sandbox.create({ timeoutMs: 120_000 });
try {
  await sandbox.files.write('page', 'by its name');
  await sandbox.commands.run('python3 -m http.server 3000', { background: true });
  console.log(await (await fetch(await sandbox.downloadUrl('page', { useSignatureExpiration: 60 }))).text());
  const url = `https://${sandbox.getHost(3000)}/page`;
  // Python takes a while to listen; until then the port is closed, and says so.
  for (const end = Date.now() + 60_000; ; ) {
    const answer = await fetch(url);
    const text = await answer.text();
    if (answer.status === 200 || Date.now() > end) {
      console.log(text);
      break;
    }
    if (!text.includes('port is not open')) throw new Error(text);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
} finally {
  await sandbox.kill();
}
