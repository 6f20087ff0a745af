/**
 * The file that the server writes at its first start, so that the next terminal just works: the server's URL and a key,
 * readable by its owner only. Used where there are files at all; the environment is stronger. The key goes to no other
 * server than the one that it is written beside.
 */
import { misused } from './errors.ts';

export interface ConfigFile {
  readonly url: string;
  readonly apiKey: string;
}

/** Undefined when there is none. */
export function readConfigFile(): ConfigFile | undefined {
  const { process } = globalThis;
  const fs = process?.getBuiltinModule?.('node:fs');
  const path = process === undefined ? undefined : configPath(process.env);
  if (fs === undefined || path === undefined) return undefined;
  let text: string;
  try {
    const { mode } = fs.statSync(path);
    if ((mode & 0o077) !== 0 && process.platform !== 'win32') {
      throw misused(`Others can read ${path}, which holds an API key.`, `chmod 600 '${path}', or make a new key.`);
    }
    text = fs.readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) {
      return undefined;
    }
    throw error;
  }
  return parse(path, text);
}

function configPath(env: Readonly<Record<string, string | undefined>>): string | undefined {
  if (env['SPACE_CONFIG']) return env['SPACE_CONFIG'];
  const folder = env['XDG_CONFIG_HOME'] || (env['HOME'] && `${env['HOME']}/.config`);
  return folder ? `${folder}/space/config.json` : undefined;
}

function parse(path: string, text: string): ConfigFile {
  try {
    const { url, apiKey } = JSON.parse(text) as Partial<ConfigFile>;
    if (typeof url === 'string' && typeof apiKey === 'string') return { url, apiKey };
  } catch {
    // Said below.
  }
  throw misused(`${path} is not a configuration: it must be JSON with "url" and "apiKey".`, 'Mend it, or remove it.');
}
