/**
 * `space`: the command line over the SDK. Most of a short verb's time would go into the compiling of what it imports, so that
 * is kept, in the checkout: whoever can write there can write the code too. Where it cannot be written, nothing is kept.
 */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

enableCompileCache(join(import.meta.dirname, '../../../node_modules/.cache/space-cli'));
const { runCli } = await import('./run-cli.ts');

const code = await runCli(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signals: process,
  suspend: () => process.kill(process.pid, 'SIGSTOP'),
});
// A stdin that nobody reads any more, or a connection that is kept for the next call, is no reason to stay.
await Promise.all([process.stdout, process.stderr].map(flushed));
process.exit(code);

function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.errored) resolve();
    else stream.write('', () => resolve());
  });
}
