import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Command,
  decide,
  type LifecycleEvent,
  type LifecycleState,
  OPERATIONS,
  type Operation,
  react,
  SETTLED_STATES,
  statusOf,
} from './lifecycle.ts';

const COMMANDS: readonly Command[] = [...OPERATIONS, 'use'];
const REALS = ['running', 'out_of_space', 'paused', 'crashed', 'moved', 'absent'] as const;
const AT_BIRTH: LifecycleState = { settled: 'absent', operation: 'create' };

const anyCommand = fc.constantFrom(...COMMANDS);
const anyEnd = fc.record({ ok: fc.boolean(), real: fc.constantFrom(...REALS) });
/** What can befall a sandbox: a command, the end of what is in flight, an end of what is not, the end of its VM. */
const anyStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('command' as const), command: anyCommand }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('end' as const), end: anyEnd }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('stale_end' as const),
      operation: fc.constantFrom(...OPERATIONS),
      end: anyEnd,
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'life_ended' as const }) },
);
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never;

function ended(operation: Operation, end: { ok: boolean; real: (typeof REALS)[number] }): LifecycleEvent {
  return { kind: 'ended', operation, ...end };
}

/** The table as the driver uses it. */
function apply(state: LifecycleState, step: Step): LifecycleState {
  switch (step.kind) {
    case 'command': {
      const decision = decide(state, step.command);
      return decision.kind === 'start' ? { ...state, operation: decision.operation } : state;
    }
    case 'end':
      return state.operation === null ? state : react(state, ended(state.operation, step.end));
    case 'stale_end':
      return step.operation === state.operation ? state : react(state, ended(step.operation, step.end));
    case 'life_ended':
      return react(state, { kind: 'life_ended' });
  }
}

/** Every state that any sequence of steps leads to, found by breadth-first search: the table is small enough. */
function reachable(): LifecycleState[] {
  const seen = new Map<string, LifecycleState>([[JSON.stringify(AT_BIRTH), AT_BIRTH]]);
  const ends = REALS.flatMap((real) => [true, false].map((ok) => ({ ok, real })));
  const steps: Step[] = [
    ...COMMANDS.map((command): Step => ({ kind: 'command', command })),
    ...ends.map((end): Step => ({ kind: 'end', end })),
    ...OPERATIONS.flatMap((operation) => ends.map((end): Step => ({ kind: 'stale_end', operation, end }))),
    { kind: 'life_ended' },
  ];
  for (const state of seen.values()) {
    for (const step of steps) {
      const next = apply(state, step);
      seen.set(JSON.stringify(next), next);
    }
  }
  return [...seen.values()];
}

