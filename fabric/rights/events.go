package rights

import "github.com/spokefs/spokefs/fabric"

// Event is what happened, told to a Table by the engine in the leader.
type Event interface{ event() }

// Known is a session that exists in the log.
type Known struct {
	Session fabric.SessionID
	Epoch   uint64
}

// Owned is one W right in the log.
type Owned struct {
	Session fabric.SessionID
	Ino     fabric.Ino
}

// Mark is an inode that a change touches. Dir says that one of its entries changes.
type Mark struct {
	Ino fabric.Ino
	Dir bool
}

// Events of sessions. An event of an unknown session or another epoch is answered with Fenced
// where it has an answer, and ignored elsewhere.
type (
	// Led starts a term: our own entry of it has been applied, and this is the state after it
	// (A5). Everything of earlier terms is forgotten. The engine answers its waiters itself.
	Led struct {
		Term     fabric.Term
		Sessions []Known
		W        []Owned
	}
	// Deposed ends it.
	Deposed struct{}
	// Opened adds a session.
	Opened struct {
		Session fabric.SessionID
		Epoch   uint64
	}
	// Renewed: a renewal was received just now. It is told before the barrier, so that no
	// expiry starts while the answer is on its way; a LeaseEffect comes at once.
	Renewed struct {
		Session fabric.SessionID
		Epoch   uint64
		Dropped fabric.Term // caches of terms before it are gone at the node (A5)
		Open    []fabric.Ino
	}
	// Expired: the end of a session, by expiry or close, was applied.
	Expired struct {
		Session fabric.SessionID
		Epoch   uint64
	}
	// Retired: another start of the same node waits; this one's renewals are refused from now on,
	// so that it expires (A10).
	Retired struct {
		Session fabric.SessionID
		Epoch   uint64
	}
	// Reconnected: the node asks for its events again; unanswered recalls are repeated.
	Reconnected struct {
		Session fabric.SessionID
		Epoch   uint64
	}
	// Ticked: time passed. Call it a few times a second.
	Ticked struct{}
)

// Events of rights.
type (
	// Wanted asks for a right; ID is the engine's, unique in the term. A GrantEffect answers it
	// once, at once or later.
	Wanted struct {
		ID      uint64
		Session fabric.SessionID
		Epoch   uint64
		Want    Want
	}
	// Withdrawn takes back a want that is not answered yet; later ones are not held up by it.
	Withdrawn struct{ ID uint64 }
	// Logged: the W of a GrantEffect has been committed.
	Logged struct {
		Session fabric.SessionID
		Ino     fabric.Ino
	}
	// Undone: a W of a GrantEffect was not committed and never will be, and was not answered.
	Undone struct {
		Session fabric.SessionID
		Ino     fabric.Ino
	}
	// Created: a command that was applied gave the session W on a fresh inode. A GrantEffect
	// with this ID comes at once.
	Created struct {
		ID      uint64
		Session fabric.SessionID
		Epoch   uint64
		Ino     fabric.Ino
	}
	// Dropped: the log no longer has W for the session, by DropW or by a Publish with DropW.
	Dropped struct {
		Session fabric.SessionID
		Ino     fabric.Ino
	}
	// Acked is a node's answer to a recall.
	Acked struct {
		Session fabric.SessionID
		Epoch   uint64
		Ack     Ack
	}
	// Released: a node gave rights back unasked; Right 0: the file is no longer open there.
	Released struct {
		Session fabric.SessionID
		Epoch   uint64
		Grant   Grant
	}
)

// Events of changes (A12).
type (
	// Changing takes all marks of a command at once; a Proceed answers it once, at once or later.
	Changing struct {
		ID      uint64
		Session fabric.SessionID
		Epoch   uint64
		Marks   []Mark // no inode twice
	}
	// Applied: the command has been applied; marks go.
	Applied struct{ ID uint64 }
	// Failed: it never will be, or its node gave up before Proceed; marks go.
	Failed struct{ ID uint64 }
)

func (Led) event()         {}
func (Deposed) event()     {}
func (Opened) event()      {}
func (Renewed) event()     {}
func (Expired) event()     {}
func (Retired) event()     {}
func (Reconnected) event() {}
func (Ticked) event()      {}
func (Wanted) event()      {}
func (Withdrawn) event()   {}
func (Logged) event()      {}
func (Undone) event()      {}
func (Created) event()     {}
func (Dropped) event()     {}
func (Acked) event()       {}
func (Released) event()    {}
func (Changing) event()    {}
func (Applied) event()     {}
func (Failed) event()      {}

// Effect is what the leader's engine has to do.
type Effect interface{ effect() }

// The effects of Table.Step.
type (
	// LeaseEffect answers a Renewed: OK, Unavailable (refused: A13, or the term not named in
	// time), or Fenced. The engine answers the node after a barrier, and adds the wall time.
	LeaseEffect struct {
		Session fabric.SessionID
		Lease   Lease
		Code    fabric.Code
	}
	// GrantEffect answers a Wanted or Created. W must be logged before the node hears of it
	// (GrantW, then Logged or Undone); the state is read after this step. Code is OK (Right may
	// still be 0), Unavailable or Fenced.
	GrantEffect struct {
		ID      uint64
		Session fabric.SessionID
		Grant   Grant
		Code    fabric.Code
	}
	// RecallEffect is to be sent to the session; a lost one comes again after Reconnected.
	RecallEffect struct {
		Session fabric.SessionID
		Recall  Recall
	}
	// WaitingEffect: a want or change of this session waits for other nodes.
	WaitingEffect struct {
		Session fabric.SessionID
		Ino     fabric.Ino
	}
	// Proceed answers a Changing: nobody else uses what it marks (OK), or Fenced.
	Proceed struct {
		ID   uint64
		Code fabric.Code
	}
	// Expire asks for ExpireSession through the log, then Expired. It comes again until then.
	Expire struct {
		Session fabric.SessionID
		Epoch   uint64
	}
	// DropWEffect asks for DropW through the log, then Dropped.
	DropWEffect struct {
		Session fabric.SessionID
		Ino     fabric.Ino
	}
)

func (LeaseEffect) effect()   {}
func (GrantEffect) effect()   {}
func (RecallEffect) effect()  {}
func (WaitingEffect) effect() {}
func (Proceed) effect()       {}
func (Expire) effect()        {}
func (DropWEffect) effect()   {}
