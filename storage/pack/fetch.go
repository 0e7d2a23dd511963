package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/storage"
)

// Missing implements storage.Blobs; what is there is not pinned here (A41): the hub logs that.
func (s *Store) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if len(refs) > storage.MaxBatch {
		return dst, fmt.Errorf("%d refs: %w", len(refs), storage.ErrInvalid)
	}
	found, err := s.deps.Index.Locate(ctx, refs, nil)
	if err != nil {
		return dst, err
	}
	for i, l := range found {
		if l.Key == "" {
			dst = append(dst, refs[i])
		}
	}
	return dst, nil
}

// place is a wanted blob and where it is.
type place struct {
	ref storage.Ref
	Location
}

// run is what one GET reads: blobs of one pack, near each other.
type run []place

// Fetch implements storage.Blobs.
func (s *Store) Fetch(ctx context.Context, _ storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(storage.Blob{}, err)
			return
		}
		if len(refs) > storage.MaxBatch {
			yield(storage.Blob{}, fmt.Errorf("%d refs: %w", len(refs), storage.ErrInvalid))
			return
		}
		seen := make(map[storage.Ref]bool, len(refs))
		var once []storage.Ref
		for _, r := range refs {
			if !seen[r] {
				seen[r] = true
				once = append(once, r)
			}
		}
		found, err := s.deps.Index.Locate(ctx, once, nil)
		if err != nil {
			yield(storage.Blob{}, err)
			return
		}
		var places []place
		for i, l := range found {
			if l.Key != "" {
				places = append(places, place{once[i], l})
			} else if !yield(storage.Blob{Ref: once[i]}, fmt.Errorf("blob %s: %w", once[i], storage.ErrNotExist)) {
				return
			}
		}
		s.get(ctx, s.runs(places), yield)
	}
}

// runs sorts places into GETs.
func (s *Store) runs(places []place) []run {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Off, b.Off))
	})
	var out []run
	for _, p := range places {
		if n := len(out); n > 0 {
			first, last := out[n-1][0], out[n-1][len(out[n-1])-1]
			if p.Key == first.Key && int64(p.Off) <= int64(last.Off)+int64(last.Len)+int64(s.cfg.Gap) &&
				int64(p.Off)+int64(p.Len)-int64(first.Off) <= int64(s.cfg.MaxGet) {
				out[n-1] = append(out[n-1], p)
				continue
			}
		}
		out = append(out, run{p})
	}
	return out
}

// result is a run's bytes, from its first blob on.
type result struct {
	run  run
	data []byte
	err  error
}

