/** What the copy step of a template does in a real guest by bash and tar, done to fake files; owners and modes are not kept. */
import { gunzipSync } from 'node:zlib';
import type { FakeFiles } from './fake-files.ts';
import type { FakeProgram } from './fake-shell.ts';

const BLOCK = 512;
const GZIP = 0x1f;

interface TarEntry {
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink';
  readonly content: Buffer;
  readonly link: string;
}

export const fakeCopy: FakeProgram = async ({ files, print }, [archive = '', given = '', target = '']) => {
  const { body } = await files.readFile({ path: archive });
  const entries = entriesIn(Buffer.concat(await Array.fromAsync(body)));
  await files.removeFile({ path: archive });
  const pattern = given.replace(/^(\.\/)+/, '').replace(/\/$/, '');
  const isTop = pattern === '.' || pattern === '';
  const matches = entries.filter(({ path }) => isTop || globOf(pattern).test(path));
  if (matches.length === 0) {
    print(`no files found for '${pattern}'\n`, 'stderr');
    return 66;
  }
  const targetIsDirectory = await files.stat({ path: target }).then(
    ({ type }) => type === 'directory',
    () => false,
  );
  const into = target.endsWith('/') || matches.length > 1 || targetIsDirectory;
  const base = target.replace(/\/$/, '');
  if (isTop) for (const entry of entries) await put(files, `${base}/${entry.path}`, entry);
  else for (const match of matches) await place(match);
  return 0;

  async function place(match: TarEntry): Promise<void> {
    if (match.type !== 'directory') {
      return put(files, into ? `${base}/${match.path.slice(match.path.lastIndexOf('/') + 1)}` : base, match);
    }
    await files.makeDirectory({ path: base, parents: true });
    for (const entry of entries) {
      if (entry.path.startsWith(`${match.path}/`)) {
        await put(files, `${base}${entry.path.slice(match.path.length)}`, entry);
      }
    }
  }
};

async function put(files: FakeFiles, path: string, { type, content, link }: TarEntry): Promise<void> {
  if (type === 'directory') await files.makeDirectory({ path, parents: true });
  else if (type === 'symlink') await files.makeSymlink({ path, target: link });
  else await files.writeFile({ path }, once(content));
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function globOf(pattern: string): RegExp {
  const source = pattern.replaceAll(/[.+^${}()|\\]/g, '\\$&').replaceAll(/\*\*\/?|\*|\?/g, (glob) => {
    return glob === '?' ? '[^/]' : glob === '*' ? '[^/]*' : '(?:.*/)?';
  });
  return new RegExp(`^${source}$`);
}

/** Of a tar file (ustar, with long names by pax), packed by gzip or not. */
function entriesIn(bytes: Buffer): TarEntry[] {
  const tar = bytes[0] === GZIP ? gunzipSync(bytes) : bytes;
  const entries: TarEntry[] = [];
  let long: { path?: string; linkpath?: string } = {};
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0; ) {
    const text = (from: number, length: number) =>
      tar.toString('utf8', at + from, at + from + length).replace(/\0.*$/s, '');
    const size = Number.parseInt(text(124, 12).trim() || '0', 8);
    const [name, prefix, flag, target] = [text(0, 100), text(345, 155), text(156, 1), text(157, 100)];
    const content = tar.subarray(at + BLOCK, at + BLOCK + size);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    if (flag === 'x') {
      long = Object.fromEntries([...content.toString().matchAll(/\d+ ([^=\n]+)=(.*)\n/g)].map(([, k, v]) => [k, v]));
      continue;
    }
    const path = (long.path ?? (prefix === '' ? name : `${prefix}/${name}`)).replace(/^(\.\/)+/, '').replace(/\/$/, '');
    const type = flag === '5' ? 'directory' : flag === '2' ? 'symlink' : 'file';
    if (path !== '') entries.push({ path, type, content, link: long.linkpath ?? target });
    long = {};
  }
  return entries;
}
