/**
 * What this face keeps with a process: its tag, and the variables that it was started with, which a list shows. It lies in the
 * sandbox, with the process, and comes back as the sandbox likes.
 */
import { Code, ConnectError } from '@connectrpc/connect';
import { MAX_LABEL_BYTES } from '@space/core';
import { z } from 'zod';
import type { StartRequest } from '../../gen/process_pb.ts';

const MAX_TAG_BYTES = 256;

const label = z.object({ tag: z.string().optional(), envs: z.record(z.string(), z.string()).optional() });
type Label = z.infer<typeof label>;

/** Variables that do not fit are left out of lists; the process has them all the same. */
export function labelFor({ tag, process }: StartRequest): string {
  if (tag !== undefined && (tag === '' || Buffer.byteLength(tag) > MAX_TAG_BYTES)) {
    throw new ConnectError(`a tag has 1 to ${MAX_TAG_BYTES} bytes`, Code.InvalidArgument);
  }
  const whole = JSON.stringify({ tag, envs: process?.envs });
  return Buffer.byteLength(whole) <= MAX_LABEL_BYTES ? whole : JSON.stringify({ tag });
}

/** Of a process that another face has started, or one in an earlier agent: nothing. */
export function labelIn(text: string): Label {
  try {
    return label.parse(JSON.parse(text));
  } catch {
    return {};
  }
}
