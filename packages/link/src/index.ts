/**
 * Calls between processes of the platform, over unix sockets: ports of the core whose other side is another process.
 *
 * ```
 *   control ── NodePort ── connectNode ═══ a line per call ═══ serveNode ── NodePort ── node
 * ```
 *
 * - A line is one connection and carries one call, so a call ends when either process does, and no call waits for another.
 * - Memory is bounded at each hop: a side reads a frame when it has a use for it, and writes when there is room.
 * - Bodies and output travel as bytes; nothing here looks into them.
 * - Errors arrive as they were thrown (code, detail, facts), with the text of their causes.
 */
export { CARRIER_OPTIONS } from './carrier-options.ts';
export { connectEgress, serveEgress } from './egress-link.ts';
export { connectGateway, serveGateway } from './gateway-link.ts';
export { NODE_CALLS, type NodeCall } from './node-calls.ts';
export { connectNode, type RemoteNode } from './remote-node.ts';
export type { Service } from './serve.ts';
export { serveNode } from './serve-node.ts';
