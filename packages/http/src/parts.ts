/** What other faces are made of, too: bodies and streams with their limits, forwarding into ports, and errors. */
export { type Credentials, projectIn } from './auth.ts';
export { readBody } from './body.ts';
export type { Face, Lent, MakeFace } from './face.ts';
export { FailedAttempts } from './failed-attempts.ts';
export { parsePart, parseQuery, readJson } from './input.ts';
export { UPLOAD_IDLE_MS } from './limits.ts';
export { ClientGone, itemsOf, type Opened, open, write } from './outgoing.ts';
export { type Forwarded, forward, forwardUpgrade } from './ports/forward.ts';
export { isEncrypted } from './ports/ports-face.ts';
export { problemHeaders, translate } from './problems.ts';
export { type Part, parseRange, partOf } from './range.ts';
