package wire

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spokefs/spokefs/storage"
)

// Transfers share links, so that what somebody waits for would crawl beside what is only likely to
// be wanted. A client has few transfers of the lower classes under way and makes the others wait;
// the hub sends no frame of a lower class while it is sending one of a higher.

// slots is how many transfers of a class a client has under way; 0: as many as come. Uploads leave
// one of a session's Puts (Config.MaxPuts) to flushes that somebody waits for.
var slots = [storage.Classes]int{storage.ReadAhead: 16, storage.Upload: 3, storage.Prefetch: 4, storage.Scrub: 2}

// maxWaiting bounds the transfers of a class that wait.
const maxWaiting = 4096

// gates keeps the slots of a client.
type gates [storage.Classes]struct {
	slot chan struct{} // nil: no bound
	want atomic.Int64  // under way and waiting
}

func newGates() *gates {
	g := &gates{}
	for c, n := range slots {
		if n > 0 {
			g[c].slot = make(chan struct{}, n)
		}
	}
	return g
}

// enter waits for a slot; leave gives it back. ErrUnavailable: too many wait.
func (g *gates) enter(ctx context.Context, c storage.Class) (leave func(), err error) {
	gate := &g[c]
	if gate.slot == nil {
		return func() {}, nil
	}
	if gate.want.Add(1) > int64(cap(gate.slot))+maxWaiting {
		gate.want.Add(-1)
		return nil, fmt.Errorf("%w: too many transfers of class %v wait", storage.ErrUnavailable, c)
	}
	select {
	case gate.slot <- struct{}{}:
		return func() {
			<-gate.slot
			gate.want.Add(-1)
		}, nil
	case <-ctx.Done():
		gate.want.Add(-1)
		return nil, ctx.Err()
	}
}

// patience is how long a frame waits for those of higher classes: a reader that is stuck holds up
// others for no longer.
const patience = time.Second

// turnstile orders the frames that a hub sends to a session.
type turnstile struct {
	mu      sync.Mutex // guards what follows
	sending [storage.Classes]int
	changed chan struct{} // closed, and made anew, when a frame has been sent
}

func newTurnstile() *turnstile { return &turnstile{changed: make(chan struct{})} }

// pass waits until nothing of a higher class is being sent, patience is over or ctx ends.
func (t *turnstile) pass(ctx context.Context, c storage.Class) {
	var timeout <-chan time.Time
	for {
		t.mu.Lock()
		higher, changed := 0, t.changed
		for _, n := range t.sending[:c] {
			higher += n
		}
		if higher == 0 {
			t.sending[c]++
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if timeout == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
			continue
		case <-timeout:
		case <-ctx.Done():
		}
		t.mu.Lock()
		t.sending[c]++
		t.mu.Unlock()
		return
	}
}

// sent says that a frame that passed has been sent, or has failed.
func (t *turnstile) sent(c storage.Class) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sending[c]--
	close(t.changed)
	t.changed = make(chan struct{})
}
