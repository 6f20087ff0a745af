import { E2bError } from './errors.ts';

/**
 * Where a request goes. Whoever judges it and whoever carries it out have it from here: two ways to take one target apart are a way to
 * have something else done than what was judged.
 */
export function targetOf({ url = '/' }: { readonly url?: string | undefined }): URL {
  if (!url.startsWith('/') || url.includes('#')) throw new E2bError(400, 'The target of the request is no path.');
  try {
    return new URL(`http://sandbox${url}`);
  } catch {
    throw new E2bError(400, 'The target of the request is no path.');
  }
}
