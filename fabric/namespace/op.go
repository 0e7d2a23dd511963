package namespace

import (
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// Limits of commands (coherence.md 1.10).
const (
	MaxCommand = 1 << 20 // bytes, encoded
	MaxOps     = 1024    // in one command
	Slots      = 256     // per session
	SlotSeqs   = 32      // outstanding per slot
	MaxResult  = 512     // bytes of a result kept for a slot; longer ones answer ReadAgain
)

// Origin says who sent a command, and which of its commands it is (A33). The zero Origin is the
// hub itself, whose commands are idempotent by what they say.
type Origin struct {
	Session fabric.SessionID
	Epoch   uint64
	Slot    uint16
	Seq     uint32 // from 1 on, without gaps within a slot
}

// Command is a batch; its ops apply in order, each on its own.
type Command struct {
	From Origin
	Wall fabric.Time // leader's stamp, made monotone in Apply
	Ops  []Op
}

// Op is one of the types below. The set is closed: each has an opcode, a version and an encoding
// in docs/formats/command.md.
type Op interface {
	opcode() Opcode
	put(w *writer)
	get(r *reader)
}

// Opcode tells ops apart in their encoding. Values are never reused.
type Opcode uint8

// The opcodes. Those marked reserved have no type yet.
const (
	opMake           Opcode = 1
	opLink           Opcode = 2
	opReplace        Opcode = 3
	opRename         Opcode = 4
	opRemove         Opcode = 5
	opSetAttr        Opcode = 6
	opSetXattr       Opcode = 7
	opRemoveXattr    Opcode = 8
	opPublish        Opcode = 9
	opClone          Opcode = 10
	opCloneRange     Opcode = 11 // reserved
	opRenameExchange Opcode = 12 // reserved
	opDropHold       Opcode = 13
	opOpenSession    Opcode = 32
	opCloseSession   Opcode = 33
	opExpireSession  Opcode = 34
	opGrantW         Opcode = 35
	opDropW          Opcode = 36
	opPackBegin      Opcode = 48
	opPackEnd        Opcode = 49
	opPin            Opcode = 50
	opUnpin          Opcode = 51
	opInit           Opcode = 64
)

// Expect is the inode that the hub found a name to be (0: absent) when it took its marks. Apply
// answers Raced, and changes nothing, if it is another by then: the hub takes marks for that one.
// Unchecked switches the test off.
type Expect struct {
	Ino       fabric.Ino
	Unchecked bool
}

// Ops that a spoke sends for a caller. Who is checked against mode bits in Apply.
type (
	// Make creates an inode in Dir, or a file without a name if Name is empty, held by the
	// session. WantW asks for W on it with the same command. The hub sets Expect.
	Make struct {
		Dir   fabric.Ino
		Name  string
		Spec  fabric.NodeSpec
		Who   fabric.Cred
		WantW bool
		// Content and Xattrs, if any, are the new file's from the start.
		Content Content
		Xattrs  []Xattr
	}
	// Link adds a name.
	Link struct {
		Ino, Dir fabric.Ino
		Name     string
		Who      fabric.Cred
	}
	// Replace binds Name to Ino if Cond holds of what was there.
	Replace struct {
		Ino, Dir fabric.Ino
		Name     string
		Cond     fabric.Cond
		Who      fabric.Cred
		Expect   Expect
		Holders  []fabric.SessionID // who may have the replaced file open (A30); the hub fills it
	}
	// Rename moves a name.
	Rename struct {
		From     fabric.Ino
		Old      string
		To       fabric.Ino
		Name     string
		Mode     fabric.RenameMode
		Who      fabric.Cred
		Src, Dst Expect
		Holders  []fabric.SessionID // of the replaced file
	}
	// Remove takes a name away.
	Remove struct {
		Dir     fabric.Ino
		Name    string
		Kind    fabric.RemoveKind
		Cond    fabric.Cond
		Who     fabric.Cred
		Expect  Expect
		Holders []fabric.SessionID
	}
	// SetAttr changes all but the size, which is content: Publish has it.
	SetAttr struct {
		Ino fabric.Ino
		Set fabric.SetAttr
		Who fabric.Cred
	}
	// SetXattr sets one extended attribute.
	SetXattr struct {
		Ino   fabric.Ino
		Name  string
		Value []byte
		Mode  fabric.XattrMode
		Who   fabric.Cred
	}
	// RemoveXattr removes one.
	RemoveXattr struct {
		Ino  fabric.Ino
		Name string
		Who  fabric.Cred
	}
	// Publish makes a content current (A22). Times are what the spoke showed its clients under
	// W; ctime only grows. Checks: W of this session, or Base equal to the inode's iver; root
	// indexed and pinned by this session, or the inode's own; size equal to the root's.
	Publish struct {
		Ino      fabric.Ino
		Base     uint64
		Content  Content
		Mtime    fabric.Time
		Atime    fabric.Time // 0: as it is
		Ctime    fabric.Time
		KillPriv bool // drop setuid and setgid as a write does
		DropW    bool // give W back in the same command
	}
	// Clone gives Dst a content made of other files', each still at its version (A41).
	Clone struct {
		Dst     fabric.Ino
		Base    uint64 // Dst's iver, or 0 under W
		Content Content
		Sources []Source
		Mtime   fabric.Time
	}
	// DropHold ends this session's holds on unnamed inodes.
	DropHold struct{ Inos []fabric.Ino }
)

// Source is an inode at a version.
type Source struct {
	Ino  fabric.Ino
	Iver uint64
}

// Ops of the hub itself.
type (
	// Init makes an empty namespace: its Info and the root directory. Refused a second time
	// with Exist.
	Init struct {
		Info     Info
		UID, GID uint32
		Mode     uint16
	}
	// OpenSession starts a session; the epoch is the result's Epoch. A live session of the same
	// Node is expired by it (A10).
	OpenSession struct {
		ID         fabric.SessionID
		Node       string   // certificate identity: spoke name and node
		SecretHash [32]byte // SHA-256 of the secret
		ReadOnly   bool
	}
	// CloseSession ends a session cleanly: its W, pins, holds and slots go.
	CloseSession struct {
		ID    fabric.SessionID
		Epoch uint64
	}
	// ExpireSession fences a silent session (A4). What it had dirty is refused from here on.
	ExpireSession struct {
		ID    fabric.SessionID
		Epoch uint64
	}
	// GrantW logs W rights before they are answered. An ino that another session has W on
	// answers Raced.
	GrantW struct {
		Session fabric.SessionID
		Epoch   uint64
		Inos    []fabric.Ino
	}
	// DropW logs their return.
	DropW struct {
		Session fabric.SessionID
		Inos    []fabric.Ino
	}
	// PackBegin registers a key before its PUT (A40).
	PackBegin struct {
		Key string
	}
	// PackEnd indexes what a finished pack holds, children first, and pins it for the sessions
	// that uploaded it (A21). A first location stays. An entry that names something neither
	// indexed nor before it in Entries is refused, and the pack with it.
	PackEnd struct {
		Key     string
		Size    int64
		Entries []PackEntry
	}
	// Pin keeps blobs for a session: the logged form of "present" (A41).
	Pin struct {
		Session fabric.SessionID
		Epoch   uint64
		Refs    []storage.Ref
	}
	// Unpin ends them.
	Unpin struct {
		Session fabric.SessionID
		Refs    []storage.Ref
	}
)

// PackEntry is one blob in a pack.
type PackEntry struct {
	Ref      storage.Ref
	Kind     storage.Kind
	Form     storage.Form
	Off      uint32           // of the stored bytes in the object
	Len      uint32           // of the stored bytes
	Sum      uint64           // of a node: bytes of file it covers
	Children []storage.Ref    // of a node
	For      fabric.SessionID // who uploaded it
}

// Location is where a blob is stored.
type Location struct {
	Key  string
	Kind storage.Kind
	Form storage.Form
	Off  uint32
	Len  uint32
	Sum  uint64 // of a node: bytes of file it covers
}

func (*Make) opcode() Opcode          { return opMake }
func (*Link) opcode() Opcode          { return opLink }
func (*Replace) opcode() Opcode       { return opReplace }
func (*Rename) opcode() Opcode        { return opRename }
func (*Remove) opcode() Opcode        { return opRemove }
func (*SetAttr) opcode() Opcode       { return opSetAttr }
func (*SetXattr) opcode() Opcode      { return opSetXattr }
func (*RemoveXattr) opcode() Opcode   { return opRemoveXattr }
func (*Publish) opcode() Opcode       { return opPublish }
func (*Clone) opcode() Opcode         { return opClone }
func (*DropHold) opcode() Opcode      { return opDropHold }
func (*Init) opcode() Opcode          { return opInit }
func (*OpenSession) opcode() Opcode   { return opOpenSession }
func (*CloseSession) opcode() Opcode  { return opCloseSession }
func (*ExpireSession) opcode() Opcode { return opExpireSession }
func (*GrantW) opcode() Opcode        { return opGrantW }
func (*DropW) opcode() Opcode         { return opDropW }
func (*PackBegin) opcode() Opcode     { return opPackBegin }
func (*PackEnd) opcode() Opcode       { return opPackEnd }
func (*Pin) opcode() Opcode           { return opPin }
func (*Unpin) opcode() Opcode         { return opUnpin }
