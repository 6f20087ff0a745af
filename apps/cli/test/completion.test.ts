/** In a real bash: what Tab offers. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { World } from './world.ts';

it('offers verbs, names of sandboxes and options, through a link to the script', async () => {
  await using world = await World.start();
  await world.ok('create', '-n', 'boxed');
  const bin = await mkdtemp(join(tmpdir(), 'space-bin-'));
  try {
    await symlink(join(import.meta.dirname, '../../../space'), join(bin, 'space'));
    const env = { ...world.env, PATH: `${bin}:${process.env['PATH']}`, SPACE_CONFIG: '/nonexistent' };
    const offered = async (...words: string[]) => {
      const script = `
        source <(space completion bash)
        COMP_WORDS=(space "$@"); COMP_CWORD=$#; COMP_LINE="space $*"; COMP_POINT=\${#COMP_LINE}
        __space_complete; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return (await promisify(execFile)('bash', ['-c', script, 'bash', ...words], { env })).stdout;
    };
    expect(await offered('tim')).toMatch(/^timeline\b/);
    expect(await offered('exec', 'bo')).toMatch(/^boxed\b/);
    expect(await offered('ports', 'for')).toMatch(/^forward\b/);
    expect(await offered('ports', 'forward', 'bo')).toMatch(/^boxed\b/);
    expect(await offered('create', '--mem')).toMatch(/^--memory\b/);
    expect(await offered('u')).toMatch(/^up\b/);
  } finally {
    await rm(bin, { recursive: true });
  }
});
