/** Guests of a few machine instructions, as an initramfs: for what no well-behaved guest does. */

const LOAD_ADDRESS = 0x400000n;
const HEADER_BYTES = 120;

/** Prints the text for ever, as fast as it can. */
export function floodingGuest(text: string): Buffer {
  const message = Buffer.from(text);
  const code = Buffer.from([
    ...[0xb8, 1, 0, 0, 0], // mov eax, write
    ...[0xbf, 1, 0, 0, 0], // mov edi, stdout
    ...[0x48, 0x8d, 0x35, 9, 0, 0, 0], // lea rsi, [message]
    ...[0xba, message.length, 0, 0, 0], // mov edx, length
    ...[0x0f, 0x05, 0xeb, 0xe6], // syscall; jmp to the start
  ]);
  return initramfs(Buffer.concat([code, message]));
}

/** Its PID 1 exits at once: the kernel panics. */
export function panickingGuest(): Buffer {
  // mov eax, exit; mov edi, 3; syscall
  return initramfs(Buffer.from([0xb8, 60, 0, 0, 0, 0xbf, 3, 0, 0, 0, 0x0f, 0x05]));
}

function initramfs(code: Buffer): Buffer {
  return Buffer.concat([cpioEntry('init', 0o100755, elf(code)), cpioEntry('TRAILER!!!', 0, Buffer.alloc(0))]);
}

/** One loadable segment: header and code. */
function elf(code: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write('\x7fELF\x02\x01\x01', 'latin1');
  header.writeUInt16LE(2, 16); // executable
  header.writeUInt16LE(62, 18); // x86-64
  header.writeUInt32LE(1, 20);
  header.writeBigUInt64LE(LOAD_ADDRESS + BigInt(HEADER_BYTES), 24); // entry
  header.writeBigUInt64LE(64n, 32); // program headers
  header.writeUInt16LE(64, 52);
  header.writeUInt16LE(56, 54);
  header.writeUInt16LE(1, 56);
  header.writeUInt32LE(1, 64); // load
  header.writeUInt32LE(5, 68); // read, execute
  header.writeBigUInt64LE(LOAD_ADDRESS, 80);
  header.writeBigUInt64LE(LOAD_ADDRESS, 88);
  header.writeBigUInt64LE(BigInt(HEADER_BYTES + code.length), 96);
  header.writeBigUInt64LE(BigInt(HEADER_BYTES + code.length), 104);
  header.writeBigUInt64LE(4096n, 112);
  return Buffer.concat([header, code]);
}

/** The "newc" form: a header of hexadecimal fields, name and content each padded to four bytes. */
function cpioEntry(name: string, mode: number, content: Buffer): Buffer {
  const fields = [1, mode, 0, 0, 1, 0, content.length, 0, 0, 0, 0, name.length + 1, 0];
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}${name}\0`;
  return Buffer.concat([padded(Buffer.from(header)), padded(content)]);
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
}
