/** In a real bash and a real zsh: what Tab offers. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { Pty, until } from './pty.ts';
import { World } from './world.ts';

/** Each Tab starts a Node, which takes seconds on a busy machine. */
const BOUND_MS = 180_000;

it(
  'offers verbs, names of sandboxes and options, through a link to the script',
  async () => {
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
        const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script, 'bash', ...words], {
          env,
          cwd: bin,
        });
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
  },
  BOUND_MS,
);

/** Tab completes only (zsh's own default first expands the word, whatever completes it); another key writes the line to a file. */
const ZSH_SETUP = `PS1='> '; unsetopt beep; autoload -Uz compinit && compinit -u -D
source <(space completion zsh)
taken() { print -r -- "$BUFFER" >> lines; BUFFER=; }; zle -N taken; bindkey '^X' taken; bindkey '^I' complete-word; echo read''y
`;
const [TAB, TAKE] = ['\t', '\x18'];

it(
  'in zsh too completes verbs, names, options and places, and carries out nothing of the line',
  async () => {
    await using world = await World.start();
    await world.ok('create', '-n', 'boxed');
    const bin = await mkdtemp(join(tmpdir(), 'space-bin-'));
    const zsh = new Pty(['sh', '-c', 'cd "$0" && exec zsh -f -i', bin], {
      ...world.env,
      PATH: `${bin}:${process.env['PATH']}`,
    });
    try {
      await symlink(join(import.meta.dirname, '../../../space'), join(bin, 'space'));
      await writeFile(join(bin, 'lines'), '');
      zsh.type(ZSH_SETUP);
      await zsh.sees('ready');
      let taken = 0;
      const completed = async (line: string) => {
        zsh.type(`${line}${TAB}${TAKE}`);
        taken += 1;
        const lines = async () => (await readFile(join(bin, 'lines'), 'utf8')).split('\n').slice(0, -1);
        await until(
          async () => (await lines()).length === taken,
          () => `it shows ${JSON.stringify(zsh.screen)}`,
        );
        return (await lines()).at(-1);
      };
      expect(await completed('space timel')).toBe('space timeline ');
      expect(await completed('space exec bo')).toBe('space exec boxed ');
      expect(await completed('space ports for')).toBe('space ports forward ');
      expect(await completed('space create --mem')).toBe('space create --memory ');
      expect(await completed('space create --network int')).toBe('space create --network internet ');
      expect(await completed('space cp READ.me bo')).toBe('space cp READ.me boxed:');
      await mkdir(join(bin, 'folder'));
      expect(await completed('space cp fol')).toBe('space cp folder/');
      expect(await completed('space create --network=int')).toMatch(/^space create --network=internet ?$/);
      await completed("space exec boxed '$(:>carried-out)' x");
      await completed('space create --name=$(:>carried-out)=x');
      expect(await readdir(bin)).not.toContain('carried-out');
    } finally {
      zsh.kill('SIGHUP');
      await zsh.ended;
      await rm(bin, { recursive: true });
    }
  },
  BOUND_MS,
);
