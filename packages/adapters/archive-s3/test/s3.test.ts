import { openS3Archive, type S3Options } from '@space/archive-s3';
import { archivePath, type ProjectId, type SandboxId } from '@space/core';
import { archiveSuite, chunkKey, digestOf } from '@space/testkit/archive-suite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fault, type S3Server, startS3Server } from './s3-server.ts';

let server: S3Server;
beforeEach(async () => {
  server = await startS3Server();
});
afterEach(() => server.close());

function open(options: Partial<S3Options> = {}) {
  const { endpoint, bucket } = server;
  const credentials = { accessKeyId: 'id', secretAccessKey: 'a secret of the test' };
  return openS3Archive({ bucket, prefix: 'space/', region: 'eu-central-1', endpoint, credentials, ...options });
}

archiveSuite('storage that speaks S3', async () => {
  const archive = await open();
  return { archive, dispose: async () => archive.close() };
});

describe('storage that speaks S3', () => {
  const bytes = Buffer.from('a piece of a disk');
  const key = chunkKey(bytes);
  const claimRef = {
    space: 'prj_0000000000000000' as ProjectId,
    sandboxId: 'sbx_0000000000000000' as SandboxId,
    digest: digestOf(bytes),
  };

  it('that has no such bucket, or refuses it, is told when it is opened', async () => {
    await expect(open({ bucket: 'another' })).rejects.toMatchObject({ code: 'archive_unavailable' });
    server.faults.push('denied');
    await expect(open()).rejects.toMatchObject({
      code: 'archive_unavailable',
      message: expect.stringContaining('403'),
    });
  });

  it('is asked again when it fails for a moment', async () => {
    const archive = await open();
    server.faults.push('error', 'slow_down');
    await archive.put(key, bytes);
    server.faults.push('error');
    expect(await archive.has(key)).toBe(true);
    server.faults.push('slow_down');
    expect(Buffer.from((await archive.get(key, 100)) ?? [])).toEqual(bytes);
    archive.close();
  });

  it.each<[Fault, string]>([
    ['denied', 'AccessDenied'],
    ['error', 'InternalError'],
    ['cut', 'aborted'],
    ['silent', ''],
  ])('that is %s says so, and is nothing that is not there', async (fault, told) => {
    const archive = await open({ maxAttempts: 1, requestTimeoutMs: 300 });
    await archive.put(key, bytes);
    server.faults.push(fault);
    const refused = archive.get(key, 100);
    await expect(refused).rejects.toMatchObject({
      code: 'archive_unavailable',
      message: expect.stringContaining(told),
    });
    expect(Buffer.from((await archive.get(key, 100)) ?? [])).toEqual(bytes);
    archive.close();
  });

  it('that does not mind conditions is refused for what may be made once', async () => {
    const archive = await open();
    const claim = { kind: 'claim', ...claimRef } as const;
    server.faults.push('unconditional', 'unconditional');
    await expect(archive.create(claim, bytes)).rejects.toMatchObject({
      code: 'archive_unavailable',
      message: expect.stringContaining('If-None-Match'),
    });
    expect([...server.objects.keys()]).toEqual([]);
    archive.close();
  });

  it('whose answer was lost has made what may be made once, and shows it', async () => {
    const archive = await open();
    const claim = { kind: 'claim', ...claimRef } as const;
    await archive.create({ ...claim, digest: digestOf(Buffer.of(1)) }, bytes);
    server.faults.push('lost');
    // The client asks again by itself, and hears that there is one.
    expect(await archive.create(claim, bytes)).toBe(false);
    expect(Buffer.from((await archive.get(claim, 100)) ?? [])).toEqual(bytes);
    archive.close();
  });

  it('is not read without end', async () => {
    const archive = await open();
    await archive.put(key, bytes);
    server.faults.push('too_long');
    await expect(archive.get(key, 100)).rejects.toMatchObject({ code: 'archive_damaged' });
    archive.close();
  });

  it('keeps everything under its prefix', async () => {
    const archive = await open();
    await archive.put(key, bytes);
    expect([...server.objects.keys()]).toEqual([`space/${archivePath(key)}`]);
    archive.close();
  });
});
