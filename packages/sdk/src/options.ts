/** Options are taken in whole, or refused: what is misspelt would else be passed over, and its default be taken for it. */
import { misused } from './errors.ts';

/** What is left of options once all that is known was taken out. That it must be nothing, the types say as well. */
export function refuseUnknown(rest: Readonly<Record<PropertyKey, never>>): void {
  const names = Object.keys(rest);
  if (names.length === 0) return;
  const shown = names.map((name) => JSON.stringify(name)).join(', ');
  throw misused(`There is no option ${shown} here.`, 'Check its spelling, or leave it out.');
}
