package spoke

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// session is a session with the hub, from Connect to its end.
type session struct {
	link   Link
	held   *rights.Held // Spoke.mu guards it
	slots  *slots
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	gone   chan struct{} // closed when the session is lost
	// dropped is the newest term whose predecessors' caches are gone here, kernels' too; named is
	// the one that a renewal has told the hub, with the open files (A5). Spoke.mu guards both.
	dropped fabric.Term
	named   fabric.Term
	// change is closed and replaced when the lease or the rights change, for those who wait.
	change chan struct{}
}

func (ss *session) end() { ss.cancel() }

// retryPause is how long a call that could not be made waits; it doubles up to retryMax.
const (
	retryPause = 20 * time.Millisecond
	retryMax   = time.Second
)

// backoff waits before a call is made again; false if ctx ends first.
func backoff(ctx context.Context, pause *time.Duration) bool {
	if *pause == 0 {
		*pause = retryPause
	}
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(2**pause, retryMax)
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect opens a session, closing the one of an old ticket first (A10).
func (s *Spoke) connect(ctx context.Context, old namespace.Ticket) (Link, error) {
	var pause time.Duration
	for {
		link, err := s.deps.Connector.Connect(ctx, old)
		if err == nil {
			return link, s.deps.Tickets.Save(link.Ticket)
		}
		if fabric.CodeOf(err) != fabric.Unavailable {
			return Link{}, fmt.Errorf("spoke: connect: %w", err)
		}
		s.deps.Slog.Debug("the hub cannot be reached yet", "err", err)
		if !backoff(ctx, &pause) {
			return Link{}, fmt.Errorf("spoke: connect: %w", err)
		}
	}
}

// start makes a link the session, and serves it.
func (s *Spoke) start(link Link) {
	ss := &session{
		link: link, held: rights.NewHeld(link.Lease.Epoch, rights.HeldConfig{}),
		slots: newSlots(), gone: make(chan struct{}), change: make(chan struct{}),
	}
	ss.ctx, ss.cancel = context.WithCancel(s.ctx)
	s.cache.SetBlobs(link.Blobs)
	s.mu.Lock()
	s.sess = ss
	s.mu.Unlock()
	// The lease of Connect began before its answer; the first renewal makes it exact.
	s.done.Go(func() { s.renewals(ss) })
	s.done.Go(func() { s.events(ss) })
}

// renewals keeps the lease, and starts over when the session is lost.
func (s *Spoke) renewals(ss *session) {
	pause := time.Duration(0)
	for ss.ctx.Err() == nil {
		err := s.renew(ss)
		switch {
		case lost(err):
			s.deps.Slog.Warn("the session is lost", "epoch", ss.link.Ticket.Epoch)
			close(ss.gone)
			ss.end()
			s.done.Go(s.reborn)
			return
		case err != nil:
			s.step(ss, rights.Passed{})
			if !backoff(ss.ctx, &pause) {
				return
			}
			continue
		}
		pause = 0
		s.mu.Lock()
		wait := ss.held.NextRenewal().Sub(s.deps.Boot())
		if ss.named != ss.dropped {
			wait = 0 // name the new term at once: others wait for it
		}
		s.mu.Unlock()
		t := time.NewTimer(max(wait, 0))
		select {
		case <-t.C:
		case <-ss.ctx.Done():
		}
		t.Stop()
	}
}

// renew sends one renewal. The term it names is one whose predecessors' caches are gone here.
func (s *Spoke) renew(ss *session) error {
	s.mu.Lock()
	if ss.dropped == 0 {
		ss.dropped = ss.held.Term() // the first term of a session has no predecessors
	}
	term := ss.dropped
	var open []fabric.Ino
	if ss.named != term {
		for ino, n := range s.inodes {
			if n.opens > 0 {
				open = append(open, ino)
			}
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ss.ctx, 5*time.Second)
	defer cancel()
	sent := s.deps.Boot()
	lease, err := ss.link.Hub.Renew(ctx, term, open)
	if err != nil {
		return err
	}
	answered := s.deps.Boot()
	s.mu.Lock()
	s.skew = rights.HubTime(lease, sent, answered, answered) - fabric.Time(s.deps.Wall().UnixNano())
	s.mu.Unlock()
	s.step(ss, rights.Leased{Sent: sent, Lease: lease})
	s.mu.Lock()
	ss.named = term
	s.mu.Unlock()
	return nil
}

// step tells the rights machine of a session what happened and carries out what is to be done.
func (s *Spoke) step(ss *session, e rights.HeldEvent) []rights.HeldEffect {
	s.mu.Lock()
	out := s.stepLocked(ss, e)
	s.mu.Unlock()
	return out
}

func (s *Spoke) stepLocked(ss *session, e rights.HeldEvent) []rights.HeldEffect {
	out := ss.held.Step(s.deps.Boot(), e, nil)
	for _, f := range out {
		switch f := f.(type) {
		case rights.NewTerm:
			s.deps.Slog.Info("a new leader at the hub: names are asked for again", "term", f.Term)
			s.forgetNames()
			s.done.Go(func() {
				s.invalidateAll(ss.ctx)
				s.mu.Lock()
				ss.dropped = max(ss.dropped, f.Term)
				s.mu.Unlock()
				s.renew(ss) // others wait for it; a failure is made good by the next one
			})
		case rights.Changed:
			s.deps.Slog.Info("lease", "state", f.To.String())
			if f.To != rights.Live && f.From == rights.Live {
				s.done.Go(func() { s.invalidateAll(ss.ctx) })
			}
			close(ss.change)
			ss.change = make(chan struct{})
		}
	}
	return out
}

// forgetNames drops all that R and D protected; what is under W stays. mu is held.
func (s *Spoke) forgetNames() {
	clear(s.dirs)
	for _, n := range s.inodes {
		n.known = false
	}
}

// reborn opens a new session after the old one was lost. Chunks stay; names are asked for again;
// what is dirty is published if nobody changed it meanwhile, else parked (A6, A27).
func (s *Spoke) reborn() {
	s.mu.Lock()
	old := s.sess.link.Ticket
	s.forgetNames()
	s.verifier++
	s.mu.Unlock()
	s.invalidateAll(s.ctx)
	link, err := s.connect(s.ctx, old)
	if err != nil {
		if s.ctx.Err() == nil {
			s.deps.Slog.Error("cannot open a session again", "err", err)
		}
		return
	}
	s.start(link)
	s.recover(s.ctx)
}

// session gives the session, once there is one; ctx bounds the wait.
func (s *Spoke) session(ctx context.Context) (*session, error) {
	var pause time.Duration
	for {
		s.mu.Lock()
		ss := s.sess
		s.mu.Unlock()
		select {
		case <-ss.gone:
		default:
			return ss, nil
		}
		if s.ctx.Err() != nil {
			return nil, fabric.Unavailable
		}
		if !backoff(ctx, &pause) {
			return nil, ended(ctx)
		}
	}
}

// ended is the error of a context's end: a deadline was set by us or a front end, and means that
// what was waited for is not to be had now.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fabric.Unavailable
	}
	return fabric.Canceled
}

// call makes a call of the hub that changes nothing, again while it is unavailable.
func call[T any](ctx context.Context, s *Spoke, f func(ctx context.Context, ss *session) (T, error)) (T, error) {
	var pause time.Duration
	for {
		var zero T
		ss, err := s.session(ctx)
		if err != nil {
			return zero, err
		}
		v, err := f(ctx, ss)
		code := fabric.CodeOf(err)
		if err == nil || code != fabric.Unavailable && code != fabric.Fenced && code != fabric.Unknown {
			return v, err
		}
		if !backoff(ctx, &pause) {
			return zero, ended(ctx)
		}
	}
}
