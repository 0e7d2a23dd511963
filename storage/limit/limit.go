// Package limit keeps transfers within byte budgets and in order of their class: while a class has
// somebody waiting, none that comes after it gets budget. It stands over a Blobs whose transfers
// cost something, as a WAN's do.
//
// Each class has a budget of bytes per second and of a burst; all share one for the whole link. A
// fetch pays for each blob as it comes and takes no other before, which holds the sender up; a
// put pays before it sends. One mutex guards the budgets and is not held while waiting; no
// goroutines.
package limit

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/spokefs/spokefs/storage"
)

// Config of the budgets.
type Config struct {
	// Link is the bytes per second of all classes. 0: not limited.
	Link int64
	// Class is the bytes per second of each class. 0: not limited but by Link.
	Class [storage.Classes]int64
	// Burst is how much of a second's budget may pass at once. Default 250 ms.
	Burst time.Duration
	// Batch is how many refs of a class after Demand are asked for at once, so that a long list
	// gives way to what comes first. Default 64.
	Batch int
}

// WithDefaults fills fields that are 0 and have a default.
func (c Config) WithDefaults() Config {
	if c.Burst <= 0 {
		c.Burst = 250 * time.Millisecond
	}
	if c.Batch <= 0 {
		c.Batch = 64
	}
	return c
}

// Blobs is a decorator.
type Blobs struct {
	cfg  Config
	now  func() time.Time
	next storage.Blobs

	mu      sync.Mutex // guards all below
	budgets [storage.Classes + 1]budget
	waiting [storage.Classes]int
	changed chan struct{} // closed and replaced when a waiter leaves
}

var _ storage.Blobs = (*Blobs)(nil)

// budget is a token bucket that may go below zero: who takes the last of it waits no longer for
// a large blob than for a small one, the next one does.
type budget struct {
	perSecond int64 // 0: no limit
	bytes     float64
	at        time.Time
}

// New decorates next. now is a monotone clock.
func New(cfg Config, now func() time.Time, next storage.Blobs) *Blobs {
	b := &Blobs{cfg: cfg.WithDefaults(), now: now, next: next, changed: make(chan struct{})}
	for c := range storage.Classes {
		b.budgets[c] = budget{perSecond: cfg.Class[c], at: now()}
	}
	b.budgets[storage.Classes] = budget{perSecond: cfg.Link, at: now()}
	return b
}

// wait is how long until the budget is above zero.
func (g *budget) wait(now time.Time, burst time.Duration) time.Duration {
	if g.perSecond == 0 {
		return 0
	}
	rate := float64(g.perSecond)
	g.bytes = min(g.bytes+now.Sub(g.at).Seconds()*rate, burst.Seconds()*rate)
	g.at = now
	if g.bytes > 0 {
		return 0
	}
	return time.Duration((1-g.bytes)/rate*float64(time.Second)) + time.Microsecond
}

// take waits until class c may pass n bytes on, and pays for them.
func (b *Blobs) take(ctx context.Context, c storage.Class, n int64) error {
	b.mu.Lock()
	b.waiting[c]++
	for {
		wait, before := b.due(c)
		if wait == 0 && !before {
			b.budgets[c].bytes -= float64(n)
			b.budgets[storage.Classes].bytes -= float64(n)
			b.leave(c)
			b.mu.Unlock()
			return nil
		}
		changed := b.changed
		b.mu.Unlock()
		err := pause(ctx, wait, changed)
		b.mu.Lock()
		if err != nil {
			b.leave(c)
			b.mu.Unlock()
			return err
		}
	}
}

// due says how long c must wait for budget, and whether somebody is before it. Caller holds mu.
func (b *Blobs) due(c storage.Class) (wait time.Duration, before bool) {
	now := b.now()
	wait = max(b.budgets[c].wait(now, b.cfg.Burst), b.budgets[storage.Classes].wait(now, b.cfg.Burst))
	for i := range c {
		// One that waits for its own class's budget alone holds nobody up.
		if b.waiting[i] > 0 && b.budgets[i].wait(now, b.cfg.Burst) == 0 {
			return wait, true
		}
	}
	return wait, false
}

// leave ends a wait. Caller holds mu.
func (b *Blobs) leave(c storage.Class) {
	b.waiting[c]--
	close(b.changed)
	b.changed = make(chan struct{})
}

// pause waits for d, if it is not 0, or a change.
func pause(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-after:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Fetch implements storage.Blobs.
func (b *Blobs) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	if c == storage.Demand || len(refs) > storage.MaxBatch { // the latter is refused below
		return b.paced(ctx, c, b.next.Fetch(ctx, c, refs))
	}
	return func(yield func(storage.Blob, error) bool) {
		seen := make(map[storage.Ref]bool, len(refs))
		var once []storage.Ref
		for _, r := range refs {
			if !seen[r] {
				seen[r] = true
				once = append(once, r)
			}
		}
		for len(once) > 0 {
			n := min(len(once), b.cfg.Batch)
			for blob, err := range b.paced(ctx, c, b.next.Fetch(ctx, c, once[:n])) {
				if !yield(blob, err) || blob.Ref.IsZero() && err != nil {
					return
				}
			}
			once = once[n:]
		}
	}
}

// FetchRange implements storage.Blobs.
func (b *Blobs) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	return b.paced(ctx, c, b.next.FetchRange(ctx, c, root, off, n))
}

// paced pays for each blob before the next is taken, which holds the sender up.
func (b *Blobs) paced(ctx context.Context, c storage.Class, blobs iter.Seq2[storage.Blob, error]) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		for blob, err := range blobs {
			if err == nil {
				if err := b.take(ctx, c, int64(len(blob.Data))); err != nil {
					yield(storage.Blob{}, err)
					return
				}
			}
			if !yield(blob, err) {
				return
			}
		}
	}
}

// Put implements storage.Blobs.
func (b *Blobs) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	var n int64
	for i := range blobs {
		n += int64(len(blobs[i].Data))
	}
	if err := b.take(ctx, c, n); err != nil {
		return err
	}
	return b.next.Put(ctx, c, blobs)
}

// Missing implements storage.Blobs; it costs nothing.
func (b *Blobs) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	return b.next.Missing(ctx, refs, dst)
}
