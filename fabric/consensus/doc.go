// Package consensus is hub.Log on hashicorp/raft with its log in raft-wal: it puts the commands
// of one group in one durable order and hands them to a [Machine]. It is not a state machine and
// knows nothing of what commands mean.
//
// # What is written
//
// Commands offered at about the same time are coalesced into one Raft entry
// (docs/formats/raft-entry.md), so that one fsync serves many. A barrier is an entry's place in
// that queue without a command: it returns once an entry proposed after the call is applied here
// (A3). Neither raft's leader lease nor VerifyLeader is used anywhere: both can be fooled.
//
// # Durability
//
// The Raft log is the write-ahead log of the machine, which writes without one. A snapshot is a
// checkpoint of the machine's store, kept beside it; what goes into raft's snapshot file is only
// the checkpoint's name. Before raft truncates its log, the machine has flushed. A failed write
// or fsync of the log calls Deps.Fatal, which must not return (A28).
//
// # Goroutines and locks
//
// New starts raft's goroutines and one proposer; Close ends them all. mu guards the standing
// alone and is never held across I/O.
package consensus
