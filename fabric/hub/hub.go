package hub

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/pack"
)

// State is the committed state of the group at this node.
type State interface {
	// View is a consistent read view; it must not be written. done frees it.
	View() (v kv.View, done func())
}

// Packs keeps the namespace's blobs, and finds them by the same state; *pack.Store satisfies it.
type Packs interface {
	Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error]
	FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error]
	// PutFor stores blobs on behalf of a session, which gets their pins.
	PutFor(ctx context.Context, c storage.Class, owner pack.Owner, blobs []storage.Blob) error
}

// Config bounds a Namespace.
type Config struct {
	// Rights bounds the table.
	Rights rights.Config
	// Tick is the time between looks at leases and recalls. Default 250 ms: it is added to M.
	Tick time.Duration
	// MaxSessions is how many nodes may be attached. Default 4096.
	MaxSessions int
	// MaxCalls is how many calls of one session may be under way; more wait. Default 1024: as
	// many as its slots can have and some readers.
	MaxCalls int
	// MaxChanges is how many commands may be under way in the group; more wait. Default 8192.
	MaxChanges int
	// MaxWants is how many wants one Acquire may have. Default 4096.
	MaxWants int
	// MaxOpen is how many open files a renewal may name. Default 1 M.
	MaxOpen int
	// MaxPage is how many entries one List answers at most. Default 1024: a message of 4 MiB.
	MaxPage int
	// MaxFirst is how many first bytes a Lookup brings at most. Default 1 MiB.
	MaxFirst int
	// MaxMessages is how many recalls and notices wait for one node's stream; beyond, the stream
	// ends, and the next one begins with all recalls not answered. Default 65536.
	MaxMessages int
	// ListWait is how long a List waits for files that others write (A11). Default 5 s.
	ListWait time.Duration
	// Races is how often a request that raced with changes starts over. Default 32.
	Races int
}

// WithDefaults fills fields that are 0.
func (c Config) WithDefaults() Config {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	c.Rights = c.Rights.WithDefaults()
	if c.Tick == 0 {
		c.Tick = 250 * time.Millisecond
	}
	if c.ListWait == 0 {
		c.ListWait = 5 * time.Second
	}
	set(&c.MaxSessions, 4096)
	set(&c.MaxCalls, 1024)
	set(&c.MaxChanges, 8192)
	set(&c.MaxWants, 4096)
	set(&c.MaxOpen, 1<<20)
	set(&c.MaxPage, 1024)
	set(&c.MaxFirst, 1<<20)
	set(&c.MaxMessages, 64<<10)
	set(&c.Races, 32)
	return c
}

// Deps are the edges of a Namespace.
type Deps struct {
	Log   Log
	State State
	Packs Packs
	Boot  func() fabric.Instant // CLOCK_BOOTTIME
	Wall  func() time.Time      // stamps only
	Rand  io.Reader             // session ids and secrets: crypto/rand
	Slog  *slog.Logger
}

// Namespace serves one group while this node leads it.
type Namespace struct {
	cfg     Config
	deps    Deps
	asks    chan chan error // for a barrier; unbuffered: who comes during a round waits for the next
	changes chan struct{}   // one per command under way

	mu sync.Mutex // guards all below
	// term is the term that is led and was read into the table; 0: none. reign ends with it.
	term     fabric.Term
	reign    context.Context
	ready    chan struct{} // closed while term is not 0, replaced when it ends
	table    *rights.Table
	effects  []rights.Effect
	sessions map[fabric.SessionID]*Session
	next     uint64
	waits    map[uint64]*wait
	lease    rights.LeaseEffect // of the step just made
	chores   chores
	wake     chan struct{} // of the clerk; room for one
	// creations are commands under way that may make an inode with W, oldest first. An inode up
	// to base of the first one is settled: the table knows of its W.
	creations []*creation
	highest   fabric.Ino
	counts    Counts
}

// chores is what the table wants logged.
type chores struct {
	drops    []rights.DropWEffect
	expire   []rights.Expire
	expiring map[fabric.SessionID]bool // asked for and not applied
}

