/** A problem where people look at previews: as a page for a browser, as problem details for everything else. */
import type { ServerResponse } from 'node:http';
import type { Problem } from '@space/contract';

export function sendPreviewProblem(response: ServerResponse, problem: Problem, accept: string | undefined): void {
  const asPage = accept?.includes('text/html') === true;
  const body = Buffer.from(asPage ? page(problem) : JSON.stringify(problem));
  response.writeHead(problem.status, {
    'content-type': asPage ? 'text/html; charset=utf-8' : 'application/problem+json',
    'content-length': body.length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    connection: 'close',
  });
  response.end(body);
}

function page({ title, detail, nextStep, status, requestId }: Problem): string {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(title)}</title>
<body style="font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 1em">
<h1 style="font-size:1.3em">${escaped(title)}</h1><p>${escaped(detail)}</p><p>${escaped(nextStep)}</p>
<p style="color:#777">${status} · ${escaped(requestId)}</p></body></html>`;
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
