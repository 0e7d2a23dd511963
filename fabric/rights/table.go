package rights

import (
	"bytes"
	"slices"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// Config bounds a Table.
type Config struct {
	// Lease is L, for all sessions. Default 15 s.
	Lease time.Duration
	// MaxRights is on how many inodes a session may hold rights; the oldest are asked back, and
	// none are granted meanwhile (A18). Default 1 M: coherence.md 1.10.
	MaxRights int
	// EvictPerTick is how many rights over MaxRights are asked back of a session in one tick, so
	// that a full session does not flood its node. Default 64.
	EvictPerTick int
	// A directory whose rights were recalled HotRecalls times within HotWindow grants none for
	// HotRest (A18). Defaults 8, 1 s, 5 s.
	HotRecalls int
	HotWindow  time.Duration
	HotRest    time.Duration
	// MaxQueue is how many wants may wait on one inode; more are answered Unavailable. Default
	// 4096: each node of a large fabric once.
	MaxQueue int
}

// WithDefaults fills fields that are 0.
func (c Config) WithDefaults() Config {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	dur := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	dur(&c.Lease, DefaultLease)
	set(&c.MaxRights, 1<<20)
	set(&c.EvictPerTick, 64)
	set(&c.HotRecalls, 8)
	dur(&c.HotWindow, time.Second)
	dur(&c.HotRest, 5*time.Second)
	set(&c.MaxQueue, 4096)
	return c
}

// Table is the leader's side of all rights of a group. Step is its only way in; the rest reads. It
// is not for concurrent use. Memory is bounded by MaxRights per session, MaxQueue per inode, and
// the changes that the engine lets in.
type Table struct {
	cfg      Config
	term     fabric.Term
	leading  bool
	led      fabric.Instant
	sessions map[fabric.SessionID]*session
	order    []*session // by id: what is done for all is done in this order
	unnamed  int        // sessions that have not named this term: changes and W wait (A5)
	inodes   map[fabric.Ino]*inode
	wants    map[uint64]*want
	changes  map[uint64]*change
	recalls  []*holder // with a recall out, oldest first; settled ones leave at the next tick
	stalled  []*inode  // where something waits for unnamed to become 0
	resting  []*inode  // hot directories: kept until their rest is over
	granted  int       // inodes × sessions with rights
}

// session is one node's standing.
type session struct {
	id       fabric.SessionID
	epoch    uint64
	heard    fabric.Instant // h1: the last renewal, or the start of this leadership (A4)
	seq      uint64         // of the newest grant
	named    bool
	retired  bool // its renewals are refused (A10)
	expiring bool // an Expire is out: nothing more is granted or renewed
	overdue  int  // recalls not answered in time: renewals are refused (A13)
	rights   int  // inodes with right != 0
	// oldest and newest are the ends of the list of its holders, by last grant.
	oldest, newest *holder
}

// holder is what one session has on one inode: right may be 0 while open or recalled.
type holder struct {
	s     *session
	i     *inode
	right Right
	seq   uint64 // newest grant
	open  bool   // a file on it is open there, by its own word (A30)

	// A recall is out. It ends when right has come down to what kind leaves.
	recalled bool
	kind     RecallKind
	since    fabric.Instant
	listed   bool // in Table.recalls
	overdue  bool

	// W comes and goes through the log: logging counts GrantW under way, logged says that one was
	// committed, dropping lasts until a DropW is, and kept then remains.
	logging  int
	logged   bool
	dropping bool
	kept     Right

	prev, next *holder // in the session's list
}

type inode struct {
	ino     fabric.Ino
	holders []*holder // by arrival
	changes []*change // under way on it; it is pending while there are any (A12)
	queue   []*want   // first come, first served
	stalled bool      // in Table.stalled

	recalls int // of rights on a directory, since window began
	window  fabric.Instant
	rest    fabric.Instant // no grants before this
	resting bool           // in Table.resting
}

type want struct {
	id   uint64
	s    *session
	i    *inode
	want Want
	told bool // a WaitingEffect was given
}

type change struct {
	id        uint64
	s         *session
	inodes    []*inode
	proceeded bool
	told      bool
}

// NewTable is a table that does not lead yet.
func NewTable(cfg Config) *Table {
	t := &Table{cfg: cfg.WithDefaults()}
	t.reset()
	return t
}

func (t *Table) reset() {
	*t = Table{cfg: t.cfg, term: t.term,
		sessions: map[fabric.SessionID]*session{}, inodes: map[fabric.Ino]*inode{},
		wants: map[uint64]*want{}, changes: map[uint64]*change{}}
}

// Step tells t what happened and appends what is to be done, in order.
func (t *Table) Step(now fabric.Instant, e Event, out []Effect) []Effect {
	switch e := e.(type) {
	case Led:
		t.lead(now, e)
	case Deposed:
		t.reset()
	case Opened:
		t.open(now, e.Session, e.Epoch, true)
	case Renewed:
		return t.renewed(now, e, out)
	case Expired:
		return t.expired(now, e, out)
	case Retired:
		if s := t.session(e.Session, e.Epoch); s != nil {
			s.retired = true
		}
	case Reconnected:
		return t.reconnected(e, out)
	case Ticked:
		return t.tick(now, out)
	case Wanted:
		return t.wanted(now, e, out)
	case Withdrawn:
		return t.withdrawn(now, e.ID, out)
	case Logged:
		return t.logged(e, out)
	case Undone:
		return t.undone(now, e, out)
	case Created:
		return t.created(now, e, out)
	case Dropped:
		return t.dropped(now, e, out)
	case Acked:
		return t.acked(now, e, out)
	case Released:
		return t.released(now, e, out)
	case Changing:
		return t.changing(now, e, out)
	case Applied:
		return t.unmark(now, e.ID, out)
	case Failed:
		return t.unmark(now, e.ID, out)
	}
	return out
}

// lead takes over: W is known from the log, R and D of older terms are not, so changes and W
// wait until each session has named this term (A5).
func (t *Table) lead(now fabric.Instant, e Led) {
	t.reset()
	t.term, t.leading, t.led = e.Term, true, now
	for _, l := range e.Sessions {
		t.open(now, l.Session, l.Epoch, false)
	}
	for _, w := range e.W {
		s := t.sessions[w.Session]
		if s == nil {
			continue // cannot be: the log drops W with its session
		}
		h := t.holder(t.inode(w.Ino), s)
		h.seq, h.logged = s.seq, true
		t.setRight(h, W)
	}
}

func (t *Table) open(now fabric.Instant, id fabric.SessionID, epoch uint64, named bool) {
	if !t.leading || t.sessions[id] != nil {
		return
	}
	// Seqs grow over terms, so that a recall covers what an older leader granted.
	s := &session{id: id, epoch: epoch, heard: now, named: named, seq: uint64(t.term) << 32}
	t.sessions[id] = s
	if !named {
		t.unnamed++
	}
	at, _ := slices.BinarySearchFunc(t.order, id, bySession)
	t.order = slices.Insert(t.order, at, s)
}

func bySession(s *session, id fabric.SessionID) int { return bytes.Compare(s.id[:], id[:]) }

// session finds a live one, nil for another epoch.
func (t *Table) session(id fabric.SessionID, epoch uint64) *session {
	if s := t.sessions[id]; s != nil && s.epoch == epoch {
		return s
	}
	return nil
}

func (t *Table) renewed(now fabric.Instant, e Renewed, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return append(out, LeaseEffect{Session: e.Session, Code: fabric.Fenced})
	}
	names := s.named || e.Dropped >= t.term
	late := !names && now >= t.led.Add(ExpireAfter(t.cfg.Lease))
	if s.expiring || s.retired || s.overdue > 0 || late {
		return append(out, LeaseEffect{Session: s.id, Code: fabric.Unavailable})
	}
	s.heard = now
	for _, ino := range e.Open {
		t.holder(t.inode(ino), s).open = true
	}
	out = append(out, LeaseEffect{Session: s.id, Lease: Lease{Epoch: s.epoch, Term: t.term, Length: t.cfg.Lease}})
	if names {
		out = t.name(now, s, out)
	}
	return out
}

