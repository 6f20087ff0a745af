/**
 * Options of Node for a process that little but bytes passes through.
 *
 * What is read lies outside of V8's heap, in buffers that go when their small objects in it do. In a young space of the usual
 * size those are so few that it is never full: the buffers are then freed by marking the whole heap instead, again for each few
 * tens of MiB, which costs as much as carrying the bytes. A space of 1 MiB is full long before, and looked through in a
 * millisecond.
 */
export const CARRIER_OPTIONS: readonly string[] = ['--max-semi-space-size=1'];