describe('the lifecycle table', () => {
  const states = reachable();

  it('decides every command in every state that can be written down', () => {
    for (const settled of SETTLED_STATES) {
      for (const operation of [...OPERATIONS, null]) {
        for (const command of COMMANDS) {
          const decision = decide({ settled, operation }, command);
          expect(['start', 'join', 'wait', 'done', 'refuse']).toContain(decision.kind);
        }
      }
    }
  });

  it('never has two operations in flight: only delete begins over another', () => {
    for (const state of states) {
      for (const command of COMMANDS) {
        const decision = decide(state, command);
        if (decision.kind === 'start' && state.operation !== null) expect(decision.operation).toBe('delete');
      }
    }
  });

  it('accepts delete everywhere, and lets nothing start after it', () => {
    for (const state of states) {
      expect(['start', 'join', 'done']).toContain(decide(state, 'delete').kind);
      if (state.operation !== 'delete' && state.settled !== 'deleted') continue;
      for (const command of COMMANDS) {
        if (command === 'delete') continue;
        expect(decide(state, command)).toMatchObject({ kind: 'refuse', code: 'not_found' });
      }
    }
  });

  it('never revives what is deleted', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 40 }), (steps) => {
        const dead: LifecycleState = { settled: 'deleted', operation: null };
        expect(steps.reduce(apply, dead)).toEqual(dead);
      }),
    );
  });

  it('is at rest, and never absent, once what is in flight has ended in whatever way', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 40 }), anyEnd, (steps, end) => {
        const ended = apply(steps.reduce(apply, AT_BIRTH), { kind: 'end', end });
        // A delete is tried until it succeeds.
        const atRest = ended.operation === 'delete' ? apply(ended, { kind: 'end', end: { ...end, ok: true } }) : ended;
        expect(atRest.operation).toBeNull();
        expect(atRest.settled).not.toBe('absent');
        expect(statusOf(atRest)).not.toMatch(/ing$(?<!running)/);
      }),
    );
  });

  it('has an exit from every state at rest: running, then deleted, can be reached from it', () => {
    for (const state of states) {
      if (state.operation !== null || state.settled === 'deleted') continue;
      // One that was moved comes back first.
      const isMoved = state.settled === 'moved';
      if (isMoved) expect(decide(state, 'arrive')).toEqual({ kind: 'start', operation: 'arrive' });
      const resumed = decide(isMoved ? { settled: 'paused', operation: null } : state, 'resume');
      if (resumed.kind !== 'done') expect(resumed).toEqual({ kind: 'start', operation: 'resume' });
      expect(decide(state, 'delete')).toEqual({ kind: 'start', operation: 'delete' });
    }
  });

  it('waits or joins only while something is in flight', () => {
    for (const state of states) {
      for (const command of COMMANDS) {
        const { kind } = decide(state, command);
        if (kind === 'wait' || kind === 'join') expect(state.operation).not.toBeNull();
        if (kind === 'join' && command !== 'use') expect(command).toBe(state.operation);
      }
    }
  });

  it('lets an exec join the start that it needs, and run beside a snapshot or a fork', () => {
    for (const operation of ['create', 'resume'] as const) {
      expect(decide({ settled: 'paused', operation }, 'use')).toEqual({ kind: 'join' });
    }
    for (const operation of ['snapshot', 'fork'] as const) {
      expect(decide({ settled: 'running', operation }, 'use')).toEqual({ kind: 'done' });
      expect(decide({ settled: 'crashed', operation }, 'use')).toEqual({ kind: 'wait' });
    }
  });

  it('never starts a crashed sandbox by mere use', () => {
    expect(decide({ settled: 'crashed', operation: null }, 'use')).toMatchObject({ kind: 'refuse', code: 'vm_lost' });
  });

  it('lets what is out of space go on by a resume, be rewound or deleted, and refuses the rest by name', () => {
    const halted: LifecycleState = { settled: 'out_of_space', operation: null };
    for (const command of ['resume', 'rewind', 'delete'] as const) expect(decide(halted, command).kind).toBe('start');
    for (const command of ['use', 'pause', 'snapshot', 'fork'] as const) {
      expect(decide(halted, command)).toMatchObject({ kind: 'refuse', code: 'out_of_space' });
    }
    expect(statusOf(halted)).toBe('out_of_space');
  });

  it('moves what is paused, lets it run nowhere then, and have it back by an arrival alone', () => {
    const left = react({ settled: 'paused', operation: 'move' }, ended('move', { ok: true, real: 'moved' }));
    expect(left).toEqual({ settled: 'moved', operation: null });
    expect(statusOf(left)).toBe('moved');
    for (const command of ['use', 'resume', 'pause', 'rewind', 'snapshot', 'fork', 'create'] as const) {
      expect(decide(left, command)).toMatchObject({ kind: 'refuse', code: 'wrong_state' });
    }
    const coming: LifecycleState = { ...left, operation: 'arrive' };
    expect(react(coming, ended('arrive', { ok: true, real: 'paused' })).settled).toBe('paused');
    for (const real of ['moved', 'absent'] as const) {
      expect(react(coming, ended('arrive', { ok: false, real }))).toEqual(left);
    }
    const strange: LifecycleState = { settled: 'absent', operation: 'arrive' };
    expect(react(strange, ended('arrive', { ok: true, real: 'paused' })).settled).toBe('paused');
    expect(react(strange, ended('arrive', { ok: false, real: 'absent' })).settled).toBe('deleted');
  });

  it('ignores the end of an operation that is not in flight', () => {
    fc.assert(
      fc.property(fc.constantFrom(...states), fc.constantFrom(...OPERATIONS), anyEnd, (state, operation, end) => {
        fc.pre(operation !== state.operation);
        expect(react(state, ended(operation, end))).toEqual(state);
      }),
    );
  });

  it('calls a VM that ended by itself crashed, and nothing else so', () => {
    for (const state of states) {
      const after = react(state, { kind: 'life_ended' });
      const hadVm = state.settled === 'running' || state.settled === 'out_of_space';
      expect(after).toEqual(hadVm ? { ...state, settled: 'crashed' } : state);
    }
  });

  it('settles in what is real, also when the operation failed', () => {
    for (const operation of ['resume', 'pause', 'rewind', 'snapshot', 'fork'] as const) {
      for (const real of ['running', 'out_of_space', 'paused', 'crashed'] as const) {
        const after = react({ settled: 'running', operation }, ended(operation, { ok: false, real }));
        expect(after).toEqual({ settled: real, operation: null });
      }
    }
  });

  it('keeps a delete that failed in flight: what was gone for others does not come back', () => {
    for (const real of ['running', 'out_of_space', 'paused', 'crashed', 'absent'] as const) {
      const doomed: LifecycleState = { settled: 'running', operation: 'delete' };
      expect(react(doomed, ended('delete', { ok: false, real }))).toEqual(doomed);
    }
  });

  it('forgets a create that failed, and keeps a sandbox that the node has lost', () => {
    expect(react(AT_BIRTH, ended('create', { ok: false, real: 'absent' })).settled).toBe('deleted');
    const lost = react({ settled: 'running', operation: 'pause' }, ended('pause', { ok: false, real: 'absent' }));
    expect(lost).toEqual({ settled: 'crashed', operation: null });
  });

  it('shows the operation as the status, except where the sandbox stays usable', () => {
    expect(statusOf(AT_BIRTH)).toBe('creating');
    expect(statusOf({ settled: 'paused', operation: 'resume' })).toBe('resuming');
    expect(statusOf({ settled: 'running', operation: 'pause' })).toBe('pausing');
    expect(statusOf({ settled: 'running', operation: 'rewind' })).toBe('rewinding');
    expect(statusOf({ settled: 'crashed', operation: 'delete' })).toBe('deleting');
    expect(statusOf({ settled: 'running', operation: 'snapshot' })).toBe('running');
    expect(statusOf({ settled: 'paused', operation: 'fork' })).toBe('paused');
  });
});