// name notes that s has nothing of older terms; the last one lets changes and W go on.
func (t *Table) name(now fabric.Instant, s *session, out []Effect) []Effect {
	if s.named {
		return out
	}
	s.named = true
	t.unnamed--
	if t.unnamed > 0 {
		return out
	}
	stalled := t.stalled
	t.stalled = nil
	for _, i := range stalled {
		i.stalled = false
		out = t.settle(now, i, out)
	}
	return out
}

// expired takes a session away with all it holds and waits for.
func (t *Table) expired(now fabric.Instant, e Expired, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return out
	}
	out = t.name(now, s, out)
	delete(t.sessions, s.id)
	at, _ := slices.BinarySearchFunc(t.order, s.id, bySession)
	t.order = slices.Delete(t.order, at, at+1)
	var touched []*inode
	for h := s.oldest; h != nil; h = s.oldest {
		touched = append(touched, h.i)
		h.open, h.recalled, h.logging, h.dropping = false, false, 0, false
		t.setRight(h, 0)
		t.forget(h)
	}
	for _, i := range touched {
		out = t.settle(now, i, out)
	}
	return out
}

func (t *Table) reconnected(e Reconnected, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return out
	}
	for _, h := range t.recalls {
		if h.s == s && h.recalled && !h.dropping {
			out = append(out, t.recallOf(h))
		}
	}
	return out
}

