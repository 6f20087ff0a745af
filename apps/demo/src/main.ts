/**
 * `./demo`: the tour. It starts the platform on a data folder of its own, goes through what a sandbox can do, checks every
 * claim that it prints, and leaves nothing behind, also when it is interrupted or a claim is false.
 */
import { startPlatform } from '@space/server';
import { type DemoFolder, demoConfig, makeDemoFolder, removeDeadDemos, removeDemoFolder } from './folder.ts';
import { Narrator } from './narrator.ts';
import { tour } from './tour.ts';

const narrator = new Narrator();
process.exitCode = await main();

async function main(): Promise<number> {
  const interrupted = Promise.withResolvers<never>();
  interrupted.promise.catch(() => undefined);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => interrupted.reject(new Error('The demo was interrupted.')));
  }
  let folder: DemoFolder | null = null;
  try {
    await removeDeadDemos((text) => narrator.note(text));
    folder = await makeDemoFolder();
    await Promise.race([run(folder), interrupted.promise]);
    return 0;
  } catch (error) {
    narrator.failed(error);
    return 1;
  } finally {
    if (folder !== null) await cleanUp(folder);
  }
}

async function run(folder: DemoFolder): Promise<void> {
  const platform = await narrator.step('start the platform', () =>
    startPlatform(demoConfig(folder), (step) => narrator.note(step)),
  );
  folder.platform = platform;
  const { accelerator } = await platform.node.capabilities();
  narrator.note(`Guest code runs by ${accelerator.name.toUpperCase()}: ${accelerator.reason}`);
  await tour(platform, narrator);
  narrator.table();
}

async function cleanUp(folder: DemoFolder): Promise<void> {
  try {
    const left = await removeDemoFolder(folder);
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    narrator.note('Nothing is left behind: no process, no mount, no file.');
  } catch (error) {
    narrator.failed(error);
    process.exitCode = 1;
  }
}
