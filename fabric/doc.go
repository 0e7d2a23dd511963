// Package fabric holds the words of spokefs: inode numbers, attributes, callers, error codes,
// and the interfaces between what speaks to clients and what keeps the files.
//
// A front end (NFS, FUSE, S3) is given a set of [Portals]. A [Portal] is one exported subtree
// under one [Policy]; [Portal.As] turns it into an [FS] for one caller. Everything a front end
// does, it does through those three and the [File] that FS.Open returns. The one real
// implementation is fabric/spoke; fabric/memfs is the smallest correct one and the oracle of
// every comparison; fabric/fstest is the suite that both pass.
//
// The package imports nothing of the project and starts nothing: no goroutine, clock or lock.
//
// # Rules every FS keeps
//
//   - A call that starts after another returned, at any site and over any protocol, sees its effect.
//   - An error changes nothing, but for Unknown, whose outcome is not known.
//   - Names are byte strings of 1 to MaxName bytes without '/' and NUL; they are never normalised.
//     "." and ".." are answered by Lookup alone.
//   - Times are wall-clock nanoseconds; they decide nothing. What decides is iver, the epoch and
//     CLOCK_BOOTTIME ([Instant]).
package fabric
