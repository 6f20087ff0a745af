/**
 * `npm start`: the platform for use. The first signal pauses every sandbox and closes everything; a second one stops
 * waiting, and what still runs is taken up by the next start.
 */
import { ConfigError, configFrom, USAGE } from './config.ts';
import { type Platform, startPlatform } from './platform.ts';

// A terminal that is gone is no reason to leave sandboxes behind.
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);

process.exitCode = await main().catch((error: unknown) => {
  console.error(`\nSPACE did not start: ${error instanceof Error ? error.message : String(error)}`);
  return error instanceof ConfigError ? 2 : 1;
});

async function main(): Promise<number> {
  const config = configFrom(process.argv.slice(2), process.env);
  if (config === null) {
    console.log(USAGE);
    return 0;
  }
  const platform = await startPlatform(config, (step) => console.log(`… ${step}`));
  await welcome(platform, config.dataDir);
  console.log('Ready.');
  await signal();
  console.log('\nPausing every sandbox. Press Ctrl-C again to leave them as they are.');
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  const { paused, failed } = await platform.pauseAndClose();
  console.log(`Paused ${paused.length}; everything is kept in ${config.dataDir}.`);
  for (const { id, reason } of failed) console.error(`Not paused: ${id}: ${reason}`);
  return failed.length === 0 ? 0 : 1;
}

function signal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
    process.once('SIGHUP', () => resolve());
  });
}

async function welcome(platform: Platform, dataDir: string): Promise<void> {
  console.log(`\nSPACE serves ${platform.url}   (data in ${dataDir}; Ctrl-C pauses all sandboxes and stops)`);
  const { accelerator } = await platform.node.capabilities();
  console.log(`Guest code runs by ${accelerator.name.toUpperCase()}: ${accelerator.reason}`);
  if (accelerator.remedy !== null) console.log(`  ${accelerator.remedy}`);
  if (!platform.firstRun) return;
  const key = await platform.createApiKey();
  console.log(`
This is the first start. Your API key, shown this once:

  export SPACE_URL=${platform.url} SPACE_API_KEY=${key}

Three ways to use it:

  1. curl
     curl -s -X POST $SPACE_URL/v1/sandboxes -H "Authorization: Bearer $SPACE_API_KEY" -H 'content-type: application/json' -d '{"name":"first"}'
     curl -sN $SPACE_URL/v1/sandboxes/first/exec -H "Authorization: Bearer $SPACE_API_KEY" -H 'content-type: application/json' -d '{"command":"uname -a"}'

  2. TypeScript, from this folder: npm run example -- examples/first.ts
     import { Sandbox } from '@space/sdk';
     const sandbox = await Sandbox.create();
     console.log((await sandbox.run('python3 -c "print(6 * 7)"')).stdout);

  3. Any language, from the API description: $SPACE_URL/openapi.json
`);
}
