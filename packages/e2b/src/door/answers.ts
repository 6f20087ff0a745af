/** What the SDKs look for in the answers to requests that do not reach into a sandbox. */

export function notFound(sandboxId: string) {
  return { sandboxId, message: 'The sandbox was not found', code: 502 };
}

export function noPort(sandboxId: string, port: number) {
  return { sandboxId, message: 'The sandbox is running but port is not open', port, code: 502 };
}

/** For who looks at it in a browser. */
export function pageOf(status: number, message: string): string {
  const text = message.replaceAll(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${status}</title><p>${text}</p></html>`;
}
