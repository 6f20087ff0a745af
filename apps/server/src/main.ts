/**
 * `npm start`: the platform for use. The first signal pauses every sandbox and closes everything; a second one stops
 * waiting, and what still runs is taken up by the next start.
 */
import { type Config, ConfigError, configFrom, USAGE } from './config.ts';
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
  const stop = stopSignal();
  const platform = await startPlatform(config, (step) => console.log(`… ${step}`));
  if (!stop.asked) await welcome(platform, config);
  console.log('Ready.');
  await stop.signal;
  console.log('\nPausing every sandbox. Press Ctrl-C again to leave them as they are.');
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  const { paused, failed } = await platform.pauseAndClose();
  if (failed.length === 0) {
    console.log(`Paused ${paused.length}; everything is kept in ${config.dataDir}.`);
    return 0;
  }
  for (const { id, reason } of failed) console.error(`Not paused: ${id}: ${reason}`);
  console.error(`Paused ${paused.length}. The others run on, and the next start takes them up.`);
  return 1;
}

/** Listens from the first moment, so that a start that is interrupted is undone properly too. */
function stopSignal(): { readonly signal: Promise<void>; readonly asked: boolean } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = { signal: promise, asked: false };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => {
      if (!stop.asked) console.log('\nStopping.');
      stop.asked = true;
      resolve();
    });
  }
  return stop;
}

async function welcome(platform: Platform, { dataDir, newKey }: Config): Promise<void> {
  console.log(`\nSPACE serves ${platform.url}   (data in ${dataDir}; Ctrl-C pauses all sandboxes and stops)`);
  const { accelerator } = await platform.node.capabilities();
  if (accelerator.name === 'tcg') {
    console.log('Guest code is emulated here: fine for interactive work, slow for computation.');
    console.log('  GET /v1/capabilities says why KVM is not used, and what would help.');
  }
  if (platform.firstRun) {
    console.log(firstSteps(platform.url, await platform.createApiKey()));
  } else if (newKey) {
    console.log(`\nA new API key, shown this once:\n\n  export SPACE_API_KEY=${await platform.createApiKey()}\n`);
  }
}

function firstSteps(url: string, key: string): string {
  return `
This is the first start. Your API key, shown this once (npm start -- --new-key makes another):

  export SPACE_URL=${url} SPACE_API_KEY=${key}

Three ways to use it. The first sandbox takes some seconds, since its template is booted once.

  1. curl (the output of commands comes in base64)
     curl -s $SPACE_URL/v1/sandboxes -H "Authorization: Bearer $SPACE_API_KEY" -H 'content-type: application/json' -d '{"name":"first"}'
     curl -sN $SPACE_URL/v1/sandboxes/first/exec -H "Authorization: Bearer $SPACE_API_KEY" -H 'content-type: application/json' -d '{"command":"uname -a"}'

  2. TypeScript: a file of yours in this folder's examples/, like examples/first.ts
     npm run example -- examples/first.ts

  3. any language, by the API's description
     $SPACE_URL/openapi.json
`;
}
