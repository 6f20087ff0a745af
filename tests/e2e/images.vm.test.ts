/** Templates from images of containers, on real microVMs. The images are made here, of what the base system has: nothing is fetched. */
import { createHash } from 'node:crypto';
import { buildTemplate, TemplateBuildError, type TemplateRecipe, uploadTemplateFiles } from '@space/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ImageOptions, ociArchive, tarOf } from './oci-images.ts';
import { makeWorld, type World } from './world.ts';

let world: World;
let system: Buffer;
beforeAll(async () => {
  world = await makeWorld();
  system = await smallSystem();
});
afterAll(() => world[Symbol.asyncDispose]());

/** A shell and a few tools with their libraries, out of a sandbox of the base system: a layer as images have them. */
async function smallSystem(): Promise<Buffer> {
  const sandbox = await world.create();
  const script = `
    set -e; mkdir -p /tmp/r/bin /tmp/r/etc /tmp/r/srv; cd /tmp/r
    for tool in bash cat id ls stat sync; do cp "$(command -v $tool)" bin/; done; ln -s bash bin/sh
    ldd bin/* 2>/dev/null | grep -o '/lib[^ )]*' | sort -u | while read lib; do mkdir -p .$(dirname $lib); cp -L $lib .$lib; done
    printf 'root:x:0:0:root:/root:/bin/bash\\nworker:x:1500:1500::/srv:/bin/bash\\n' > etc/passwd
    echo removed > etc/name; echo > etc/profile
    echo 'for one in /etc/profile.d/*.sh; do . $one; done' > etc/profile
    tar --owner=0 --group=0 --numeric-owner -cf /tmp/layer.tar .`;
  const { exitCode, stderr } = await sandbox.run(script, { user: 'root' });
  if (exitCode !== 0) throw new Error(stderr);
  const layer = Buffer.from(await sandbox.files.readBytes('/tmp/layer.tar', { user: 'root' }));
  await sandbox.delete();
  return layer;
}

async function build(archive: Buffer, more: TemplateRecipe = {}) {
  const hash = createHash('sha256').update(archive).digest('hex');
  await uploadTemplateFiles(hash, archive, world.connection);
  const logs: string[] = [];
  const onLog = ({ message }: { readonly message: string }) => void logs.push(message);
  const built = await buildTemplate('small', { ...world.connection, ...more, from: { archive: hash }, onLog });
  return { ...built, logs };
}

async function refusalOf(archive: Buffer): Promise<string> {
  const thrown = await build(archive).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(thrown instanceof TemplateBuildError)) throw new Error(`the build did not fail: ${thrown}`, { cause: thrown });
  expect(thrown.build.failure?.step).toBe('base');
  return thrown.build.failure?.message ?? '';
}

const image = (options: Partial<ImageOptions> = {}) => ociArchive({ layers: [system], ...options });

describe('an image in an archive', () => {
  it('becomes the whole disk of a template, whose steps and sandboxes run as it says', async () => {
    const upper = tarOf([
      { name: 'srv/hello', content: 'hello from the image' },
      { name: 'etc/.wh.name' },
      { name: 'srv/linked', type: '1', link: 'srv/hello' },
    ]);
    const config = { User: 'worker', WorkingDir: '/srv', Env: ['PATH=/bin:/opt/own', "SAID=it's so"], Cmd: ['/none'] };
    const archive = image({ layers: [system, upper], config });
    const steps = [{ type: 'run' as const, command: 'echo "$(cat hello), $SAID" > /srv/said', user: 'root' }];
    await build(archive, { steps });
    const sandbox = await world.create({ template: 'small' });
    const { stdout, stderr } = await sandbox.run(
      'id -un; pwd; cat /srv/said; echo $PATH; echo $SAID; stat -c %h linked; ls -d /etc/name /usr/lib/python3* /.space* 2>/dev/null; true',
    );
    expect({ stdout, stderr }).toEqual({
      stdout: `worker\n/srv\nhello from the image, it's so\n/bin:/opt/own\nit's so\n2\n`,
      stderr: '',
    });
    expect((await sandbox.run('id -un; pwd', { user: 'user', cwd: '/home/user' })).stdout).toBe('user\n/home/user\n');
    await sandbox.pause();
    await sandbox.resume();
    expect((await sandbox.run('cat /srv/hello')).stdout).toBe('hello from the image');
    await sandbox.delete();
    const again = await build(archive, { steps });
    expect(again.cachedSteps).toBe(2);
    expect(again.logs[0]).toMatch(/^CACHED FROM archive /);
  });

  it('that breaks out of its folder has written nowhere but in what it becomes', async () => {
    const hostile = tarOf([
      { name: '../../../srv/up', content: 'up' },
      { name: 'srv/to-root', type: '2', link: '/' },
      { name: 'srv/to-root/srv/through', content: 'through' },
      { name: 'srv/absolute', type: '2', link: '/etc/shadow' },
      { name: '/srv/from-the-top', content: 'top' },
    ]);
    await build(image({ layers: [system, hostile] }));
    const sandbox = await world.create({ template: 'small' });
    const { stdout } = await sandbox.run('cat /srv/up /srv/through /srv/from-the-top; ls /.space* 2>/dev/null; id -un');
    expect(stdout).toBe('upthroughtoproot\n');
    await sandbox.delete();
  });

  it('that cannot be had, or cannot be one of ours, is refused with its reason', async () => {
    expect(await refusalOf(Buffer.from('no tar file'.repeat(100)))).toMatch(/^the archive is no tar file/);
    expect(await refusalOf(image().subarray(0, 100_000))).toMatch(/^the archive is no tar file, or is cut short/);
    expect(await refusalOf(tarOf([{ name: 'some/file' }]))).toMatch(/^the archive holds no image/);
    expect(await refusalOf(image({ architecture: 'arm64' }))).toBe(
      'the image is for linux/arm64: linux/amd64 is needed',
    );
    expect(await refusalOf(image({ layers: [tarOf([{ name: 'etc/x' }])] }))).toMatch(/^the image has no shell/);
    expect(await refusalOf(image({ isEncrypted: true }))).toMatch(/encrypted/);
    expect(await refusalOf(image({ lastLayer: 'other' }))).toMatch(/digest/i);
    expect(await refusalOf(image({ lastLayer: 'missing' }))).toMatch(/^the image cannot be read: /);
    expect(await refusalOf(image({ config: { User: 'nobody-there' } }))).toMatch(/^the image runs as "nobody-there"/);
    const outward = tarOf([{ name: 'srv/stolen', type: '1', link: '../../../etc/shadow' }]);
    expect(await refusalOf(image({ layers: [system, outward] }))).toMatch(/^the image cannot be unpacked: /);
  });
});
