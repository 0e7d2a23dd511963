package fabric

import (
	"context"
	"iter"
	"net/netip"
	"time"
)

// HandleLen is the length of a Handle in bytes.
const HandleLen = 48

// Handle is an inode as NFS clients keep it (A38): authenticated, bound to its portal, valid on
// every node and across restarts.
type Handle [HandleLen]byte

// Portals is what a front end is given. The set changes live.
type Portals interface {
	// Portal gives the portal of that name, or NotExist.
	Portal(name string) (Portal, error)
	// Names lists the portals, sorted.
	Names() []string
	// Resolve gives the portal and inode a handle was made for: BadHandle if it is not ours or
	// was altered, Stale if its portal or history is gone.
	Resolve(h []byte) (Portal, Ino, error)
}

// Policy is what a portal lets its clients do. Front ends enforce Clients and squashing; the FS
// enforces ReadOnly.
type Policy struct {
	ReadOnly bool
	// Protocols lists who may show the portal ("nfs", "fuse", "s3"); empty: all.
	Protocols []string
	// Clients are the networks that may use it over NFS; empty: loopback only.
	Clients []netip.Prefix
	// NoRootSquash lets uid 0 of NFS clients be root.
	NoRootSquash bool
	// SquashUID and SquashGID are who a squashed caller becomes; 0 means 65534.
	SquashUID, SquashGID uint32
	// FailAfter turns waiting on Unavailable and Held into an error after this time; 0: wait.
	FailAfter time.Duration
}

// Portal is one exported subtree under one policy. All methods may be called at any time.
type Portal interface {
	Name() string
	Policy() Policy
	// As gives the caller's view; cheap, once per request.
	As(who Cred) FS
	// Watch registers o; from is what its own requests put into Cred.From (A14).
	Watch(o Observer) (from Watcher, stop func())
	Handle(ino Ino) Handle
	// Resolve is Portals.Resolve for this portal alone; a handle of another one is BadHandle.
	Resolve(h []byte) (Ino, error)
	// Verifier changes when data written but not synced may have been lost: restart, loss of
	// the session, loss of W with data unflushed. It is NFS's write verifier.
	Verifier() uint64
	// ID is a stable number for st_dev and NFS's fsid, equal at every site.
	ID() uint64
}

// KeyKind says what of an inode a Key names.
type KeyKind uint8

// The kinds of keys.
const (
	KeyAttr  KeyKind = iota // the attributes
	KeyPages                // content from Off on, Len bytes; Len 0: to the end. Attributes too
	KeyEntry                // the entry Name of directory Ino
)

// Key is one thing that an observer may hold.
type Key struct {
	Kind KeyKind
	Ino  Ino
	Off  int64
	Len  int64
	Name string
}

// Observer drops what a front end or its kernel holds. Returning nil lets the recall be
// acknowledged or the local change be answered (A14). It must obey ctx, never call FS, and is
// called on a goroutine of its own, with no lock held; calls may overlap.
type Observer interface {
	Invalidate(ctx context.Context, keys []Key) error
	// InvalidateAll drops everything: a new term (A5), or the lease may lapse (A6).
	InvalidateAll(ctx context.Context) error
}

