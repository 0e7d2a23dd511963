// Package pack is Blobs over a Bucket at the hub: it coalesces blobs into objects, registers each
// object in the log before it is written and indexes it after, and finds blobs again through the
// index. It does not collect, and it holds no pins: the log does both.
//
// # Putting
//
// A Put checks its blobs (A48) in the caller, adds them to the open pack and waits until that is
// durable. A pack is closed when it is full or the linger is over; while all writers are busy it
// stays open and grows, so load makes packs larger, not queues longer. A writer does, in this
// order (A21, A40): Index.Begin, the object's PUT (an ambiguous answer is retried with the same key
// and bytes), Index.End. A node goes into a pack with its children or after the pack that has
// them is indexed.
//
// # Fetching
//
// Blobs that lie near each other in a pack come with one ranged GET; recent packs are kept in a
// bounded cache. What is handed out was verified against its Ref (A47).
//
// Store.Run owns the writers; a Fetch has its readers, which end with it. One mutex guards the
// open pack, one the cache, one the random source; none is held across I/O of disk or network.
package pack
