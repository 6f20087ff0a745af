/** In a real bash: what Tab offers. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
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
        source <(space completion bash); source <(space completion bash)
        COMP_WORDS=(space "$@"); COMP_CWORD=$#; COMP_LINE="space $*"; COMP_POINT=\${#COMP_LINE}
        __space_complete; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script, 'bash', ...words], { env, cwd: bin });
      // Of constants that are there already, when it is sourced again.
      expect(stderr).not.toContain('readonly');
      return stdout;
    };
    expect(await offered('tim')).toMatch(/^timeline\b/);
    expect(await offered('exec', 'bo')).toMatch(/^boxed\b/);
    expect(await offered('ports', 'for')).toMatch(/^forward\b/);
    expect(await offered('ports', 'forward', 'bo')).toMatch(/^boxed\b/);
    expect(await offered('create', '--mem')).toMatch(/^--memory\b/);
    expect(await offered('u')).toMatch(/^up\b/);
    expect(await offered('create', '--network', '')).toBe('none\npackages\ninternet\n');
    expect(await offered('create', '--template', '')).toMatch(/^base\b/);
    await writeFile(join(bin, 'READ.me'), '');
    expect(await offered('cp', 'REA')).toBe('READ.me\n');
    expect(await offered('cp', 'READ.me', 'bo')).toMatch(/^boxed:/);
    await offered('exec', 'boxed', '$(touch carried-out)', 'x');
    expect(await readdir(bin)).not.toContain('carried-out');
  } finally {
    await rm(bin, { recursive: true });
  }
});
