package rights

import (
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// Right is a set of rights on one inode.
type Right uint8

// The rights.
const (
	R Right = 1 << iota
	D
	W
)

// Want asks for rights. Wait: queue while the inode is under change or another's W, as an open
// must (A30); without it such an inode is answered with no grant (A12), and only another's W is
// waited for.
type Want struct {
	Ino   fabric.Ino
	Right Right
	Wait  bool
}

// Grant gives Right on Ino; Right 0 means none is given, and what came with it may be used once
// and not kept. Seq grows with each grant of a session; Epoch and Term say whose it is (A15).
type Grant struct {
	Ino   fabric.Ino
	Right Right
	Seq   uint64
	Epoch uint64
	Term  fabric.Term
}

// RecallKind says what a recall asks for (A11).
type RecallKind uint8

// The kinds. RecallPublish is reserved for issue "hub cluster": nobody sends it yet.
const (
	Take          RecallKind = iota // keep nothing
	Shared                          // flush, publish, keep R (of a directory D)
	RecallPublish                   // flush, publish, keep W
)

// Message is what the hub tells a spoke node unasked: *Recall, *Waiting or *Push.
type Message interface{ message() }

// Recall asks a right back. Seq is the newest grant on Ino that it revokes: a grant that arrives
// later with a Seq up to it is discarded (A15).
type Recall struct {
	Ino  fabric.Ino
	Kind RecallKind
	Seq  uint64
	Term fabric.Term
	// Name, if not empty, is the entry under change: kernels need to drop no more than that.
	Name string
}

// Waiting says that a call of this node waits for other nodes.
type Waiting struct{ Ino fabric.Ino }

// Push is reserved: the new value after a change (A12).
type Push struct{ Ino fabric.Ino }

func (*Recall) message()  {}
func (*Waiting) message() {}
func (*Push) message()    {}

// Ack answers a Recall. Kept is what the node still uses (R or D after Shared, else 0). Open says
// that a process of it has the file open (A30). Left > 0 means not done yet: so many bytes are
// to be flushed (A13).
type Ack struct {
	Ino  fabric.Ino
	Seq  uint64 // of the Recall
	Kept Right
	Open bool
	Left int64
}

// Lease is the answer to a renewal.
type Lease struct {
	Epoch  uint64
	Term   fabric.Term
	Length time.Duration // L of coherence.md 1.2
	Wall   fabric.Time   // the hub's wall clock when it answered
}
