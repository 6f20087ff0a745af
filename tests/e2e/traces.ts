/** Where bytes that should be nowhere are looked for: in all files that were written to on this machine, and in the memory of processes. */
import { execFile } from 'node:child_process';
import { open, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PIECE_BYTES = 8 * 1024 * 1024;
const PAGE_BYTES = 4096;

/**
 * The files below the roots, written to since `stamp` was, that have the marker in their bytes or in their name. Their bytes are those
 * on the disk: what is mounted below a root is not entered, unless `within` is empty, as for the subvolumes of a vault. Holes are skipped, so that a sparse file costs what it holds.
 */
export async function filesWith(
  marker: string,
  roots: readonly string[],
  stamp: string,
  { within = '-xdev' }: { readonly within?: '-xdev' | '' } = {},
): Promise<string[]> {
  const script = `
    stamp=$1 marker=$2; shift 2
    find "$@" ${within} -name "*$marker*" -print
    find "$@" ${within} -type f -newer "$stamp" -print0 |
      LC_ALL=C xargs --null --no-run-if-empty grep --null-data --text --fixed-strings --files-with-matches --no-messages -e "$marker" -- || true`;
  const { stdout } = await run('bash', ['-c', script, 'search', stamp, marker, ...roots], { maxBuffer: PIECE_BYTES });
  return [...new Set(stdout.split('\n'))].filter(Boolean).toSorted();
}

/** What the kernel swaps to, which holds whatever was in memory. */
export async function swapAreas(): Promise<string[]> {
  const lines = (await readFile('/proc/swaps', 'utf8')).trim().split('\n').slice(1);
  return lines.map((line) => line.split(/\s+/)[0] ?? '');
}

export interface Process {
  readonly pid: number;
  /** As the kernel calls it, and with what it was started. */
  readonly name: string;
}

/** Those that a process started, and theirs, and itself; and those that name one of the folders or have a file of it open. */
export async function processesOf(root: number, ...folders: readonly string[]): Promise<Process[]> {
  const all = await Promise.all((await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(describeProcess));
  const ours = new Set<number>([root]);
  for (let before = 0; before !== ours.size; ) {
    before = ours.size;
    for (const { pid, parent, seen } of all) {
      if (pid === process.pid || pid === process.ppid) continue;
      if (ours.has(parent) || folders.some((folder) => seen.includes(folder))) ours.add(pid);
    }
  }
  return all.filter(({ pid }) => ours.has(pid));
}

async function describeProcess(name: string) {
  const read = (file: string) => readFile(join('/proc', name, file), 'utf8').catch(() => '');
  const fds = await readdir(join('/proc', name, 'fd')).catch(() => []);
  const opened = await Promise.all(fds.map((fd) => readlink(join('/proc', name, 'fd', fd)).catch(() => '')));
  const cmdline = (await read('cmdline')).replaceAll('\0', ' ');
  return {
    pid: Number(name),
    parent: Number(/^PPid:\s+(\d+)$/m.exec(await read('status'))?.[1] ?? 0),
    name: `${(await read('comm')).trim()}: ${cmdline}`,
    seen: [cmdline, ...opened].join('\n'),
  };
}

/** Which of the needles are in the memory that the process may write to. One that has ended has none. */
export async function inMemoryOf(pid: number, needles: ReadonlyMap<string, Buffer>): Promise<string[]> {
  const maps = await readFile(`/proc/${pid}/maps`, 'utf8').catch(() => '');
  const found = new Set<string>();
  const areas = [...maps.matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw\S+ \S+ \S+ \S+ *(.*)$/gm)];
  if (areas.length === 0) return [];
  await using memory = await open(`/proc/${pid}/mem`, 'r');
  const overlap = Math.max(...[...needles.values()].map(({ length }) => length));
  const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES);
  for (const [, from = '', to = ''] of areas) {
    const end = Number.parseInt(to, 16);
    for (let at = Number.parseInt(from, 16); at < end; ) {
      const wanted = Math.min(PIECE_BYTES, end - at);
      // An area may be gone by now, and pages in it may be guarded: those alone are passed over.
      const { bytesRead } = await memory.read(buffer, 0, wanted, at).catch(() => ({ bytesRead: 0 }));
      const piece = buffer.subarray(0, bytesRead);
      for (const [name, needle] of needles) if (piece.includes(needle)) found.add(name);
      if (bytesRead < wanted) at += bytesRead + PAGE_BYTES;
      else at += wanted === PIECE_BYTES ? PIECE_BYTES - overlap : wanted;
    }
  }
  return [...found].toSorted();
}
