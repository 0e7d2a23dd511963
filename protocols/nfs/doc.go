// Package nfs serves portals over NFSv3, with MOUNT v3 on the same port and a portmap v2 answerer
// on another. It is a translation: what a call means is decided by fabric.FS. It keeps no file
// state but a bounded set of open fabric.Files, so that a stream of WRITEs is one open file.
//
// Not here: NFSv4, NLM locks (clients mount with nolock), RPCSEC_GSS, UDP for anything but portmap.
//
// # Requests
//
// One goroutine per connection reads records; each call runs on a goroutine of its own, at most
// Config.Outstanding per connection, and replies go out in any order under the connection's write
// lock. That lock is the only one held across I/O. A call that waits for longer than Config.Stuck
// is answered with JUKEBOX: the client comes back. Records and READ data over 8 KiB wait for a share of
// one budget (Config.Memory).
//
// What a client sends is held to the limits of Config before memory is taken for it; a length that
// a client names is compared with what is there before it is used.
//
// # Trust
//
// Callers are who AUTH_SYS says; a portal's policy names the networks that may say it, and root is
// squashed unless the policy says otherwise. Each call is checked, not only MNT.
package nfs
