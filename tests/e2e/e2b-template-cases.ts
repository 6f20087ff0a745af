/** Templates, built by E2B's unmodified SDK in real microVMs: what fakes cannot show is files, users, and a process that lives on. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOpts, Sandbox, Template } from 'e2b';
import { afterAll, beforeAll, expect, it } from 'vitest';

const NAME = 'tools';
/** The program that each sandbox of the template has running. It says which process it is, and that it lives. */
const SERVE = 'echo $$ > /home/user/pid; while true; do date +%s%N > /home/user/alive; sleep 0.2; done';

export function e2bTemplateCases(given: () => ConnectionOpts): void {
  let options: ConnectionOpts;
  let folder: string;
  beforeAll(async () => {
    options = given();
    folder = await mkdtemp(join(tmpdir(), 'space-template-'));
    await mkdir(join(folder, 'src', 'deep'), { recursive: true });
    await writeFile(join(folder, 'src', 'run.sh'), 'echo ran', { mode: 0o644 });
    await writeFile(join(folder, 'src', 'deep', 'a file.txt'), 'deep\n');
  });
  afterAll(() => rm(folder, { recursive: true }));

  const build = async (last = 'true') => {
    const template = Template({ fileContextPath: folder })
      .fromBaseImage()
      .copy('src', '/opt/tools/', { user: 'root', mode: 0o755 })
      .setEnvs({ GREETING: 'hello there' })
      .setWorkdir('/srv/work')
      .runCmd('echo "$GREETING" > said && id -un > who && pwd > where')
      .runCmd('echo "of root" > /etc/of-root', { user: 'root' })
      .runCmd(last)
      .setStartCmd(SERVE, 'test -s /home/user/alive');
    const logs: string[] = [];
    await Template.build(template, NAME, { ...options, onBuildLogs: ({ message }) => void logs.push(message) });
    return logs
      .filter((message) => /^(CACHED )?(COPY|RUN|START) /.test(message))
      .map((message) => message.split(' ', 2));
  };

  it('are built once, step by step, and each sandbox made from one has the started process, alive, with its pid', async () => {
    expect((await build()).map(([word]) => word)).toEqual(['COPY', 'RUN', 'RUN', 'RUN', 'START']);
    const sandboxes = [await Sandbox.create(NAME, options), await Sandbox.create(`${NAME}:default`, options)];
    try {
      const pids = new Set<string>();
      for (const sandbox of sandboxes) {
        const { stdout } = await sandbox.commands.run(
          [
            'pwd; stat -c "%a %U" /opt/tools/run.sh; cat "/opt/tools/deep/a file.txt"; /bin/sh /opt/tools/run.sh',
            'cd /srv/work; stat -c %U .; cat said who where /etc/of-root',
            'pid=$(cat /home/user/pid); before=$(cat /home/user/alive); sleep 1',
            'test "$before" != "$(cat /home/user/alive)" && kill -0 $pid && echo alive $pid',
          ].join('; '),
        );
        const lines = stdout.trim().split('\n');
        pids.add(lines.pop() ?? '');
        expect(lines).toEqual([
          ...['/srv/work', '755 root', 'deep', 'ran', 'user', 'hello there', 'user', '/srv/work', 'of root'],
        ]);
      }
      expect([...pids]).toEqual([expect.stringMatching(/^alive [0-9]+$/)]);
    } finally {
      for (const sandbox of sandboxes) await sandbox.kill();
    }
  });

  it('are built again from the step on that is another one', async () => {
    expect(await build()).toEqual(['COPY', 'RUN', 'RUN', 'RUN', 'START'].map((word) => ['CACHED', word]));
    const words = (await build('touch /home/user/another')).map(([first, second]) =>
      first === 'CACHED' ? second : `new ${first}`,
    );
    expect(words).toEqual(['COPY', 'RUN', 'RUN', 'new RUN', 'new START']);
  });

  it('tell why a step failed, by its own words', async () => {
    const failing = (template: ReturnType<ReturnType<typeof Template>['fromBaseImage']>) =>
      Template.build(template, 'broken', options);
    await expect(failing(Template().fromBaseImage().runCmd('echo no space >&2; exit 28'))).rejects.toThrow(
      "failed to run command 'echo no space >&2; exit 28': exit status 28: no space",
    );
    await expect(failing(Template().fromTemplate(NAME).setUser('root123').runCmd('whoami'))).rejects.toThrow(
      "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'",
    );
  });
}
