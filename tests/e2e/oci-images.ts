/** Images of containers for tests: archives of the OCI layout, whole or broken in one way. */
import { createHash } from 'node:crypto';

export interface TarEntry {
  readonly name: string;
  readonly content?: string | Buffer;
  /** Of tar: 0 file, 1 hard link, 2 symbolic link, 3 character device, 5 directory. */
  readonly type?: '0' | '1' | '2' | '3' | '5';
  readonly link?: string;
  readonly mode?: number;
}

/** Names are taken as they are, also those that no honest archive has. */
export function tarOf(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(blocksOf), Buffer.alloc(1024)]);
}

function blocksOf({ name, content = '', type = '0', link = '', mode = 0o755 }: TarEntry): Buffer[] {
  const bytes = Buffer.from(content as string);
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, digits: number) =>
    header.write(value.toString(8).padStart(digits, '0'), at, 'latin1');
  header.write(name, 0);
  octal(mode, 100, 7);
  for (const at of [108, 116]) octal(0, at, 7);
  octal(bytes.length, 124, 11);
  octal(0, 136, 11);
  header.write(`        ${type}${link}`, 148);
  header.write('ustar\x0000', 257, 'latin1');
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  header.write('\0 ', 154, 'latin1');
  return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
}

export interface ImageOptions {
  readonly layers: readonly Buffer[];
  readonly architecture: string;
  readonly config: object;
  readonly isEncrypted: boolean;
  /** What is in the archive under the name of the last layer. */
  readonly lastLayer: 'right' | 'other' | 'missing';
}

export function ociArchive(options: Partial<ImageOptions>): Buffer {
  const { layers = [], architecture = 'amd64', config = {}, isEncrypted = false, lastLayer = 'right' } = options;
  const kind = `application/vnd.oci.image.layer.v1.tar${isEncrypted ? '+encrypted' : ''}`;
  const image = {
    architecture,
    os: 'linux',
    config,
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => digestOf(layer)) },
    history: layers.map(() => ({ created_by: 'a test' })),
  };
  const described = jsonOf(image);
  const manifest = jsonOf({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: descriptorOf('application/vnd.oci.image.config.v1+json', described),
    layers: layers.map((layer) => descriptorOf(kind, layer)),
  });
  const index = { schemaVersion: 2, manifests: [descriptorOf('application/vnd.oci.image.manifest.v1+json', manifest)] };
  const last = layers.at(-1);
  const kept = layers.map((layer) => ({ layer, content: layer === last ? brokenOf(layer, lastLayer) : layer }));
  return tarOf([
    { name: 'oci-layout', content: jsonOf({ imageLayoutVersion: '1.0.0' }) },
    { name: 'index.json', content: jsonOf(index) },
    ...[described, manifest].map((content) => ({ name: blobName(content), content })),
    ...kept.flatMap(({ layer, content }) => (content === null ? [] : [{ name: blobName(layer), content }])),
  ]);
}

function brokenOf(layer: Buffer, how: ImageOptions['lastLayer']): Buffer | null {
  if (how === 'missing') return null;
  return how === 'right' ? layer : Buffer.concat([layer.subarray(0, -1), Buffer.from([1])]);
}

function jsonOf(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function digestOf(content: Buffer): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}

function blobName(content: Buffer): string {
  return `blobs/${digestOf(content).replace(':', '/')}`;
}

function descriptorOf(mediaType: string, content: Buffer) {
  return { mediaType, digest: digestOf(content), size: content.length };
}
