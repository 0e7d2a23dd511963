// Package hub is the engine of one namespace's group in the leader: sessions, rights, commands,
// lookups and the chunk gateway. It decides little itself: who may cache what is decided by
// rights.Table, what a command does by namespace.Apply. It is not a network server (fabric/wire
// is), not the log (fabric/consensus) and not the store of packs (storage/pack).
//
// # How a request goes
//
// Reads (Acquire, Lookup, List) ask the table for rights, wait for what it wants them to wait
// for, wait for a barrier that began after the request (A3), and only then read the committed
// state: a later change recalls what they were granted. Changes (Apply) find the inodes they
// touch, mark them in the table, which recalls what other nodes hold of them, and are proposed
// when the table lets them proceed (A12). Nothing serialises changes of one directory.
//
// # Invariants
//
//   - An answer that depends on leadership is given only after a barrier or proposal of the same
//     term (A3); a change of term fails everything that waits with Unavailable.
//   - W is logged before a node hears of it, and its return before anybody else may proceed.
//   - A command that raced never reaches a node (Expect); it takes its marks again.
//
// # Goroutines and locks
//
// [Namespace.Run] owns the goroutines: leadership, the tick, the barrier and the clerk, who logs
// what the table asks for. Requests run on their callers' goroutines. Namespace.mu guards the
// table and everything that its effects are delivered to; it is never held across I/O.
package hub
