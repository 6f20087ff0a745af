/** How a body is compressed on its way: as it is, or by gzip. */
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { HttpError } from './errors.ts';

export type Encoding = 'gzip' | 'identity';

/** What the client prefers of what there is: gzip where it takes it. Throws 406 where it takes neither. */
export function acceptedEncoding(header: string | string[] | undefined): Encoding {
  const asked = new Map(
    String(header ?? '')
      .toLowerCase()
      .split(',')
      .map((part) => {
        const [name = '', ...parameters] = part.split(';').map((text) => text.trim());
        const q = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
        return [name, q === undefined ? 1 : Number(q)] as const;
      }),
  );
  const any = asked.get('*');
  const gzip = asked.get('gzip') ?? any ?? 0;
  const identity = asked.get('identity') ?? (any === 0 ? 0 : 1);
  if (gzip > 0 && (gzip >= identity || !asked.has('identity'))) return 'gzip';
  if (identity > 0) return 'identity';
  throw new HttpError(406, `no acceptable encoding in '${String(header).slice(0, 100)}'; there are gzip and identity`);
}

/** The bytes that a body stands for. */
export function decoded(body: Readable, encoding: string | undefined): Readable {
  switch (encoding?.toLowerCase() ?? 'identity') {
    case '':
    case 'identity':
      return body;
    case 'gzip':
      return Readable.from(unzipped(body), { objectMode: false });
    default:
      throw new HttpError(
        415,
        `unsupported content encoding '${encoding?.slice(0, 100)}'; there are gzip and identity`,
      );
  }
}

async function* unzipped(body: Readable): AsyncGenerator<Uint8Array> {
  const gunzip = createGunzip();
  body.once('error', (error) => gunzip.destroy(error));
  try {
    yield* body.pipe(gunzip);
  } catch (thrown) {
    const isBroken = thrown instanceof Error && 'code' in thrown && /^Z_/.test(String(thrown.code));
    throw isBroken ? new HttpError(400, 'the body is not what gzip makes') : thrown;
  }
}
