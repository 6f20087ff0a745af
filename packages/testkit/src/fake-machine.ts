/** The state of a fake VM's guest: what a real guest holds in RAM. Plain JSON, since it is written to the memory file. */
export interface MachineState {
  frozen: boolean;
  identity: { sandboxId: string; generation: number; hostname: string; machineId: string } | null;
  /** Variables in the memory of the guest's one long-running program. */
  variables: Record<string, string>;
  /** Commands that have ended, oldest first: what each printed, in base64, and its exit code. */
  ended: Record<string, { readonly stdout: string; readonly code: number }>;
}

export function emptyMachine(): MachineState {
  return { frozen: false, identity: null, variables: {}, ended: {} };
}
