/** What the host sees of a sandbox: what it takes, and what its kernel says. */
import { z } from 'zod';
import { timestamp } from './fields.ts';

const byteCount = z.number().int().min(0);

const percent = z.number().min(0).meta({
  description: 'Processor time of the microVM since the sample before, in percent of one processor.',
});

const sampleShape = {
  at: timestamp,
  cpuPercent: percent,
  memoryBytes: byteCount.meta({
    description: 'Memory of the guest that lies in the memory of the host. What copies share counts in each.',
  }),
  diskBytes: byteCount.meta({
    description: 'Allocated to its disk. What it shares with snapshots and copies counts in each.',
  }),
};

export const sandboxMetrics = z
  .strictObject({
    now: z
      .strictObject({ ...sampleShape, cpuPercent: percent.nullable() })
      .nullable()
      .meta({ description: 'Null while it does not run. `cpuPercent` is null until there was a sample of this run.' }),
    history: z.array(z.strictObject(sampleShape)).meta({
      description:
        'Every 10 s while it runs, oldest first, for the last 360 samples; lost when the server is restarted.',
    }),
  })
  .meta({ id: 'SandboxMetrics' });

export const sandboxConsole = z
  .strictObject({
    text: z
      .string()
      .nullable()
      .meta({ description: 'Null while it does not run. Control characters are as they came.' }),
  })
  .meta({ id: 'SandboxConsole' });
