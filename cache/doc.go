// Package cache keeps chunks and manifest nodes, raw, on local disk: everything in it can be
// fetched again, so nothing in it is ever waited for, synced or missed. Dirty data is never here;
// it is in cache/journal.
//
// # On disk
//
// Blobs are appended to segment files (docs/formats/cache.md); an index in memory says where each
// is. After a restart the index is made again from the records' heads. Space is won by dropping
// the oldest segment whole: what was used since it was written, or is to be kept, moves to the
// newest one first. So files are written and deleted in order, and never rewritten.
//
// # What is handed out
//
// A blob is verified against its name when it comes in, and every 16 KiB block of it against its
// CRC32C when it is read (A47). A bad one is dropped, counted and fetched again. Of a blob that is
// missing there is one flight, whoever waits for it; a reader that gives up does not end it while
// others wait.
//
// # Goroutines and locks
//
// Flights and warming run on goroutines of the Store, bounded by Config; Close ends them. mu
// guards the index, the segments' list and the place to append; it is not held across I/O on
// data. A segment is closed when its last reader is done.
package cache
