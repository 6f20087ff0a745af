import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { checkAddress } from './listen.ts';

async function takenAddress() {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void holder.close());
  const { port } = holder.address() as AddressInfo;
  return { holder, address: { host: '127.0.0.1', port } };
}

it('waits for an address that the processes of a killed platform are about to leave', async () => {
  const { holder, address } = await takenAddress();
  const checked = checkAddress(address, 10_000);
  await sleep(150);
  holder.close();
  expect(await checked).toEqual(address);
});

it('says who has an address that stays taken', async () => {
  const { address } = await takenAddress();
  await expect(checkAddress(address, 200)).rejects.toThrow(`is in use by process ${process.pid} (`);
});
