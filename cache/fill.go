package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spokefs/spokefs/storage"
)

// flight is one blob on its way. It lives until it has landed, whoever waits.
type flight struct {
	ref  storage.Ref
	done chan struct{} // closed when raw and err are set
	raw  []byte
	err  error
}

// wait gives the blob's bytes, which nobody changes.
func (f *flight) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-f.done:
		return f.raw, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join joins the flight of a blob, or starts one.
func (s *Store) join(ref storage.Ref, class storage.Class) (f *flight, started bool) {
	fs := s.start([]storage.Ref{ref}, class)
	if len(fs) > 0 {
		return fs[0], true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flights[ref]; f != nil {
		return f, false
	}
	// It landed in between: read it as a flight of its own, from disk.
	f = &flight{ref: ref, done: make(chan struct{})}
	s.done.Go(func() { s.reread(f) })
	return f, false
}

// reread gives a blob that is here to who wanted to fetch it.
func (s *Store) reread(f *flight) {
	f.raw = make([]byte, f.ref.Len)
	if !s.hit(f.ref, f.raw, 0) {
		f.err = fmt.Errorf("cache: %v came and went: %w", f.ref, storage.ErrUnavailable)
	}
	close(f.done)
}

// claim registers flights for those refs that are neither here nor under way.
func (s *Store) claim(refs []storage.Ref) ([]*flight, storage.Blobs) {
	var fs []*flight
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range refs {
		if s.index[ref] == nil && s.flights[ref] == nil {
			f := &flight{ref: ref, done: make(chan struct{})}
			s.flights[ref] = f
			fs = append(fs, f)
		}
	}
	return fs, s.blobs
}

// start claims refs and fetches them. What somebody waits for has places of its own, which what is
// fetched ahead cannot fill.
func (s *Store) start(refs []storage.Ref, class storage.Class) []*flight {
	fs, blobs := s.claim(refs)
	places := s.ahead
	if class == storage.Demand {
		places = s.slots
	}
	for rest := fs; len(rest) > 0; {
		batch := rest[:min(len(rest), s.cfg.Batch)]
		s.done.Go(func() {
			select {
			case places <- struct{}{}:
				s.fetch(blobs, batch, class)
				<-places
			case <-s.ctx.Done():
				s.fail(batch, s.ctx.Err(), class)
			}
		})
		rest = rest[len(batch):]
	}
	return fs
}

// fetch brings a batch of flights home.
func (s *Store) fetch(blobs storage.Blobs, batch []*flight, class storage.Class) {
	open := make(map[storage.Ref]*flight, len(batch))
	refs := make([]storage.Ref, len(batch))
	for i, f := range batch {
		open[f.ref], refs[i] = f, f.ref
	}
	failure := error(fmt.Errorf("cache: the fetch ended early: %w", storage.ErrUnavailable))
	for b, err := range blobs.Fetch(s.ctx, class, refs) {
		f := open[b.Ref]
		if f == nil {
			if err != nil {
				failure = err
				break
			}
			continue
		}
		delete(open, b.Ref)
		s.land(f, b, err, class)
	}
	var rest []*flight
	for _, f := range batch {
		if open[f.ref] != nil {
			rest = append(rest, f)
		}
	}
	s.fail(rest, failure, class)
}

// fail ends flights that brought nothing.
func (s *Store) fail(batch []*flight, err error, class storage.Class) {
	for _, f := range batch {
		s.land(f, storage.Blob{Ref: f.ref}, err, class)
	}
}

// land ends a flight: what is good is kept and given to all who wait.
func (s *Store) land(f *flight, b storage.Blob, err error, class storage.Class) {
	if err == nil {
		f.raw, f.err = s.deps.Verify(b, make([]byte, 0, f.ref.Len))
		if f.err == nil && b.Form == storage.Raw {
			f.raw = slices.Clone(f.raw) // it is the blob's own memory, which ends with this step
		}
	} else {
		f.err = err
	}
	if f.err == nil {
		s.stats[nFetchedRaw].Add(int64(len(f.raw)))
		s.stats[nFetched].Add(int64(len(b.Data)))
		ahead := class == storage.Prefetch || class == storage.ReadAhead
		if ahead {
			s.stats[nWarmed].Add(1)
		}
		s.write(f.ref, b.Kind, f.raw, !ahead, 0)
		if ahead {
			s.mu.Lock()
			s.warmed[f.ref] = struct{}{}
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	delete(s.flights, f.ref)
	s.mu.Unlock()
	close(f.done)
}

// Fill brings all of refs that are missing, in few round trips, and returns when they are here or
// one has failed.
func (s *Store) Fill(ctx context.Context, class storage.Class, refs []storage.Ref) error {
	s.start(refs, class)
	var errs []error
	for _, ref := range refs {
		s.mu.Lock()
		f := s.flights[ref]
		s.mu.Unlock()
		if f == nil {
			continue
		}
		if _, err := f.wait(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// FillRange brings what n bytes at off of a content need whose root is not here, in one round trip: the
// hub walks the nodes. What of it is here already comes again, so n should be small. It returns when
// all has come, at once if the root is here; where chunks are missing after it, that is for who
// reads them to find out.
func (s *Store) FillRange(ctx context.Context, class storage.Class, root storage.Ref, off, n int64) error {
	fs, blobs := s.claim([]storage.Ref{root})
	if len(fs) > 0 {
		s.stats[nMisses].Add(1)
		s.done.Go(func() {
			select {
			case s.slots <- struct{}{}:
				s.fetchRange(blobs, fs[0], class, off, n)
				<-s.slots
			case <-s.ctx.Done():
				s.fail(fs, s.ctx.Err(), class)
			}
		})
	}
	return s.Fill(ctx, class, []storage.Ref{root})
}

// fetchRange brings a root home, and what comes behind it first: whoever waits for the root asks for
// that next.
func (s *Store) fetchRange(blobs storage.Blobs, root *flight, class storage.Class, off, n int64) {
	var top storage.Blob
	failure := error(fmt.Errorf("cache: the fetch ended early: %w", storage.ErrUnavailable))
	for b, err := range blobs.FetchRange(s.ctx, class, root.ref, off, n) {
		switch {
		case err != nil:
			failure = err
		case b.Ref == root.ref:
			top = b
			top.Data = slices.Clone(b.Data)
		default:
			if err := s.Take(b); err != nil {
				s.deps.Slog.Warn("cache: a blob that came is bad", "blob", b.Ref, "err", err)
			}
		}
	}
	if top.Data == nil {
		s.fail([]*flight{root}, failure, class)
		return
	}
	s.land(root, top, nil, class)
}

// Take verifies a blob that came with something else, such as a lookup, and keeps it.
func (s *Store) Take(b storage.Blob) error {
	if s.Has(b.Ref) {
		return nil
	}
	raw, err := s.deps.Verify(b, nil)
	if err != nil {
		return err
	}
	s.stats[nFetchedRaw].Add(int64(len(raw)))
	s.stats[nFetched].Add(int64(len(b.Data)))
	s.write(b.Ref, b.Kind, raw, true, 0)
	return nil
}

// warming is one blob to fetch before it is asked for.
type warming struct {
	ref   storage.Ref
	class storage.Class
}

// Warm asks for blobs to be fetched in the background and never waits; taken is how many of them,
// from the first on, are queued or need no fetch.
func (s *Store) Warm(refs []storage.Ref, class storage.Class) (taken int) {
	for i, ref := range refs {
		if s.Has(ref) {
			continue
		}
		select {
		case s.warm <- warming{ref, class}:
		default:
			return i
		}
	}
	return len(refs)
}

// warmer turns queued blobs into batches. It takes no more from the queue than one blob before there
// is a place for the batch, so that what waits is in the queue, whose length is bounded, and not in
// goroutines.
func (s *Store) warmer() {
	for {
		var first warming
		select {
		case first = <-s.warm:
		case <-s.ctx.Done():
			return
		}
		select {
		case s.ahead <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		refs, class := s.gather(first)
		fs, blobs := s.claim(refs)
		s.done.Go(func() {
			if len(fs) > 0 {
				s.fetch(blobs, fs, class)
			}
			<-s.ahead
		})
	}
}

// gather makes a batch of a queued blob and those waiting behind it; its class is their most urgent.
func (s *Store) gather(first warming) (refs []storage.Ref, class storage.Class) {
	refs, class = append(refs, first.ref), first.class
	for len(refs) < s.cfg.Batch {
		select {
		case w := <-s.warm:
			refs, class = append(refs, w.ref), min(class, w.class)
		default:
			return refs, class
		}
	}
	return refs, class
}
