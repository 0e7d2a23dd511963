// Package fuse shows a portal as a file system of the local kernel. Each operation is a short
// translation to fabric.FS; node ids are inode numbers, so there is no table of paths.
//
// # What the kernel caches
//
// Attributes for as long as Attr.Fresh says, which ends with the lease. Pages of files opened for
// reading, dropped by recalls and by other front ends' changes (the mount is an Observer); files
// opened for writing bypass the page cache. Names not at all on read-write portals, where a
// notification about a name can wait for a request that waits for it (A14); on read-only ones as
// long as attributes.
//
// # Locks and goroutines
//
// go-fuse runs a goroutine per request. A notification to the kernel is sent with no lock held and
// never from a request. flock and fcntl locks are the kernel's own, for this mount alone.
//
// A close starts the flush and does not wait: RELEASE closes the file, FLUSH does nothing.
package fuse
