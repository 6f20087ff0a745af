const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Of a server that is told of secrets: throws when it would be asked in clear text over a network. */
export function checkedUrl(text: string): URL {
  const url = new URL(text);
  if (url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.includes(url.hostname))) return url;
  throw new Error(`"${url.origin}" is asked in clear text, which is done on this machine only`);
}
