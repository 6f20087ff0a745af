/** Calls that go through a running life to its agent. An error of the channel is explained by what became of the VM. */
import type { Guest, NodeFiles, NodePort, PortConnection, SandboxId } from '@space/core';
import { execute } from './execute.ts';
import type { Life } from './life.ts';

type ProcessCalls = 'exec' | 'attach' | 'writeInput' | 'resizeTerminal' | 'signalProcess' | 'processes' | 'openPort';
type GuestCalls = Pick<NodePort, ProcessCalls> & NodeFiles;

export function guestCalls(lifeOf: (sandboxId: SandboxId) => Life): GuestCalls {
  async function call<T>(of: SandboxId | Life, action: (guest: Guest) => Promise<T>): Promise<T> {
    const life = typeof of === 'string' ? lifeOf(of) : of;
    try {
      return await action(await life.guest());
    } catch (error) {
      throw await life.explain(error);
    }
  }

  async function* stream<T>(sandboxId: SandboxId, open: (guest: Guest) => AsyncIterable<T>): AsyncIterable<T> {
    const life = lifeOf(sandboxId);
    try {
      yield* open(await life.guest());
    } catch (error) {
      throw await life.explain(error);
    }
  }

  async function* explained<T>(life: Life, body: AsyncIterable<T>): AsyncIterable<T> {
    try {
      yield* body;
    } catch (error) {
      throw await life.explain(error);
    }
  }

  async function openPort(sandboxId: SandboxId, port: number, signal?: AbortSignal): Promise<PortConnection> {
    const life = lifeOf(sandboxId);
    try {
      const connection = await (await life.guest()).openPort(port, signal);
      return {
        output: explained(life, connection.output),
        write: (bytes) => connection.write(bytes).catch(async (error) => Promise.reject(await life.explain(error))),
        end: () => connection.end(),
        reset: () => connection.reset(),
        closed: connection.closed,
      };
    } catch (error) {
      throw await life.explain(error);
    }
  }

  return {
    openPort,
    exec: (sandboxId, command, signal) => stream(sandboxId, (guest) => execute(guest, command, signal)),
    attach: (sandboxId, at, signal) => stream(sandboxId, (guest) => guest.attach(at, signal)),
    writeInput: (sandboxId, input) => call(sandboxId, (guest) => guest.writeInput(input)),
    resizeTerminal: (sandboxId, processId, size) => call(sandboxId, (guest) => guest.resizeTerminal(processId, size)),
    signalProcess: (sandboxId, processId, signal, target) =>
      call(sandboxId, (guest) => guest.signalProcess(processId, signal, target)),
    processes: (sandboxId, options) => call(sandboxId, (guest) => guest.processes(options)),
    async readFile(sandboxId, file, signal) {
      const life = lifeOf(sandboxId);
      const { status, body } = await call(life, (guest) => guest.readFile(file, signal));
      return { status, body: explained(life, body) };
    },
    writeFile: (sandboxId, file, body, signal) => call(sandboxId, (guest) => guest.writeFile(file, body, signal)),
    stat: (sandboxId, file) => call(sandboxId, (guest) => guest.stat(file)),
    list: (sandboxId, directory) => stream(sandboxId, (guest) => guest.list(directory)),
    makeDirectory: (sandboxId, directory) => call(sandboxId, (guest) => guest.makeDirectory(directory)),
    moveFile: (sandboxId, move) => call(sandboxId, (guest) => guest.moveFile(move)),
    removeFile: (sandboxId, file, signal) => call(sandboxId, (guest) => guest.removeFile(file, signal)),
    setAttributes: (sandboxId, attributes) => call(sandboxId, (guest) => guest.setAttributes(attributes)),
    makeSymlink: (sandboxId, link) => call(sandboxId, (guest) => guest.makeSymlink(link)),
    xattrs: (sandboxId, file) => call(sandboxId, (guest) => guest.xattrs(file)),
    xattr: (sandboxId, attribute) => call(sandboxId, (guest) => guest.xattr(attribute)),
    setXattr: (sandboxId, attribute, value) => call(sandboxId, (guest) => guest.setXattr(attribute, value)),
    removeXattr: (sandboxId, attribute) => call(sandboxId, (guest) => guest.removeXattr(attribute)),
    watch: (sandboxId, directory, signal) => stream(sandboxId, (guest) => guest.watch(directory, signal)),
  };
}
