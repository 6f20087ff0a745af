/** A reviewer that is a program: it looks at what each held request would send, and lets small payments leave. */
import { approve, createKey, deny, events, getApproval, latestEvent, Sandbox } from '@space/sdk';
import { createTestPlatform } from '@space/testing';

await using platform = await createTestPlatform();
const { connection } = platform;
const network = { ask: [{ host: 'api.pay.example', access: 'write' }] } as const;
const sandbox = await Sandbox.create({ ...connection, network });

// A role of its own: neither an admin's key nor that of the agent's program decides.
const { secretKey } = await createKey({ ...connection, roles: ['reviewer'] });
const reviewer = { ...connection, apiKey: secretKey ?? '' };
const after = await latestEvent(reviewer);

async function review(count: number): Promise<void> {
  for await (const { kind, approvalId } of events({ ...reviewer, after })) {
    if (kind !== 'approval.requested' || approvalId === undefined) continue;
    const { request, body } = await getApproval(approvalId, reviewer);
    console.log('asked for:', request.method, request.host + request.url, body.text);
    const isSmall = body.isWhole && JSON.parse(body.text ?? '{}').cents <= 1000;
    if (isSmall) await approve(approvalId, reviewer);
    else await deny(approvalId, { ...reviewer, reason: 'Not more than 10 a time.' });
    if (--count === 0) return;
  }
}

/** What a program in the sandbox does with curl, which waits for the answer. */
async function pay(cents: number): Promise<void> {
  const body = JSON.stringify({ cents });
  const end = await platform.holdRequest(sandbox.id, { method: 'POST', url: 'https://api.pay.example/charge', body });
  console.log('it was', end === 'let_go' ? 'sent' : 'not sent');
}

const reviewing = review(2);
await pay(900);
await pay(90_000);
await reviewing;