// FS is one caller's view of a portal. Calls may overlap; arguments are not kept. Errors carry a
// Code. Every call may answer Unavailable, Canceled or Internal; others are named where they are
// not plain POSIX.
type FS interface {
	// Root is the portal's root directory.
	Root() Ino
	StatFS(ctx context.Context) (Usage, error)
	// Lookup answers "." and ".." too (the portal root's ".." is itself); all else refuses them.
	Lookup(ctx context.Context, dir Ino, name string) (Attr, error)
	// Walk follows path from dir and returns the attributes of each step that exists; with the
	// error of the first that does not. Symbolic links are not followed: NotDir. At most one
	// hub call. It needs search permission on each directory.
	Walk(ctx context.Context, dir Ino, path []string) ([]Attr, error)
	Stat(ctx context.Context, ino Ino) (Attr, error)
	// Access gives the part of want that the caller has.
	Access(ctx context.Context, ino Ino, want Perm) (Perm, error)
	SetAttr(ctx context.Context, ino Ino, set SetAttr) (Change, error)
	// Make creates an inode; Exist if the name is taken. A regular file made with an empty name
	// has no name yet and waits for Replace or Discard; it goes with the node's session if neither
	// comes. The Change is dir's.
	Make(ctx context.Context, dir Ino, name string, spec NodeSpec) (Attr, Change, error)
	// Link adds a name to a file; the Change is dir's.
	Link(ctx context.Context, ino, dir Ino, name string) (Attr, Change, error)
	// Replace binds name to ino in one step if what was there meets cond (Precondition); a file
	// that had the name loses it, a directory there is IsDir. ino is an unnamed file of Make, or
	// any file. The content must be synced before. The Change is dir's.
	Replace(ctx context.Context, ino, dir Ino, name string, cond Cond) (Attr, Change, error)
	// Discard drops an unnamed file of Make, now or when its last File is closed; Invalid for
	// another.
	Discard(ctx context.Context, ino Ino) error
	Rename(ctx context.Context, from Ino, old string, to Ino, name string, m RenameMode) (src, dst Change, err error)
	// Remove takes a name away; Precondition if cond does not hold. The Change is dir's.
	Remove(ctx context.Context, dir Ino, name string, k RemoveKind, cond Cond) (Change, error)
	// ReadDir lists dir from a place on, without "." and "..", with attributes where they are
	// to be had. An error ends the listing. BadCookie is never needed: a cookie whose entry is
	// gone goes on with the next.
	ReadDir(ctx context.Context, dir Ino, from Pos) iter.Seq2[Entry, error]
	ReadLink(ctx context.Context, ino Ino) (string, error)
	// Open opens a regular file (IsDir, else Invalid for other types). It needs R or W at the
	// hub, and waits while the file is under change (A30).
	Open(ctx context.Context, ino Ino, m OpenMode) (File, error)
	// Clone makes dst's content the concatenation of parts; one change, no bytes moved (A41).
	// Precondition if a part is not at the version its Cond names.
	Clone(ctx context.Context, dst Ino, parts []Part) (Change, error)
	// Xattr copies the value into p and returns its length; p may be nil to ask the length;
	// Invalid if p is not nil and too short.
	Xattr(ctx context.Context, ino Ino, name string, p []byte) (int, error)
	ListXattr(ctx context.Context, ino Ino) ([]string, error)
	SetXattr(ctx context.Context, ino Ino, name string, value []byte, m XattrMode) error
	RemoveXattr(ctx context.Context, ino Ino, name string) error
	Lock(ctx context.Context, ino Ino, l Lock) error    // waits until ctx ends
	TryLock(ctx context.Context, ino Ino, l Lock) error // Locked if another has it
	TestLock(ctx context.Context, ino Ino, l Lock) (holder Lock, free bool, err error)
	Unlock(ctx context.Context, ino Ino, l Lock) error
	// Sync makes a file or directory as durable as the portal says.
	Sync(ctx context.Context, ino Ino) error
}

// File is an open file; it outlives its last name. Calls may overlap.
type File interface {
	Ino() Ino
	// Stat is FS.Stat, but of the fixed version for OpenFixed.
	Stat(ctx context.Context) (Attr, error)
	// ReadAt is short only at the end of the file, and returns no error there.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	// WriteAt writes all of p or fails.
	WriteAt(ctx context.Context, p []byte, off int64) (int, Change, error)
	// Append writes p at the end, wherever that is by then (A29).
	Append(ctx context.Context, p []byte) (off int64, c Change, err error)
	// Punch makes n bytes at off a hole; the size stays.
	Punch(ctx context.Context, off, n int64) (Change, error)
	// NextData gives the first range with data at or after off; start is the size if none.
	NextData(ctx context.Context, off int64) (start, end int64, err error)
	Sync(ctx context.Context) error
	// Close starts the flush and waits for it only if the portal says so. The File is dead
	// after, whatever the error.
	Close(ctx context.Context) error
}
