package namespace

import "github.com/spokefs/spokefs/fabric"

// Verdict is what became of a command as a whole.
type Verdict uint8

// The verdicts.
const (
	Applied   Verdict = iota // each op has its own code
	NotYet                   // an earlier seq of the slot has not come: send again
	Dropped                  // the session is expired or unknown, or the seq is too old: Fenced
	Refused                  // the command makes no sense: Invalid
	ReadAgain                // applied before; its result was too long to keep
)

// Result is what Apply gives for a Command.
type Result struct {
	Verdict Verdict
	Index   uint64 // log index of the first application
	Ops     []OpResult
}

// OpResult is what became of one op. Fields that make no sense for it are zero.
type OpResult struct {
	Code fabric.Code
	// Raced: an Expect did not hold, or another session has W. Code is Unavailable. The hub
	// tries again; it never reaches a spoke.
	Raced bool
	// Attr is the subject's after the op: the inode made, linked, renamed, changed, published.
	Attr fabric.Attr
	// Before is the subject's version before the op.
	Before fabric.Version
	// Cookie is the new name's.
	Cookie fabric.Cookie
	// Dir is what happened to the (source) directory, Dir2 to Rename's target directory. They
	// are set when the op failed too, with Before equal to After (case N8).
	Dir, Dir2 fabric.Change
	// Lost is the inode that lost a name to the op, as it is now; Ino 0 if none did.
	Lost fabric.Attr
	// Held: this session holds Lost, which has no name left; it says DropHold when nobody has it
	// open (A30).
	Held bool
	// W: granted with the op.
	W bool
	// Epoch of OpenSession.
	Epoch uint64
}
