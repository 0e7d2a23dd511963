// Package model is hub.Log as a seeded model, for tests and simulation: one group's log that can
// answer Unknown to a proposal which commits at once, later, or never, and that changes its
// leader when told. Given the same seed and the same order of calls it does the same. It keeps
// nothing on disk, and starts no goroutine.
package model

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/spokefs/spokefs/fabric"
)

// Config says what goes wrong. The zero value is a log that never fails.
type Config struct {
	Seed uint64
	// Unknown is the share of proposals that are answered Unknown. A third each commits at once,
	// commits within the next Late entries or at the next election, and never commits. Exactly
	// once must survive.
	Unknown float64
	// Late bounds how many entries a late one may lag. Default 8.
	Late int
	// Refused is the share of proposals and barriers that are answered Unavailable, not proposed.
	Refused float64
}

// Apply carries out a committed command.
type Apply func(index uint64, cmd []byte) (result []byte)

// Log is the model. Calls may overlap; they take effect one at a time.
type Log struct {
	cfg   Config
	apply Apply

	mu      sync.Mutex // guards all below, and is held while apply runs
	rng     *rand.Rand
	index   uint64
	term    fabric.Term
	ours    bool
	changed chan struct{}
	limbo   []entry
	counts  Counts
}

// entry is a proposal answered Unknown that may commit yet.
type entry struct {
	cmd []byte
	at  uint64 // index from which on it commits
}

// Counts is what happened.
type Counts struct {
	Entries  int // committed, barriers included
	Barriers int
	Unknown  int // answers
	Late     int // of them committed later
	Lost     int // of them never committed
}

// New makes a log that leads its first term.
func New(cfg Config, apply Apply) *Log {
	if cfg.Late == 0 {
		cfg.Late = 8
	}
	return &Log{cfg: cfg, apply: apply, rng: rand.New(rand.NewPCG(cfg.Seed, 1)),
		term: 1, ours: true, changed: make(chan struct{})}
}

// Propose implements hub.Log.
func (l *Log) Propose(ctx context.Context, cmd []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, fabric.Unavailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ours || l.rng.Float64() < l.cfg.Refused {
		return nil, fabric.Unavailable
	}
	if l.rng.Float64() >= l.cfg.Unknown {
		return l.commit(cmd), nil
	}
	l.counts.Unknown++
	switch l.rng.IntN(3) {
	case 0:
		l.commit(cmd)
	case 1:
		l.limbo = append(l.limbo, entry{append([]byte(nil), cmd...), l.index + 1 + uint64(l.rng.IntN(l.cfg.Late))})
	default:
		l.counts.Lost++
	}
	return nil, fabric.Unknown
}

// Barrier implements hub.Log.
func (l *Log) Barrier(ctx context.Context) error {
	if ctx.Err() != nil {
		return fabric.Unavailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ours || l.rng.Float64() < l.cfg.Refused {
		return fabric.Unavailable
	}
	l.counts.Barriers++
	l.entry()
	return nil
}

// Leading implements hub.Log.
func (l *Log) Leading() (fabric.Term, bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.ours, l.changed
}

// Depose ends this node's leadership; others may commit meanwhile: what is in limbo may.
func (l *Log) Depose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ours {
		return
	}
	l.ours = false
	l.turn()
}

// Elect makes this node the leader of a new term.
func (l *Log) Elect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	limbo := l.limbo
	l.limbo = nil
	for _, e := range limbo {
		if l.rng.IntN(2) == 0 {
			l.counts.Late++
			l.commit(e.cmd)
		} else {
			l.counts.Lost++
		}
	}
	l.term++
	l.ours = true
	l.turn()
}

// Counts reads what happened so far.
func (l *Log) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

func (l *Log) turn() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Log) commit(cmd []byte) []byte {
	l.entry()
	return l.apply(l.index, cmd)
}

// entry takes an index, after the late entries that are due.
func (l *Log) entry() {
	for len(l.limbo) > 0 && l.limbo[0].at <= l.index+1 {
		e := l.limbo[0]
		l.limbo = l.limbo[1:]
		l.index++
		l.counts.Entries++
		l.counts.Late++
		l.apply(l.index, e.cmd)
	}
	l.index++
	l.counts.Entries++
}
