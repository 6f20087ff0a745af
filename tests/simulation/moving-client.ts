/** Clients of one of two installations, which bring sandboxes into archives that both can read, and take them from there. */
import type { Caller } from '@space/contract';
import type { Control } from '@space/control';
import type { SnapshotId } from '@space/core';
import { Client, type History, type Known, type Told } from './client.ts';
import { FAR, type World } from './world.ts';

/** What clients were told of, and tell each other. */
export class Book {
  readonly moves: { readonly known: Known; readonly archive: string }[] = [];
  /** What each holds; null: not known. */
  readonly copies: { readonly archive: string; readonly value: string | null }[] = [];
}

export class MovingClient extends Client {
  readonly #book: Book;

  constructor(history: History, name: string, world: World, book: Book) {
    super(history, name, world);
    this.#book = book;
  }

  /** It leaves for whoever takes the archive up. What its caller gives up may come to its end all the same. */
  async leave(known: Known, options: { readonly timeline?: boolean; readonly patienceMs?: number } = {}) {
    const { timeline = true, patienceMs } = options;
    return this.does(known, 'leave', { kind: 'leave', value: null, patienceMs }, async (control, caller) => {
      const { archive } = await control.moveSandbox(caller, { id: known.reference, location: FAR, timeline });
      this.#book.moves.push({ known, archive });
      return { text: `leaves by ${shortOf(archive)}` };
    });
  }

  async arrive(known: Known, archive: string): Promise<Told<unknown>> {
    const text = `arrive by ${shortOf(archive)}`;
    return this.does(known, text, { kind: 'arrive', value: null }, async (control, caller) => {
      await control.importSandbox(caller, { archive, location: FAR, as: 'move', boot: false });
      return {};
    });
  }

  async undo(known: Known): Promise<Told<unknown>> {
    return this.does(known, 'undo', { kind: 'undo', value: null }, async (control, caller) => {
      await control.undoMove(caller, { id: known.reference });
      return {};
    });
  }

  /** A copy of it goes into an archive. */
  async export(known: Known, options: { readonly timeline: boolean; readonly patienceMs?: number }) {
    const { timeline, patienceMs } = options;
    return this.does(known, 'export', { kind: 'take', value: null, patienceMs }, async (control, caller) => {
      const input = { id: known.reference, location: FAR, timeline };
      const { archive, snapshots } = await control.exportSandbox(caller, input);
      const value = this.contentOf(snapshots.at(-1) as SnapshotId);
      this.#book.copies.push({ archive, value });
      return { value, text: `exported to ${shortOf(archive)}` };
    });
  }

  /** Another sandbox from an archive. */
  async import({ archive, value }: Book['copies'][number]): Promise<void> {
    const known = this.history.add(this.newName(), null);
    await this.does(known, `import ${shortOf(archive)}`, { kind: 'create', value }, async (control, caller) => {
      const name = known.reference;
      const { id } = await control.importSandbox(caller, { archive, location: FAR, as: 'copy', boot: false, name });
      known.id = id;
      return {};
    });
  }

  /** All that were brought there. */
  async removeArchives(): Promise<void> {
    const found: string[] = [];
    await this.#surely('list archives', async (control, caller) => {
      for (const { archive } of (await control.listArchives(caller, { location: FAR })).archives) found.push(archive);
    });
    for (const archive of found) {
      await this.#surely(`delete ${shortOf(archive)}`, (control, caller) =>
        control.deleteArchive(caller, { archive, location: FAR }),
      );
    }
  }

  async #surely(text: string, work: (control: Control, caller: Caller) => Promise<void>): Promise<void> {
    const nobody: Known = { reference: 'archives', id: null, happenings: [], points: [] };
    const told = await this.does(nobody, text, { kind: 'exists', value: null }, async (control, caller) => {
      await work(control, caller);
      return {};
    });
    if (told.kind !== 'ok') throw new Error(`archives: ${nobody.happenings[0]?.text}`);
  }
}

function shortOf(archive: string): string {
  return archive.slice(-6);
}
