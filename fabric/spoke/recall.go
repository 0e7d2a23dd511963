package spoke

import (
	"context"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/rights"
)

// events reads the hub's messages for a session, again after each break: recalls not answered
// come again then.
func (s *Spoke) events(ss *session) {
	var pause time.Duration
	for ss.ctx.Err() == nil {
		for m, err := range ss.link.Hub.Events(ss.ctx) {
			if err != nil {
				break
			}
			pause = 0
			if r, ok := m.(*rights.Recall); ok {
				s.recall(ss, *r)
			}
		}
		if !backoff(ss.ctx, &pause) {
			return
		}
	}
}

// recall begins to give a right back. It never waits: what takes time has its own goroutine, of
// which there is at most one per recall, and the hub bounds those.
func (s *Spoke) recall(ss *session, r rights.Recall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carryOut(ss, s.stepLocked(ss, rights.Recalled{Recall: r}))
}

// carryOut begins what a step asks to give back. What R and D protected is not used from here on.
// mu is held.
func (s *Spoke) carryOut(ss *session, out []rights.HeldEffect) {
	for _, e := range out {
		give, ok := e.(rights.Give)
		if !ok {
			continue
		}
		r := give.Recall
		if give.Had&rights.W == 0 {
			if n := s.inodes[r.Ino]; n != nil {
				n.known = false
			}
			if r.Kind == rights.Take || give.Had&rights.D == 0 {
				delete(s.dirs, r.Ino)
			}
		}
		s.done.Go(func() { s.give(ss, give) })
	}
}

// give carries out a recall in the order of A14: observers first, with W still usable so that
// kernels can write back; then stop, flush, acknowledge.
func (s *Spoke) give(ss *session, g rights.Give) {
	ino := g.Recall.Ino
	ack := rights.Ack{Ino: ino, Seq: g.Recall.Seq}
	if g.Had != 0 {
		keys := []fabric.Key{{Kind: fabric.KeyPages, Ino: ino}}
		if g.Had&rights.D != 0 {
			keys = []fabric.Key{{Kind: fabric.KeyAttr, Ino: ino}}
			if g.Recall.Name != "" {
				keys = append(keys, fabric.Key{Kind: fabric.KeyEntry, Ino: ino, Name: g.Recall.Name})
			}
		}
		s.invalidate(ss.ctx, keys, 0)
	}
	if g.Had&rights.W != 0 {
		if !s.giveW(ss, g.Recall) {
			return
		}
		if g.Recall.Kind == rights.Shared {
			ack.Kept = rights.R
		}
	} else if g.Recall.Kind == rights.Shared {
		ack.Kept = g.Had
	}
	s.mu.Lock()
	n := s.inodes[ino]
	if ack.Open = n != nil && n.opens > 0; ack.Open {
		n.told = true
	}
	if n != nil && ack.Kept == 0 {
		n.known = false
	}
	next := s.stepLocked(ss, rights.Answered{Ack: ack})
	s.mu.Unlock()
	var pause time.Duration
	for ss.link.Hub.Ack(ss.ctx, []rights.Ack{ack}) != nil {
		if !backoff(ss.ctx, &pause) {
			return
		}
	}
	s.mu.Lock() // a recall that came meanwhile has waited for this answer
	defer s.mu.Unlock()
	s.carryOut(ss, next)
}

// giveW stops local changes, and flushes what there is.
func (s *Spoke) giveW(ss *session, r rights.Recall) bool {
	s.mu.Lock()
	s.stepLocked(ss, rights.Stopped{Ino: r.Ino})
	n := s.inodes[r.Ino]
	s.mu.Unlock()
	if n == nil || n.file == nil {
		return true
	}
	n.file.settle()
	var pause time.Duration
	for {
		err := s.flushFile(ss.ctx, n.file, false)
		if err == nil {
			return true
		}
		if fabric.CodeOf(err) == fabric.Fenced {
			return true // parked
		}
		s.deps.Slog.Warn("a recall waits for a flush", "ino", r.Ino, "err", err)
		if !backoff(ss.ctx, &pause) {
			return false
		}
	}
}

// watcher is a registered observer.
type watcher struct {
	id fabric.Watcher
	o  fabric.Observer
}

// watch registers an observer.
func (s *Spoke) watch(o fabric.Observer) (fabric.Watcher, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher++
	id := s.watcher
	s.watchers[id] = &watcher{id, o}
	return id, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}
}

// others lists the observers but one.
func (s *Spoke) others(skip fabric.Watcher) []*watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) == 0 || len(s.watchers) == 1 && s.watchers[skip] != nil {
		return nil
	}
	out := make([]*watcher, 0, len(s.watchers))
	for id, w := range s.watchers {
		if id != skip {
			out = append(out, w)
		}
	}
	return out
}

// observerTime bounds what one observer may take before its kernel is taken to be stuck; the
// lease bounds the harm.
const observerTime = 10 * time.Second

// invalidate makes observers drop keys, and returns when they have.
func (s *Spoke) invalidate(ctx context.Context, keys []fabric.Key, skip fabric.Watcher) {
	for _, w := range s.others(skip) {
		c, cancel := context.WithTimeout(ctx, observerTime)
		if err := w.o.Invalidate(c, keys); err != nil && ctx.Err() == nil {
			s.deps.Slog.Warn("an observer did not drop what it holds", "watcher", w.id, "err", err)
		}
		cancel()
	}
}

// invalidateAll makes observers drop everything.
func (s *Spoke) invalidateAll(ctx context.Context) {
	for _, w := range s.others(0) {
		c, cancel := context.WithTimeout(ctx, observerTime)
		if err := w.o.InvalidateAll(c); err != nil && ctx.Err() == nil {
			s.deps.Slog.Warn("an observer did not drop all it holds", "watcher", w.id, "err", err)
		}
		cancel()
	}
}

// touch tells the node's other observers of a local change of content.
func (s *Spoke) touch(ctx context.Context, ino fabric.Ino, off, n int64, skip fabric.Watcher) {
	if len(s.others(skip)) > 0 {
		s.invalidate(ctx, []fabric.Key{{Kind: fabric.KeyPages, Ino: ino, Off: off, Len: n}}, skip)
	}
}
