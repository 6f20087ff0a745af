/** Calls of JSON-RPC, and of MCP, which is JSON-RPC whose `tools/call` names a tool. */

import { asObject, hasOnly } from './plain-json.ts';
import { CALL_NAME, type Call } from './spoken.ts';

const MAX_CALLS = 100;
const MESSAGE = ['jsonrpc', 'id', 'method', 'params'] as const;
const ANSWER = ['jsonrpc', 'id', 'result', 'error'] as const;
const TOOL_CALL = ['name', 'arguments', '_meta', 'task'] as const;

export const TOOLS_CALL = 'tools/call';
/** What an MCP client says when it answers its server: with something, or with nothing but that it is there. */
const ANSWERED = 'answer';
const ANSWERED_NOTHING = 'empty answer';

/** Of MCP. What is not here, a call of a tool above all, is a write. */
export const MCP_READS: readonly string[] = [
  'initialize',
  'ping',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
  ANSWERED_NOTHING,
];

/** Null: they cannot be told. One message, or a batch. */
export function callsOfJsonRpc(body: unknown): readonly Call[] | null {
  return callsOf(body, (message) => callOf(message));
}

export function callsOfMcp(body: unknown): readonly Call[] | null {
  return callsOf(body, (message) => answerOf(message) ?? toolCallOf(message));
}

function callsOf(
  body: unknown,
  read: (message: Readonly<Record<string, unknown>>) => Call | null,
): readonly Call[] | null {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (messages.length === 0 || messages.length > MAX_CALLS) return null;
  const calls: Call[] = [];
  for (const one of messages) {
    const message = asObject(one);
    const call = message === null ? null : read(message);
    if (call === null) return null;
    calls.push(call);
  }
  return calls;
}

function callOf(message: Readonly<Record<string, unknown>>): Call | null {
  const { method } = message;
  if (!hasOnly(message, MESSAGE) || typeof method !== 'string' || !CALL_NAME.test(method)) return null;
  return { method };
}

function toolCallOf(message: Readonly<Record<string, unknown>>): Call | null {
  const call = message['jsonrpc'] === '2.0' ? callOf(message) : null;
  if (call?.method !== TOOLS_CALL) return call;
  const params = asObject(message['params']);
  const tool = params?.['name'];
  if (params === null || !hasOnly(params, TOOL_CALL) || typeof tool !== 'string' || !CALL_NAME.test(tool)) return null;
  return { method: TOOLS_CALL, tool };
}

function answerOf(message: Readonly<Record<string, unknown>>): Call | null {
  if ('method' in message || message['jsonrpc'] !== '2.0' || !hasOnly(message, ANSWER)) return null;
  const result = asObject(message['result']);
  const isEmpty = result !== null && Object.keys(result).length === 0 && !('error' in message);
  return { method: isEmpty ? ANSWERED_NOTHING : ANSWERED };
}
