import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { portHolder } from './port-holder.ts';

it.each(['127.0.0.1', '::1'])('a listener on %s is told by its process, and a free port has none', async (host) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  expect(await portHolder(port)).toMatch(new RegExp(`^process ${process.pid} \\(.+\\)$`));
  await new Promise((resolve) => server.close(resolve));
  expect(await portHolder(port)).toBeNull();
});
