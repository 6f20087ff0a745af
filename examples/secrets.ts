import { deleteSecret, Sandbox, setSecret, setSecretBinding } from '@space/sdk';

// For who holds the keys: the value is sealed here, for the gateway, and goes nowhere else.
await setSecret('github-token', process.env['GITHUB_TOKEN'] ?? 'not a real one');
await setSecretBinding('github', {
  secret: 'github-token',
  hosts: ['api.github.com'],
  place: { in: 'bearer' },
  projects: 'all',
  env: 'GITHUB_TOKEN',
});

// For who builds agents: a sandbox names the binding, and sees a placeholder.
const sandbox = await Sandbox.create({
  network: { preset: 'none', allow: [{ host: 'api.github.com' }] },
  secrets: ['github'],
});
const { stdout } = await sandbox.run('printenv GITHUB_TOKEN');
console.log(sandbox.fields.secrets, stdout.startsWith('space-secret-'));

const [copy] = await sandbox.fork();
console.log(copy?.fields.secrets);

await copy?.delete();
await sandbox.delete();
await deleteSecret('github-token');
