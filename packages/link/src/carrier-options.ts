/**
 * Options of Node for a process that little but bytes passes through.
 *
 * What is read lies outside of V8's heap, in buffers that go when their small objects in it do. V8 counts them towards the size
 * that the heap may grow to before all of it is marked, often 10 MiB more than lives in it. In a young space of the usual size
 * their objects are so few that it is never full before: each few tens of MiB the whole heap is marked, which costs as much as
 * carrying the bytes. One of 1 MiB is looked through in a millisecond, after some 10 MiB of buffers; and the heap may grow to
 * three times of what lives in it, so that these fit.
 */
export const CARRIER_OPTIONS: readonly string[] = ['--max-semi-space-size=1', '--heap-growing-percent=200'];