// tick finds who is silent, who owes an answer, and which sessions and directories have too much.
func (t *Table) tick(now fabric.Instant, out []Effect) []Effect {
	if !t.leading {
		return out
	}
	t.recalls = slices.DeleteFunc(t.recalls, func(h *holder) bool {
		h.listed = h.recalled
		return !h.recalled
	})
	for _, h := range t.recalls {
		within := AckWithin(t.cfg.Lease)
		if h.right&W != 0 {
			within = FlushDeadline
		}
		if !h.overdue && !h.dropping && now >= h.since.Add(within) {
			h.overdue = true
			h.s.overdue++
		}
	}
	for _, s := range t.order {
		if s.expiring || now >= s.heard.Add(ExpireAfter(t.cfg.Lease)) {
			s.expiring = true
			out = append(out, Expire{Session: s.id, Epoch: s.epoch})
		}
		if s.rights > t.cfg.MaxRights-t.cfg.EvictPerTick {
			out = t.evict(now, s, out)
		}
	}
	t.resting = slices.DeleteFunc(t.resting, func(i *inode) bool {
		if now < i.rest || now < i.window.Add(t.cfg.HotWindow) {
			return false
		}
		i.resting = false
		t.tidy(i)
		return true
	})
	return out
}

// evict asks the oldest rights of a full session back (A18); W stays, it is dear.
func (t *Table) evict(now fabric.Instant, s *session, out []Effect) []Effect {
	n := t.cfg.EvictPerTick
	for h := s.oldest; h != nil && n > 0; h = h.next {
		if h.right != 0 && h.right&W == 0 && !h.recalled {
			out = t.recall(now, h, Take, out)
		}
		n--
	}
	return out
}

// Holders are the sessions that hold a right on ino or have it open, by what this table knows.
func (t *Table) Holders(ino fabric.Ino) []fabric.SessionID {
	i := t.inodes[ino]
	if i == nil {
		return nil
	}
	var out []fabric.SessionID
	for _, h := range i.holders {
		if h.right != 0 || h.open {
			out = append(out, h.s.id)
		}
	}
	return out
}

// Has is what a session holds on ino.
func (t *Table) Has(id fabric.SessionID, ino fabric.Ino) Right {
	i := t.inodes[ino]
	if i == nil {
		return 0
	}
	for _, h := range i.holders {
		if h.s.id == id {
			return h.right
		}
	}
	return 0
}

// Stats are counts for status and metrics.
type Stats struct {
	Term     fabric.Term
	Leading  bool
	Sessions int
	Rights   int // inodes × sessions
	Waiting  int // wants not answered
	Changes  int // marked
	Recalls  int // not answered, as of the last tick and since
	Unnamed  int // sessions that changes wait for after a change of leader
}

// Stats reads the counts.
func (t *Table) Stats() Stats {
	return Stats{Term: t.term, Leading: t.leading, Sessions: len(t.order), Rights: t.granted,
		Waiting: len(t.wants), Changes: len(t.changes), Recalls: len(t.recalls), Unnamed: t.unnamed}
}
