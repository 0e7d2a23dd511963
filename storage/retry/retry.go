// Package retry tries calls of a Blobs again while the store is unavailable: a bounded number of
// times, after waits that double and are spread at random. It repeats only what did not come: a
// Fetch that broke asks again for the refs still owed. Other errors pass at once.
//
// No goroutines, no locks, no state.
package retry

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/spokefs/spokefs/storage"
)

// Config of the retries.
type Config struct {
	// Attempts in all. Default 5: with the waits below about 3 s, a leader change.
	Attempts int
	// First wait; it doubles up to Longest. Default 100 ms.
	First time.Duration
	// Longest wait. Default 2 s.
	Longest time.Duration
}

// WithDefaults fills fields that are 0.
func (c Config) WithDefaults() Config {
	if c.Attempts <= 0 {
		c.Attempts = 5
	}
	if c.First <= 0 {
		c.First = 100 * time.Millisecond
	}
	if c.Longest <= 0 {
		c.Longest = 2 * time.Second
	}
	return c
}

// Blobs is a decorator.
type Blobs struct {
	cfg  Config
	next storage.Blobs
}

var _ storage.Blobs = Blobs{}

// New decorates next.
func New(cfg Config, next storage.Blobs) Blobs { return Blobs{cfg.WithDefaults(), next} }

// again waits before attempt n+1; false: there is none, or ctx ended.
func (b Blobs) again(ctx context.Context, n int, err error) bool {
	if !errors.Is(err, storage.ErrUnavailable) || n >= b.cfg.Attempts {
		return false
	}
	wait := min(b.cfg.First<<min(n-1, 20), b.cfg.Longest)
	t := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Fetch implements storage.Blobs. Refs that stay unavailable come last.
func (b Blobs) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		settled := make(map[storage.Ref]bool, len(refs))
		for n := 1; ; n++ {
			failed, stopped, err := round(b.next.Fetch(ctx, c, refs), settled, yield)
			if stopped {
				return
			}
			last := err
			if last == nil && len(failed) > 0 {
				last = failed[0].err
			}
			if last == nil {
				return
			}
			if b.again(ctx, n, last) {
				refs = owed(refs, settled)
				continue
			}
			for _, f := range failed {
				if !yield(storage.Blob{Ref: f.ref}, f.err) {
					return
				}
			}
			if err != nil {
				yield(storage.Blob{}, err)
			}
			return
		}
	}
}

// FetchRange implements storage.Blobs. A blob that came before a break is not yielded again.
func (b Blobs) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		settled := map[storage.Ref]bool{}
		for try := 1; ; try++ {
			failed, stopped, err := round(b.next.FetchRange(ctx, c, root, off, n), settled, yield)
			if stopped || err == nil && len(failed) == 0 {
				return
			}
			ref := storage.Ref{}
			if err == nil {
				ref, err = failed[0].ref, failed[0].err
			}
			if !b.again(ctx, try, err) {
				yield(storage.Blob{Ref: ref}, err)
				return
			}
		}
	}
}

// failure is a blob that was unavailable.
type failure struct {
	ref storage.Ref
	err error
}

// round goes through one answer. It yields what is final and not settled yet; failed has what was
// unavailable, err what ended the answer.
func round(blobs iter.Seq2[storage.Blob, error], settled map[storage.Ref]bool,
	yield func(storage.Blob, error) bool) (failed []failure, stopped bool, err error) {
	for blob, err := range blobs {
		switch {
		case settled[blob.Ref]:
		case err != nil && blob.Ref.IsZero():
			return failed, false, err
		case errors.Is(err, storage.ErrUnavailable):
			failed = append(failed, failure{blob.Ref, err})
		default:
			settled[blob.Ref] = true
			if !yield(blob, err) {
				return nil, true, nil
			}
		}
	}
	return failed, false, nil
}

func owed(refs []storage.Ref, settled map[storage.Ref]bool) []storage.Ref {
	var out []storage.Ref
	for _, r := range refs {
		if !settled[r] {
			out = append(out, r)
		}
	}
	return out
}

// Put implements storage.Blobs; putting a blob twice is harmless.
func (b Blobs) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	for n := 1; ; n++ {
		if err := b.next.Put(ctx, c, blobs); !b.again(ctx, n, err) {
			return err
		}
	}
}

// Missing implements storage.Blobs.
func (b Blobs) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	for n := 1; ; n++ {
		out, err := b.next.Missing(ctx, refs, dst)
		if !b.again(ctx, n, err) {
			return out, err
		}
	}
}
