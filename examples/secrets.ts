import { randomUUID } from 'node:crypto';
import { deleteSecret, Sandbox, setSecret, setSecretBinding } from '@space/sdk';

// Setting a secret replaces the one of that name; this name is nobody else's, so that nothing of yours is touched.
const name = `example-${randomUUID()}`;

// For who holds the keys: the value is sealed here, for the gateway, and goes nowhere else.
await setSecret(name, process.env['GITHUB_TOKEN'] ?? 'not a real one');
try {
  await setSecretBinding(name, {
    secret: name,
    hosts: ['api.github.com'],
    place: { in: 'bearer' },
    projects: 'all',
    env: 'GITHUB_TOKEN',
  });

  // For who builds agents: a sandbox names the binding, and sees a placeholder.
  await using sandbox = await Sandbox.create({
    network: { preset: 'none', allow: [{ host: 'api.github.com' }] },
    secrets: [name],
  });
  const { stdout } = await sandbox.run('printenv GITHUB_TOKEN');
  console.log('bindings:', sandbox.fields.secrets.length, 'a placeholder:', stdout.startsWith('space-secret-'));

  const [copy] = await sandbox.fork();
  console.log('bindings of the fork:', copy?.fields.secrets.length);
  await copy?.delete();
} finally {
  await deleteSecret(name); // with its binding
}
