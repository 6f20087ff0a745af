import { PassThrough, Readable } from 'node:stream';
import { describe, expect, test, vi } from 'vitest';
import { RequestBody } from './request-body.ts';

async function all(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part as Buffer));
  return Buffer.concat(parts).toString();
}

describe('the body of a request', () => {
  test('that nobody looks at is the stream itself', () => {
    const source = new PassThrough();
    const body = new RequestBody(source);
    expect(body.stream()).toBe(source);
    expect(body.wasRead).toBe(false);
  });

  test('that was read ahead is sent on from its first byte, whole or not', async () => {
    const source = Readable.from([Buffer.from('abc'), Buffer.from('def'), Buffer.from('ghi')]);
    const body = new RequestBody(source);
    const some = await body.peek(4);
    expect(some).toEqual({ bytes: Buffer.from('abcdef'), isWhole: false });
    expect(await all(body.stream())).toBe('abcdefghi');
  });

  test('can be looked at twice, further each time, and says when that is all', async () => {
    const body = new RequestBody(Readable.from([Buffer.from('abc'), Buffer.from('def')]));
    expect((await body.peek(0)).bytes.toString()).toBe('abc');
    expect(await body.peek(100)).toEqual({ bytes: Buffer.from('abcdef'), isWhole: true });
    expect(await all(body.stream())).toBe('abcdef');
  });

  test('tells who waits for it that it may be sent, once', async () => {
    const told = vi.fn();
    const source = new PassThrough();
    const body = new RequestBody(source, told);
    expect(told).not.toHaveBeenCalled();
    const peeked = body.peek(10);
    source.end('x');
    await peeked;
    await body.peek(20);
    expect(told).toHaveBeenCalledOnce();
  });

  test('that breaks off is an error, before and after it was decided', async () => {
    const source = new PassThrough();
    const body = new RequestBody(source);
    const peeked = body.peek(10);
    source.destroy(new Error('reset'));
    await expect(peeked).rejects.toMatchObject({ code: 'egress_failed' });

    const other = new PassThrough();
    const late = new RequestBody(other);
    other.write('abc');
    await late.peek(2);
    const rest = all(late.stream());
    other.destroy(new Error('reset'));
    await expect(rest).rejects.toThrow('reset');
  });

  test('holds no more than was asked for, and a chunk', async () => {
    let given = 0;
    const source = new Readable({
      highWaterMark: 16,
      read() {
        given += 1024;
        this.push(Buffer.alloc(1024));
      },
    });
    const { bytes, isWhole } = await new RequestBody(source).peek(10_000);
    expect(isWhole).toBe(false);
    expect(bytes.length).toBeLessThan(12_288);
    expect(given).toBeLessThan(20_000);
  });
});
