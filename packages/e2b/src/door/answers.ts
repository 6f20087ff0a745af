/** What the SDKs look for in the answers to requests that do not reach into a sandbox. */

export function notFound(sandboxId: string) {
  return { sandboxId, message: 'The sandbox was not found', code: 502 };
}

export function noPort(sandboxId: string, port: number) {
  return { sandboxId, message: 'The sandbox is running but port is not open', port, code: 502 };
}
