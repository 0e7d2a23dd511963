// Package logtest is the suite for hub.Log: the seeded model and the real log must both pass it.
// It judges a log by a machine of its own, which remembers in which order commands came.
package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/hub"
)

// Apply is what the log has to call with each committed command, in order, once per index or more
// often for commands that share one.
type Apply func(index uint64, cmd []byte) (result []byte)

// System is a log that leads.
type System struct {
	Log hub.Log
	// Disturb makes the log lose its leadership and returns once it leads again, in a later term.
	Disturb func()
}

// Run runs the suite. start gives a fresh log on apply each time; it cleans up by t.Cleanup.
func Run(t *testing.T, start func(t *testing.T, apply Apply) System) {
	for name, test := range map[string]func(t *testing.T, s *suite){
		"order": order, "concurrent": concurrent, "barrier": barrier, "empty": empty,
		"leading": leading, "canceled": canceled, "unknown": unknown,
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{t: t, at: map[string]int{}}
			s.System = start(t, s.apply)
			test(t, s)
		})
	}
}

// suite is the machine: its result is the place of a command's first application.
type suite struct {
	System
	t *testing.T

	mu    sync.Mutex // guards all below
	last  uint64
	calls int
	at    map[string]int
}

func (s *suite) apply(index uint64, cmd []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index < s.last {
		s.t.Errorf("index %d came after %d", index, s.last)
	}
	s.last = index
	s.calls++
	at, ok := s.at[string(cmd)]
	if !ok {
		at = len(s.at) + 1
		s.at[string(cmd)] = at
	}
	return fmt.Appendf(nil, "%d:%s", at, cmd)
}

func (s *suite) applied(cmd string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[cmd] > 0
}

// send proposes until the outcome is known, as the contract of hub.Log has it.
func (s *suite) send(cmd string) (at int, err error) {
	for {
		res, err := s.Log.Propose(s.t.Context(), []byte(cmd))
		switch {
		case err == nil:
			var back string
			if n, err := fmt.Sscanf(string(res), "%d:%s", &at, &back); n != 2 || err != nil || back != cmd {
				return 0, fmt.Errorf("%q was answered %q", cmd, res)
			}
			return at, nil
		case errors.Is(err, fabric.Unknown), errors.Is(err, fabric.Unavailable):
		default:
			return 0, fmt.Errorf("propose: %w, which has neither Unknown nor Unavailable", err)
		}
	}
}

// order: one after the other, each gets its own result, in that order.
func order(t *testing.T, s *suite) {
	last := 0
	for i := range 50 {
		at, err := s.send(fmt.Sprintf("c%d", i))
		if err != nil || at <= last {
			t.Fatalf("command %d came as %d after %d: %v", i, at, last, err)
		}
		last = at
	}
}

// concurrent: many at once, each gets its own result, all have places.
func concurrent(t *testing.T, s *suite) {
	const workers, each = 16, 25
	var wg sync.WaitGroup
	seen := make(chan int, workers*each)
	for w := range workers {
		wg.Go(func() {
			last := 0
			for i := range each {
				at, err := s.send(fmt.Sprintf("w%d.%d", w, i))
				if err != nil || at <= last {
					t.Errorf("worker %d: %d after %d: %v", w, at, last, err)
					return
				}
				last = at
				seen <- at
			}
		})
	}
	wg.Wait()
	close(seen)
	places := map[int]bool{}
	for at := range seen {
		if places[at] {
			t.Errorf("place %d was given twice", at)
		}
		places[at] = true
	}
	if len(places) != workers*each {
		t.Errorf("%d results of %d", len(places), workers*each)
	}
}

// barrier: what was answered before a barrier was asked for is applied here once it returns, and
// many may wait at once.
func barrier(t *testing.T, s *suite) {
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				cmd := fmt.Sprintf("b%d.%d", w, i)
				if _, err := s.send(cmd); err != nil {
					t.Error(err)
					return
				}
				err := s.Log.Barrier(t.Context())
				for errors.Is(err, fabric.Unavailable) || errors.Is(err, fabric.Unknown) {
					err = s.Log.Barrier(t.Context())
				}
				if err != nil || !s.applied(cmd) {
					t.Errorf("after a barrier %q is not applied: %v", cmd, err)
				}
			}
		})
	}
	wg.Wait()
}

// empty: an idle log serves barriers too, and they are no commands.
func empty(t *testing.T, s *suite) {
	for range 3 {
		err := s.Log.Barrier(t.Context())
		for errors.Is(err, fabric.Unavailable) {
			err = s.Log.Barrier(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if s.calls != 0 {
		t.Errorf("barriers were applied as %d commands", s.calls)
	}
}

// leading: it leads a term; a disturbance closes the channel and brings a later one.
func leading(t *testing.T, s *suite) {
	term, ours, changed := s.Log.Leading()
	if term == 0 || !ours {
		t.Fatalf("term %d, ours %v", term, ours)
	}
	select {
	case <-changed:
		t.Fatal("the channel of the present term is closed")
	default:
	}
	s.Disturb()
	<-changed
	if again, ours, _ := s.Log.Leading(); again <= term || !ours {
		t.Errorf("term %d after %d, ours %v", again, term, ours)
	}
}

// canceled: a caller that gives up hears of it, and the log goes on.
func canceled(t *testing.T, s *suite) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Log.Propose(ctx, []byte("never")); err == nil && !s.applied("never") {
		t.Error("a canceled proposal was answered and not applied")
	}
	if err := s.Log.Barrier(ctx); err == nil {
		t.Error("a canceled barrier succeeded")
	}
	if _, err := s.send("after"); err != nil {
		t.Error(err)
	}
}

// unknown: over changes of leader, sending the same bytes until they are answered loses nothing.
func unknown(t *testing.T, s *suite) {
	const workers, each = 8, 30
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			last := 0
			for i := range each {
				at, err := s.send(fmt.Sprintf("u%d.%d", w, i))
				if err != nil || at <= last {
					t.Errorf("worker %d: %d after %d: %v", w, at, last, err)
					return
				}
				last = at
			}
		})
	}
	for range 3 {
		s.Disturb()
	}
	wg.Wait()
	for w := range workers {
		for i := range each {
			if cmd := fmt.Sprintf("u%d.%d", w, i); !s.applied(cmd) {
				t.Errorf("%q was answered and is lost", cmd)
			}
		}
	}
}
