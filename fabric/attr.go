package fabric

import "time"

// Ino names an inode for ever: shard in the upper 16 bits, a counter in the lower 48. Numbers
// are never reused. 0 is none; RootIno is every namespace's root.
type Ino uint64

// RootIno is the root directory of a namespace.
const RootIno Ino = 1

// Instant is CLOCK_BOOTTIME of one machine, in ns. Wall time decides nothing.
type Instant int64

// Add is the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is the time from u to i.
func (i Instant) Sub(u Instant) time.Duration { return time.Duration(i - u) }

// Time is wall time in ns since the Unix epoch; it may be negative.
type Time int64

// Term is a Raft leader's number.
type Term uint64

// Cookie is a place in a listing. Cookies belong to entries, grow, and are never reused within
// a directory. 0 is the start; values below FirstCookie are left to front ends for . and ...
type Cookie uint64

// FirstCookie is the least cookie of an entry.
const FirstCookie Cookie = 3

// Type is the kind of an inode.
type Type uint8

// The types of inodes. The values are part of stored formats.
const (
	TypeNone Type = iota
	TypeFile
	TypeDir
	TypeSymlink
	TypeFifo
	TypeSocket
	TypeChar
	TypeBlock
)

// Mode bits, as in POSIX, lower 12 bits.
const (
	ModeSetuid uint16 = 0o4000
	ModeSetgid uint16 = 0o2000
	ModeSticky uint16 = 0o1000
	ModePerm   uint16 = 0o777
	ModeAll    uint16 = 0o7777
)

// Attr is the attributes of an inode.
type Attr struct {
	Ino    Ino
	Type   Type
	Mode   uint16 // lower 12 bits
	UID    uint32
	GID    uint32
	Nlink  uint32
	Rdev   uint64 // devices: major<<32 | minor
	Size   int64  // bytes; of a symlink its target's length
	Used   int64  // bytes of data, holes not counted
	Atime  Time
	Mtime  Time
	Ctime  Time
	Btime  Time
	Iver   uint64 // grows with each change; the change attribute
	Parent Ino    // directories only
	// Fresh is how long from now a client may use these attributes without asking; 0: not at all.
	Fresh time.Duration
}

// Version is what NFS calls pre-operation attributes.
type Version struct {
	Iver  uint64
	Size  int64
	Mtime Time
	Ctime Time
}

// Version is the part of a that Change.Before has.
func (a *Attr) Version() Version {
	return Version{Iver: a.Iver, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime}
}

// Change tells what an operation did to one inode, atomically: NFSv3's wcc_data.
type Change struct {
	Before Version
	After  Attr
}

// SetBits says which fields of a SetAttr count.
type SetBits uint16

// The bits of SetAttr.Set. A "now" bit takes the authority's time and needs only write permission.
const (
	SetMode SetBits = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow
	// SetGuard: fail with Precondition unless the ctime is Guard (NFSv3 SETATTR).
	SetGuard
	// SetKillPriv drops setuid, and setgid where group execution is on, as a write by
	// another than root does.
	SetKillPriv
)

// SetAttr is a change of attributes; fields without their bit are ignored.
type SetAttr struct {
	Set   SetBits
	Mode  uint16
	UID   uint32
	GID   uint32
	Size  int64
	Atime Time
	Mtime Time
	Guard Time
}

// NodeSpec describes an inode to make. Owner is the caller; the group is the caller's, or the
// directory's where that has the setgid bit. The caller has applied its umask.
type NodeSpec struct {
	Type   Type
	Mode   uint16
	Rdev   uint64
	Target string // symlinks
	// Verifier, if not zero, is NFSv3's exclusive create: a name that exists with the same
	// verifier is answered as if it had just been made.
	Verifier uint64
}

// Cond is a precondition evaluated in the same step as the change it guards.
type Cond struct {
	Absent bool   // the name must not exist
	Ino    Ino    // if not 0: the name must be this inode …
	Iver   uint64 // … and, if not 0, at this version
}

// RemoveKind says what Remove may remove.
type RemoveKind uint8

// The kinds of Remove.
const (
	RemoveFile RemoveKind = iota // unlink: IsDir for a directory
	RemoveDir                    // rmdir: NotDir for anything else
	RemoveAny                    // whichever it is; a directory must be empty
)

// RenameMode says what Rename does with a target that exists.
type RenameMode uint8

// The modes of Rename. RenameExchange is reserved: it answers Unsupported.
const (
	RenameReplace RenameMode = iota
	RenameNoReplace
	RenameExchange
)

// XattrMode says what SetXattr expects.
type XattrMode uint8

// The modes of SetXattr.
const (
	XattrAny     XattrMode = iota
	XattrCreate            // Exist if it is there
	XattrReplace           // NoXattr if it is not
)

// Perm is a set of permissions, as access(2) has them.
type Perm uint8

// The permissions.
const (
	PermExec Perm = 1 << iota
	PermWrite
	PermRead
)

// OpenMode is a set of flags of Open.
type OpenMode uint8

// The flags of Open.
const (
	OpenRead OpenMode = 1 << iota
	OpenWrite
	// OpenFixed: the File shows the version met at Open until it is closed; read only.
	OpenFixed
	// OpenOwner: skip the mode bits where the caller owns the file (FUSE's creating open, NFS
	// by handle: case N14).
	OpenOwner
)

// Part is a piece of another file that Clone takes, whole files only for now: Off is 0 and Len
// is the file's size, or -1.
type Part struct {
	Ino  Ino
	Off  int64
	Len  int64
	Cond Cond // Iver: the version the caller saw
}

// Entry is one name of a listing.
type Entry struct {
	Name   string
	Cookie Cookie
	Attr   Attr // Attr.Ino is always set; the rest is zero if Attr.Type is TypeNone
}

// Pos is where a listing starts: after a cookie (they grow) or, ByName, at a name, in byte order.
type Pos struct {
	After  Cookie
	ByName bool
	At     string // the first name to show is >= At
}

// Usage answers statfs. Limits without a quota are what the bucket is said to hold.
type Usage struct {
	Bytes, FreeBytes   int64
	Inodes, FreeInodes int64
}

// LockKind tells flock from fcntl locks; they do not see each other.
type LockKind uint8

// The kinds of locks.
const (
	LockFlock LockKind = iota
	LockPosix
)

// Lock is an advisory lock on bytes Start to End, End included.
type Lock struct {
	Kind       LockKind
	Exclusive  bool
	Start, End uint64
	Owner      uint64
	PID        uint32
}
