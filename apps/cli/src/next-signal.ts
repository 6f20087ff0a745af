/** For verbs that go on until they are ended. */
import { constants } from 'node:os';
import type { Io } from './context.ts';
import { EXIT } from './errors.ts';

export const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
export type Ending = (typeof ENDING)[number];

/** Resolves to the exit code that the next signal to end means. A second one ends this process by itself. */
export function nextSignal(signals: Io['signals']): Promise<number> {
  return new Promise((resolve) => {
    const listeners = ENDING.map((name) => ({ name, listener: () => end(name) }));
    const end = (name: Ending) => {
      for (const each of listeners) signals.off(each.name, each.listener);
      resolve(EXIT.signal + constants.signals[name]);
    };
    for (const { name, listener } of listeners) signals.on(name, listener);
  });
}