// New makes a Namespace. It does nothing until Run.
func New(cfg Config, deps Deps) *Namespace {
	cfg = cfg.WithDefaults()
	n := &Namespace{
		cfg: cfg, deps: deps,
		asks:    make(chan chan error),
		changes: make(chan struct{}, cfg.MaxChanges),
		ready:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		table:   rights.NewTable(cfg.Rights),
	}
	n.forget()
	return n
}

func (n *Namespace) forget() {
	n.sessions = map[fabric.SessionID]*Session{}
	n.waits = map[uint64]*wait{}
	n.chores = chores{expiring: map[fabric.SessionID]bool{}}
	n.creations, n.highest = nil, 0
}

// Run serves until ctx ends. Requests made while it does not run wait, or answer Unavailable.
func (n *Namespace) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { n.barriers(ctx) })
	defer wg.Wait()
	for ctx.Err() == nil {
		term, ours, changed := n.deps.Log.Leading()
		if ours {
			n.serve(ctx, term, changed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// serve leads for one term.
func (n *Namespace) serve(ctx context.Context, term fabric.Term, changed <-chan struct{}) {
	reign, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		select {
		case <-changed:
		case <-reign.Done():
		}
		end()
	})
	for !n.lead(reign, term) {
		select {
		case <-reign.Done():
			return
		case <-time.After(n.cfg.Tick):
		}
	}
	defer n.depose()
	wg.Go(func() { n.clerk(reign) })
	tick := time.NewTicker(n.cfg.Tick)
	defer tick.Stop()
	for {
		select {
		case <-reign.Done():
			return
		case <-tick.C:
			n.step(rights.Ticked{})
			n.alarm()
		}
	}
}

// lead reads what the log knows into the table, after an entry of our own (A5).
func (n *Namespace) lead(reign context.Context, term fabric.Term) bool {
	if err := n.barrier(reign); err != nil {
		return false
	}
	if t, ours, _ := n.deps.Log.Leading(); t != term || !ours {
		return false
	}
	led := n.committed(term)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget()
	n.term, n.reign = term, reign
	n.apply(led.event)
	for _, s := range led.sessions {
		n.sessions[s.ID] = n.newSession(s)
	}
	close(n.ready)
	n.deps.Slog.Info("leading", "term", term, "sessions", len(led.sessions), "w", len(led.event.W))
	return true
}

// depose fails all that waits; what it asked may still happen.
func (n *Namespace) depose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deps.Slog.Info("no longer leading", "term", n.term)
	n.term = 0
	n.ready = make(chan struct{})
	for _, w := range n.waits {
		w.fail(fabric.Unavailable)
	}
	for _, s := range n.sessions {
		s.lose()
	}
	for _, c := range n.creations {
		close(c.done)
	}
	n.apply(rights.Deposed{})
	n.forget()
}

// Counts only grow, over terms too; metrics read them from a Status.
type Counts struct {
	Applied  uint64 // commands
	Raced    uint64 // attempts that were repeated with other marks
	Granted  uint64 // answers with a right
	Refused  uint64 // answers without
	Recalls  uint64 // sent, repetitions included
	Expired  uint64 // sessions
	Barriers uint64 // rounds; each serves all who wait
}

// Status is a snapshot for operators and metrics.
type Status struct {
	Rights   rights.Stats
	Counts   Counts
	Sessions []SessionStatus
	Creating int // commands under way that may make files with W
}

// SessionStatus is one session of a Status.
type SessionStatus struct {
	ID       fabric.SessionID
	Node     string
	Epoch    uint64
	ReadOnly bool
	Messages int // waiting for its stream
}

// Status reads what is there now.
func (n *Namespace) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := Status{Rights: n.table.Stats(), Counts: n.counts, Creating: len(n.creations)}
	for _, s := range n.sessions {
		st.Sessions = append(st.Sessions, SessionStatus{ID: s.id, Node: s.node, Epoch: s.epoch,
			ReadOnly: s.readOnly, Messages: len(s.messages)})
	}
	sortStatus(st.Sessions)
	return st
}
