/**
 * That the simulation can fail: each mutant is one line of control or node made wrong, and some seed must see it. By hand, or
 * with `SPACE_FULL=1`; that the lines are still there is looked at always. The fence of the node by epochs is none of them: one
 * control that takes turns gives no order late enough for it, unless it dies at that moment; it has tests of its own.
 *
 *   node tests/simulation/mutants.ts [NAME]
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const ROOT = join(import.meta.dirname, '../..');
const MOST_SEEDS = 4_000;

export interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly line: string;
  readonly becomes: string;
  /** It is seen by schedules of moves. */
  readonly moves?: true;
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'the memory of a life that ended is not given back',
    file: 'packages/node/src/start-life.ts',
    line: '  machinery.budget.release(life.lifeId);\n}',
    becomes: '}',
  },
  {
    name: 'a sandbox is not recorded before its user code runs',
    file: 'packages/node/src/orders.ts',
    line: '    await write(state, vault, record);\n  } catch (error) {\n    await prepared.discard',
    becomes: '  } catch (error) {\n    await prepared.discard',
  },
  {
    name: 'VMs that no record names are left alone',
    file: 'packages/node/src/recover.ts',
    line: '      await endStray(vm, machinery);\n',
    becomes: '',
  },
  {
    name: 'a point of the disk that could not be committed stays staged',
    file: 'packages/node/src/capture.ts',
    line: '    await life.vault.abandon(snapshotId);\n    throw error;',
    becomes: '    throw error;',
  },
  {
    name: 'a VM is not let go on after a snapshot failed',
    file: 'packages/node/src/capture.ts',
    line: '    await life.goOn();\n  } finally {',
    becomes: '  } finally {',
  },
  {
    name: 'what lies in a vault that is closed is said to be gone',
    file: 'packages/node/src/vaults.ts',
    line: "  return new AppError('vault_closed', context,",
    becomes: "  return new AppError('not_found', context,",
  },
  {
    name: 'a vault is closed without waiting for what is under way',
    file: 'packages/node/src/vaults.ts',
    line: '    const isQuiet = await drained(held, () => endLives && this.#hooks.endUnready(name));',
    becomes: '    const isQuiet = true;',
  },
  {
    name: 'what is being closed is taken for closed when an operation ends',
    file: 'packages/control/src/vaults.ts',
    line: '      const isNews = this.#open?.has(name) === true || this.#opening.has(name);',
    becomes: '      const isNews = false;',
  },
  {
    name: 'orphans are left in flight',
    file: 'packages/control/src/reconcile.ts',
    line: 'if (operation === null || operationId === null || this.#owns(operationId)) return false;',
    becomes: 'return false;',
  },
  {
    name: 'a failed create leaves what it made',
    file: 'packages/control/src/conclude.ts',
    line: "    case 'create':\n      return concludeCreate(ports, begun);",
    becomes: "    case 'create':\n      return NOTHING;",
  },
  {
    name: 'a repeated call is carried out again',
    file: 'packages/control/src/idempotency.ts',
    line: "if (kind.retry !== 'never') return;",
    becomes: "if (kind.retry !== 'never') return records.calls.release(call);",
  },
  {
    name: 'a pause forgets where it is to go on',
    file: 'packages/control/src/effects.ts',
    line: 'return succeeded(undefined, { changes: { head: taking.id }, points: [completed(taking, point)] });',
    becomes: 'return succeeded(undefined, { points: [completed(taking, point)] });',
  },
  {
    name: 'a command that is repeated is another process',
    file: 'packages/control/src/guest-use-cases.ts',
    line: "if (callSeed === undefined) return newId('process', this.#machinery.ports.chance);",
    becomes: "if (callSeed !== '') return newId('process', this.#machinery.ports.chance);",
  },
  {
    name: 'what was done and not answered counts as failed',
    file: 'packages/control/src/driver.ts',
    line: 'const isDone = failure === null || conclusion.tookPlace === true;',
    becomes: 'const isDone = failure === null;',
  },
  {
    name: 'a sandbox that leaves is not fenced before it can be taken up',
    file: 'packages/node/src/moves.ts',
    line: '          await ledger.write(vault, sealed);\n',
    becomes: '',
    moves: true,
  },
  {
    name: 'whoever takes a sandbox up makes no claim',
    file: 'packages/node/src/moves.ts',
    line: '      await claimMove(archive, ref, order.claimant, signal);\n      await ledger.write(vault, record);',
    becomes: '      await ledger.write(vault, record);',
    moves: true,
  },
  {
    name: 'a move is undone without a claim',
    file: 'packages/node/src/moves.ts',
    line: '    await claimMove(archiveAt(options.archives, moved.location), refOf(moved.archive), claimant, signal);\n',
    becomes: '',
    moves: true,
  },
  {
    name: 'an export that failed takes back what it asked for',
    file: 'packages/control/src/archive-collector.ts',
    line: 'if ((await one.isNew) && !one.isLeft)',
    becomes: 'if (await one.isNew)',
    moves: true,
  },
  {
    name: 'archives are collected while one is being deleted',
    file: 'packages/control/src/archive-collector.ts',
    line: 'this.#mayCollect(keyOf(one)) && this.#backoff',
    becomes: 'this.#backoff',
    moves: true,
  },
];

export function sourceOf({ file }: Mutant): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

/** In a process of its own: modules are read once. Resolves with the seed that saw it, or null. */
export async function hunt({ name }: Mutant): Promise<number | null> {
  const child = spawn(process.execPath, [import.meta.filename, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (piece) => {
    text += String(piece);
  });
  await new Promise((resolve) => child.once('close', resolve));
  const seed = /^seed (\d+)/m.exec(text)?.[1];
  return seed === undefined ? null : Number(seed);
}

async function runOne(mutant: Mutant): Promise<void> {
  const url = pathToFileURL(join(ROOT, mutant.file)).href;
  registerHooks({
    load(at, context, next) {
      const loaded = next(at, context);
      if (at !== url) return loaded;
      return { ...loaded, source: String(loaded.source).replace(mutant.line, () => mutant.becomes) };
    },
  });
  const run = mutant.moves ? (await import('./moving.ts')).runMoves : (await import('./schedule.ts')).runSchedule;
  for (let seed = 1; seed <= MOST_SEEDS; seed++) {
    const { violation } = await run(seed);
    if (violation === null) continue;
    console.log(`seed ${seed}: ${violation.message.split('\n')[0]}`);
    return;
  }
  console.log(`no seed up to ${MOST_SEEDS} sees it`);
}

if (import.meta.filename === process.argv[1]) {
  const [name] = process.argv.slice(2);
  for (const mutant of MUTANTS) {
    if (name === mutant.name) await runOne(mutant);
    if (name === undefined) console.log(`${mutant.name}: ${(await hunt(mutant)) ?? 'not seen'}`);
  }
}
