/** Whether `space up` can be begun with these options: before set-up, which takes minutes. Ends with 2 when it cannot. */
import { ConfigError, configFrom } from './config.ts';

try {
  configFrom(process.argv.slice(2), process.env);
} catch (thrown) {
  if (!(thrown instanceof ConfigError)) throw thrown;
  console.error(`SPACE did not start: ${thrown.message}`);
  process.exitCode = 2;
}
