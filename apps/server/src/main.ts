/**
 * `space up`: the platform for use, as a small process that supervises the others. Ctrl-C (SIGINT, and SIGHUP of a terminal that is gone) pauses every sandbox and closes
 * everything; a second one stops waiting. SIGTERM leaves the microVMs running for the next start, which takes them up: so a
 * service is restarted without a pause.
 */
import { writeClientConfig } from './client-config.ts';
import { type Config, ConfigError, configFrom, USAGE } from './config.ts';
import { logError } from './log-line.ts';
import { tellRunning, tellStopped } from './running-file.ts';
import { type SupervisedPlatform, superviseRoles } from './supervisor.ts';

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
  const platform = await superviseRoles({
    config,
    report: (step) => console.log(`… ${step}`),
    onEnd: (facts) => logError(config.logLevel, facts, 'a process ended by itself; it is started again'),
    onHelperEnd: (message) => logError(config.logLevel, {}, message),
  });
  // A key is shown now or never.
  if (!stop.asked || platform.welcome.apiKey !== null) await welcome(platform, config);
  await tellRunning(config.dataDir, platform.welcome.url);
  console.log('Ready.');
  const signal = await stop.signal;
  if (signal === 'SIGTERM') {
    await platform.release();
    await tellStopped(config.dataDir);
    console.log('Stopped. Sandboxes that run, run on; the next start takes them up.');
    return 0;
  }
  console.log('\nPausing every sandbox. Press Ctrl-C again to leave them as they are.');
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  const result = await platform.pauseAndClose();
  await tellStopped(config.dataDir);
  if (result === null) {
    console.error('The process that pauses sandboxes was not there. They run on, and the next start takes them up.');
    return 1;
  }
  const { paused, failed } = result;
  if (failed.length === 0) {
    console.log(`Paused ${paused.length}, unmounted the vault; everything is kept in ${config.dataDir}.`);
    return 0;
  }
  for (const { id, reason } of failed) console.error(`Not paused: ${id}: ${reason}`);
  console.error(`Paused ${paused.length}. The others run on, and the next start takes them up.`);
  return 1;
}

/** Listens from the first moment, so that a start that is interrupted is undone properly too. */
function stopSignal(): { readonly signal: Promise<NodeJS.Signals>; readonly asked: boolean } {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  const stop = { signal: promise, asked: false };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => {
      if (!stop.asked) console.log('\nStopping.');
      stop.asked = true;
      resolve(name);
    });
  }
  return stop;
}

async function welcome(
  {
    welcome: { url, emulated, firstRun, apiKey },
    authorityPath,
  }: Pick<SupervisedPlatform, 'welcome' | 'authorityPath'>,
  { dataDir, domain }: Config,
): Promise<void> {
  console.log(`\nSPACE serves ${url}   (data in ${dataDir}; Ctrl-C pauses all sandboxes and stops)`);
  if (emulated) {
    console.log('Guest code is emulated here: fine for interactive work, slow for computation.');
    console.log('  `space capabilities` says why KVM is not used, and what would help.');
  }
  if (domain !== undefined) console.log(namesText(domain, url, authorityPath));
  if (apiKey === null) return;
  if (firstRun) console.log(firstSteps(url, apiKey));
  else console.log(`\nA new API key, which is not shown again:\n\n  export SPACE_API_KEY=${apiKey}\n`);
  await keepForClients(url, apiKey);
}

function namesText({ name, port }: NonNullable<Config['domain']>, url: string, authorityPath: string | null): string {
  const host = `${name}:${port ?? new URL(url).port}`.replace(/:(443)?$/, '');
  const trust = `
The certificate of these names is by an authority that was made for them here. Programs believe it when they are told of it:

  export NODE_EXTRA_CA_CERTS=${authorityPath}                      Node
  export SSL_CERT_FILE=${authorityPath}                            Python, curl (then they believe no other)
`;
  return `
By name: https://api.${host}, and https://PORT-SANDBOX.${host} for each port of each sandbox. For E2B's SDKs:

  export E2B_DOMAIN=${host}
${authorityPath === null ? '' : trust}`;
}

/** `space up` says where; other ways to start the platform keep nothing. */
async function keepForClients(url: string, apiKey: string): Promise<void> {
  const path = process.env['SPACE_CLIENT_CONFIG'];
  if (path === undefined) return;
  const outcome = await writeClientConfig(path, { url, apiKey });
  if (outcome === 'written') console.log(`It is kept in ${path}, where \`space\` and the SDK find it by themselves.\n`);
  else console.log(`${path} was left as it is: it names another server.\n`);
}

function firstSteps(url: string, key: string): string {
  return `
This is the first start. Your API key, which is not shown again (space up --new-key makes another):

  export SPACE_URL=${url} SPACE_API_KEY=${key}

Four ways to use it. The first sandbox takes some seconds, since its template is booted once.

  1. the command line, in another terminal, in this folder
     ./space run uname -a
     ./space --help

  2. curl (the output of commands comes in base64)
     curl -s $SPACE_URL/v1/sandboxes -H "Authorization: Bearer $SPACE_API_KEY" -H 'content-type: application/json' -d '{"name":"first"}'
     curl -sN $SPACE_URL/v1/sandboxes/first/exec -H "Authorization: Bearer $SPACE_API_KEY" -H 'content-type: application/json' -d '{"command":"uname -a"}'

  3. TypeScript: a file of yours in this folder's examples/, like examples/first.ts
     npm run example -- examples/first.ts

  4. any language, by the API's description
     $SPACE_URL/openapi.json
`;
}
