/**
 * The guest port over gRPC: HTTP/2 on the link, on the two byte streams that the runtime gives to the agent of a VM.
 *
 *     connectGuest ─► Channel (control, traffic) ─► HTTP/2 ─► Link ─► Vm.connect
 *
 * What comes from the guest is hostile: lengths, numbers, kinds and texts are checked where they enter, and what breaks
 * the contract becomes a typed error.
 */
export { type ConnectOptions, type ConnectPort, connectGuest } from './connect.ts';
export { DEFAULT_LIMITS, type Limits } from './limits.ts';
