/** Lists that come in pages. */
import type { Query, Transport } from './transport.ts';

/** The pages of a list, fetched as they are asked for. */
export async function* pagesOf<P extends { readonly nextCursor: string | null }>(
  transport: Transport,
  path: string,
  query: Query,
  signal: AbortSignal | undefined,
): AsyncGenerator<P> {
  let cursor: string | undefined;
  do {
    const page = await transport.json<P>({ method: 'GET', path, query: { ...query, cursor }, signal });
    yield page;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

/** All items of a list. */
export async function itemsOf<P extends { readonly nextCursor: string | null }, I>(
  pages: AsyncIterable<P>,
  pick: (page: P) => readonly I[],
): Promise<I[]> {
  const items: I[] = [];
  for await (const page of pages) items.push(...pick(page));
  return items;
}