// get reads runs, a few at a time, and yields their blobs.
func (s *Store) get(ctx context.Context, runs []run, yield func(storage.Blob, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	results := make(chan result)
	var next atomic.Int64
	for range min(s.cfg.Readers, len(runs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(runs); i = next.Add(1) - 1 {
				r := result{run: runs[i]}
				r.data, r.err = s.read(ctx, r.run)
				select {
				case results <- r:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	var scratch []byte
	for range runs {
		select {
		case r := <-results:
			for _, p := range r.run {
				var b storage.Blob
				var err error
				if b, scratch, err = s.unpack(p, r, scratch); !yield(b, err) {
					return
				}
			}
		case <-ctx.Done():
			yield(storage.Blob{}, ctx.Err())
			return
		}
	}
}

// unpack verifies one blob of a run (A47).
func (s *Store) unpack(p place, r result, scratch []byte) (storage.Blob, []byte, error) {
	if r.err != nil {
		return storage.Blob{Ref: p.ref}, scratch, r.err
	}
	from := p.Off - r.run[0].Off
	b := storage.Blob{Ref: p.ref, Kind: p.Kind, Form: p.Form, Data: r.data[from : from+p.Len]}
	raw, err := s.deps.Hasher.Verify(b, scratch)
	if err != nil {
		return storage.Blob{Ref: p.ref}, scratch, fmt.Errorf("pack %s at %d: %w", p.Key, p.Off, err)
	}
	if b.Form != storage.Raw {
		scratch = raw
	}
	return b, scratch, nil
}

// read gives a run's bytes, from the cache or the bucket.
func (s *Store) read(ctx context.Context, r run) ([]byte, error) {
	first, end := r[0], int64(0)
	for _, p := range r {
		end = max(end, int64(p.Off)+int64(p.Len))
	}
	if body := s.cache.get(first.Key); int64(len(body)) >= end {
		return body[first.Off:end], nil
	}
	data := make([]byte, end-int64(first.Off))
	err := s.deps.Bucket.Get(ctx, first.Key, int64(first.Off), data)
	if errors.Is(err, storage.ErrNotExist) { // an indexed blob whose pack is gone
		err = fmt.Errorf("pack %s is gone: %w", first.Key, storage.ErrCorrupt)
	}
	return data, err
}

// FetchRange implements storage.Blobs; nodes are fetched level by level.
func (s *Store) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		if root.IsZero() {
			return
		}
		f := ranger{s: s, ctx: ctx, class: c, yield: yield, nodes: map[storage.Ref]manifest.Node{}}
		if !f.fetch([]storage.Ref{root}) {
			return
		}
		r := manifest.NewRange(root, f.nodes[root].Sum(), off, n)
		for len(r.Need()) > 0 {
			if !f.fetch(r.Need()) {
				return
			}
			if err := r.Step(f.source); err != nil {
				yield(storage.Blob{}, err)
				return
			}
		}
		f.chunks(r.Extents())
	}
}

// ranger is one FetchRange.
type ranger struct {
	s     *Store
	ctx   context.Context
	class storage.Class
	yield func(storage.Blob, error) bool
	nodes map[storage.Ref]manifest.Node
}

func (f *ranger) source(r storage.Ref) (manifest.Node, error) { return f.nodes[r], nil }

// fetch yields nodes that did not come yet and keeps them; false ends it all.
func (f *ranger) fetch(refs []storage.Ref) bool {
	var want []storage.Ref
	for _, r := range refs {
		if _, ok := f.nodes[r]; !ok {
			want = append(want, r)
		}
	}
	for part := range slices.Chunk(want, storage.MaxBatch) {
		for b, err := range f.s.Fetch(f.ctx, f.class, part) {
			if err == nil {
				err = f.keep(b)
			}
			if !f.yield(b, err) || err != nil {
				return false
			}
		}
	}
	return true
}

func (f *ranger) keep(b storage.Blob) error {
	if b.Kind != storage.Node {
		return fmt.Errorf("blob %s is no node: %w", b.Ref, storage.ErrInvalid)
	}
	raw, err := f.s.deps.Hasher.Verify(b, nil)
	if err != nil {
		return err
	}
	f.nodes[b.Ref], err = manifest.Decode(slices.Clone(raw))
	return err
}

// chunks yields those of extents, each once.
func (f *ranger) chunks(extents []manifest.Extent) {
	seen := map[storage.Ref]bool{}
	var refs []storage.Ref
	for _, e := range extents {
		if !e.Ref.IsZero() && !seen[e.Ref] {
			seen[e.Ref] = true
			refs = append(refs, e.Ref)
		}
	}
	for part := range slices.Chunk(refs, storage.MaxBatch) {
		for b, err := range f.s.Fetch(f.ctx, f.class, part) {
			if !f.yield(b, err) || err != nil && b.Ref.IsZero() {
				return
			}
		}
	}
}

// cache keeps the objects last written: they are what is read next.
type cache struct {
	limit int

	mu      sync.Mutex // guards all below; bodies do not change
	objects []object   // oldest first
	bytes   int
}

type object struct {
	key  string
	body []byte
}

func (c *cache) add(key string, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = append(c.objects, object{key, body})
	c.bytes += cap(body)
	for c.bytes > c.limit && len(c.objects) > 0 {
		c.bytes -= cap(c.objects[0].body)
		c.objects[0] = object{}
		c.objects = c.objects[1:]
	}
}

func (c *cache) get(key string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.objects) - 1; i >= 0; i-- {
		if c.objects[i].key == key {
			return c.objects[i].body
		}
	}
	return nil
}
