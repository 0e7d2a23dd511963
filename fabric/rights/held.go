package rights

import (
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// State is what a node may do with its lease (A6).
type State uint8

// The states.
const (
	// Lapsed: nothing may be used. It is the state before the first lease, too.
	Lapsed State = iota
	// Jeopardy: a renewal is overdue. What is held may be used; take no new W.
	Jeopardy
	// Live: all is well.
	Live
)

// HeldEvent is what happened at a spoke node.
type HeldEvent interface{ heldEvent() }

// The events of Held.
type (
	// Leased: a renewal was answered. Sent is BOOTTIME before it was sent (b0).
	Leased struct {
		Sent  fabric.Instant
		Lease Lease
	}
	// Granted: a grant arrived. It is accepted (Accepted) or to be used once and not kept
	// (Discarded).
	Granted struct{ Grant Grant }
	// Recalled: a recall arrived. R and D end at once; W stays usable until Stopped, so that
	// kernels can write back (A14). A Give tells what is to be done.
	Recalled struct{ Recall Recall }
	// Stopped: observers have dropped what they held under a W that is recalled; from here on
	// it takes no new local change.
	Stopped struct{ Ino fabric.Ino }
	// Answered: the Ack is about to be sent. What is not in Ack.Kept is not used from here on.
	Answered struct{ Ack Ack }
	// Given: rights are about to be released unasked; they are not used from here on. The Release
	// names the seq that Right gave just before.
	Given struct {
		Ino   fabric.Ino
		Right Right
	}
	// Passed: time went on. Call it a few times a second.
	Passed struct{}
)

func (Leased) heldEvent()   {}
func (Granted) heldEvent()  {}
func (Recalled) heldEvent() {}
func (Stopped) heldEvent()  {}
func (Answered) heldEvent() {}
func (Given) heldEvent()    {}
func (Passed) heldEvent()   {}

// HeldEffect is what the node's engine has to do.
type HeldEffect interface{ heldEffect() }

// The effects of Held.Step.
type (
	// Accepted: Right is now held in all on Ino, under Seq.
	Accepted struct {
		Ino   fabric.Ino
		Right Right
		Seq   uint64
	}
	// Discarded: the grant gave nothing, was overtaken by a recall, or is of an older term or
	// epoch. What came with it is not to be kept.
	Discarded struct{ Grant Grant }
	// Give: carry out a recall. Had is what was held: with W flush first (A14), with 0 only the
	// question whether the file is open remains. Then Answered, and send the Ack, even where
	// Answered brings another Give: that one asks for what the Ack keeps. A recall that comes
	// again meanwhile gives nothing.
	Give struct {
		Recall Recall
		Had    Right
	}
	// NewTerm: all R and D are gone. Drop all names, attributes and kernel caches, then renew
	// with dropped = Term (A5).
	NewTerm struct{ Term fabric.Term }
	// Changed: the state is another now. At Jeopardy, kernel caches begin to be dropped; at
	// Lapsed, calls wait; at Live again after Lapsed, what was held is usable again.
	Changed struct{ From, To State }
)

func (Accepted) heldEffect()  {}
func (Discarded) heldEffect() {}
func (Give) heldEffect()      {}
func (NewTerm) heldEffect()   {}
func (Changed) heldEffect()   {}

// Held is what one session of a spoke node holds: a new session starts with a new Held. It is not
// for concurrent use, but Valid, Right and State only read.
type Held struct {
	cfg    HeldConfig
	epoch  uint64
	term   fabric.Term
	state  State
	sent   fabric.Instant // b0 of the newest lease
	length time.Duration
	until  fabric.Instant // rights are usable before this
	inodes map[fabric.Ino]held
	// revoked has, per inode, the newest seq that a recall named: a grant up to it that arrives
	// later is discarded (A15). floor stands for all entries that were dropped to bound it.
	revoked map[fabric.Ino]uint64
	floor   uint64
}

// held is what is held on one inode, or what is being given back. recalled: the recall asked has
// a Give under way, and is not given twice; right is W until the Answered, else 0. stopped: W takes
// no changes.
type held struct {
	right    Right
	seq      uint64
	asked    uint64
	recalled bool
	stopped  bool
	kind     RecallKind
}

// HeldConfig bounds a Held.
type HeldConfig struct {
	// MaxRevoked is how many recalled inodes are remembered one by one; beyond, all grants up to
	// the newest recall are discarded when they arrive. Default 65536: 3 MB.
	MaxRevoked int
}

// WithDefaults fills fields that are 0.
func (c HeldConfig) WithDefaults() HeldConfig {
	if c.MaxRevoked == 0 {
		c.MaxRevoked = 64 << 10
	}
	return c
}

// NewHeld is a node's side of a session of that epoch: Lapsed, holding nothing.
func NewHeld(epoch uint64, cfg HeldConfig) *Held {
	return &Held{cfg: cfg.WithDefaults(), epoch: epoch,
		inodes: map[fabric.Ino]held{}, revoked: map[fabric.Ino]uint64{}}
}

// Valid says whether all of r may be used on ino at now. W includes R and D. Ask before the work
// and again before the reply (A7). It reads only, and allocates nothing.
func (h *Held) Valid(now fabric.Instant, ino fabric.Ino, r Right) bool {
	if now >= h.until {
		return false
	}
	x, ok := h.inodes[ino]
	if !ok {
		return false
	}
	return r&^x.usable() == 0
}

// usable is what may be used while the lease is good.
func (x held) usable() Right {
	if x.right&W == 0 {
		return x.right
	}
	if !x.stopped {
		return x.right | R | D
	}
	// Until the Ack nobody else can change it: what is kept under Shared stays readable.
	if x.kind == Shared {
		return x.right&^W | R
	}
	return 0
}

// Right is what is held on ino whatever the lease, and the seq of its newest grant; 0 if nothing.
func (h *Held) Right(ino fabric.Ino) (Right, uint64) {
	x := h.inodes[ino]
	return x.right, x.seq
}

// Recalled says whether what is or was held on ino is being given back and not yet answered.
func (h *Held) Recalled(ino fabric.Ino) bool { return h.inodes[ino].recalled }

// Len is the number of inodes on which something is held.
func (h *Held) Len() int { return len(h.inodes) }

// Term is the newest term seen; Epoch the session's.
func (h *Held) Term() fabric.Term { return h.term }

// Epoch is the session's.
func (h *Held) Epoch() uint64 { return h.epoch }

// Until is when the lease lapses.
func (h *Held) Until() fabric.Instant { return h.until }

// State is the state at now.
func (h *Held) State(now fabric.Instant) State {
	switch {
	case now >= h.until:
		return Lapsed
	case now >= h.sent.Add(JeopardyAfter(h.length)):
		return Jeopardy
	}
	return Live
}

// NextRenewal is when the next renewal is to be sent, if the last was answered.
func (h *Held) NextRenewal() fabric.Instant { return h.sent.Add(RenewEvery(h.length)) }

// Step tells h what happened and appends what is to be done.
func (h *Held) Step(now fabric.Instant, e HeldEvent, out []HeldEffect) []HeldEffect {
	switch e := e.(type) {
	case Leased:
		out = h.leased(e, out)
	case Granted:
		out = h.granted(e.Grant, out)
	case Recalled:
		out = h.recalled(e.Recall, out)
	case Stopped:
		if x, ok := h.inodes[e.Ino]; ok && x.recalled {
			x.stopped = true
			h.inodes[e.Ino] = x
		}
	case Answered:
		out = h.answered(e.Ack, out)
	case Given:
		// Grants up to it that are still on their way give nothing: the table takes the Release,
		// which names this seq, for all of them (seed 18).
		if x, ok := h.inodes[e.Ino]; ok && x.right != 0 {
			h.revoke(e.Ino, x.seq)
			h.keep(e.Ino, ^e.Right)
		}
	}
	if s := h.State(now); s != h.state {
		out = append(out, Changed{From: h.state, To: s})
		h.state = s
	}
	return out
}

func (h *Held) leased(e Leased, out []HeldEffect) []HeldEffect {
	if e.Lease.Epoch != h.epoch || e.Lease.Term < h.term {
		return out // an old answer extends nothing
	}
	out = h.meet(e.Lease.Term, out)
	if e.Sent < h.sent && h.length != 0 {
		return out
	}
	h.sent, h.length = e.Sent, e.Lease.Length
	h.until = max(h.until, e.Sent.Add(Usable(e.Lease.Length)))
	return out
}

// meet learns of a term: R and D of older ones are gone, W is in the log and stays (A5).
func (h *Held) meet(t fabric.Term, out []HeldEffect) []HeldEffect {
	if t <= h.term {
		return out
	}
	first := h.term == 0
	h.term = t
	if first {
		return out
	}
	for ino, x := range h.inodes { // order does not matter: no effect, one result
		if x.right&W == 0 {
			delete(h.inodes, ino)
			continue
		}
		x.right = W
		if x.stopped {
			// Its return may be in the log already: then the new leader knows of nothing here, and
			// nothing may stay in use (seed 554).
			x.kind = Take
		}
		h.inodes[ino] = x
	}
	return append(out, NewTerm{Term: t})
}

func (h *Held) granted(g Grant, out []HeldEffect) []HeldEffect {
	if g.Epoch != h.epoch || g.Term < h.term {
		return append(out, Discarded{Grant: g})
	}
	out = h.meet(g.Term, out)
	if g.Right == 0 || g.Seq <= h.floor || g.Seq <= h.revoked[g.Ino] {
		return append(out, Discarded{Grant: g})
	}
	x := h.inodes[g.Ino]
	x.right |= g.Right
	x.seq = max(x.seq, g.Seq)
	h.inodes[g.Ino] = x
	return append(out, Accepted{Ino: g.Ino, Right: x.right, Seq: x.seq})
}

func (h *Held) recalled(r Recall, out []HeldEffect) []HeldEffect {
	if r.Term < h.term {
		return out // its leader is gone, and so is what it granted but W, which the new one recalls
	}
	out = h.meet(r.Term, out)
	h.revoke(r.Ino, r.Seq)
	x, ok := h.inodes[r.Ino]
	if !ok || x.seq > r.Seq {
		// Nothing that it revokes is held: an old recall, or one that overtook its grant.
		return append(out, Give{Recall: r})
	}
	if x.recalled && r.Seq <= x.asked {
		// It is being carried out already. An answer now would come before its invalidations; when
		// more is asked than then, answered says so.
		if r.Kind == Take {
			x.kind = Take
			h.inodes[r.Ino] = x
		}
		return out
	}
	had := x.right
	if had&W != 0 || r.Kind == Take {
		x.recalled, x.asked, x.kind = true, r.Seq, r.Kind
		if had&W == 0 {
			x.right = 0
		}
		h.inodes[r.Ino] = x
	}
	return append(out, Give{Recall: r, Had: had})
}

func (h *Held) revoke(ino fabric.Ino, seq uint64) {
	if seq <= h.floor || seq <= h.revoked[ino] {
		return
	}
	if len(h.revoked) >= h.cfg.MaxRevoked {
		for _, s := range h.revoked { // order does not matter: the maximum
			h.floor = max(h.floor, s)
		}
		h.floor = max(h.floor, seq)
		clear(h.revoked)
		return
	}
	h.revoked[ino] = seq
}

func (h *Held) answered(a Ack, out []HeldEffect) []HeldEffect {
	x, ok := h.inodes[a.Ino]
	if !ok || x.seq > a.Seq || a.Left > 0 {
		return out
	}
	if x.recalled && x.kind == Take && x.right&W != 0 && a.Kept != 0 {
		// Less was asked when it began: what it means to keep is asked back too.
		x.right, x.stopped = 0, false
		h.inodes[a.Ino] = x
		return append(out, Give{Recall: Recall{Ino: a.Ino, Kind: Take, Seq: x.asked, Term: h.term}, Had: R})
	}
	h.keep(a.Ino, a.Kept)
	return out
}

// keep cuts what is held on ino down to kept. What was W leaves R, if that is kept.
func (h *Held) keep(ino fabric.Ino, kept Right) {
	x, ok := h.inodes[ino]
	if !ok {
		return
	}
	have := x.right
	if have&W != 0 {
		have |= R
	}
	if x.right = have & kept; x.right == 0 {
		delete(h.inodes, ino)
		return
	}
	if x.right&W == 0 {
		x.recalled, x.stopped = false, false
	}
	h.inodes[ino] = x
}

var stateNames = [...]string{"lapsed", "jeopardy", "live"}

// String is the state in words.
func (s State) String() string { return stateNames[s] }
