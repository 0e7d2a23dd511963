// Package mem keeps objects and blobs in memory: the smallest correct Bucket, and the reference
// Blobs that others are compared with. It is for tests and for what is lost with the process.
//
// Blobs checks all it takes (A48) and has what it took for ever; pins need no memory here, since
// nothing is ever collected. One mutex each, held for map operations only; no goroutines.
package mem

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// Blobs keeps one dedup domain in memory.
type Blobs struct {
	h  *chunk.Hasher
	mu sync.Mutex // guards all; entries do not change
	// all has what was put; a blob's Data is a copy.
	all map[storage.Ref]entry
}

type entry struct {
	blob storage.Blob
	node manifest.Node // of a node
}

var _ storage.Blobs = (*Blobs)(nil)

// New gives an empty one for the namespace of h's key.
func New(h *chunk.Hasher) *Blobs { return &Blobs{h: h, all: map[storage.Ref]entry{}} }

// Fetch implements storage.Blobs.
func (s *Blobs) Fetch(ctx context.Context, _ storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		if len(refs) > storage.MaxBatch {
			yield(storage.Blob{}, fmt.Errorf("%d refs: %w", len(refs), storage.ErrInvalid))
			return
		}
		seen := make(map[storage.Ref]bool, len(refs))
		for _, r := range refs {
			if err := ctx.Err(); err != nil {
				yield(storage.Blob{}, err)
				return
			}
			if seen[r] {
				continue
			}
			seen[r] = true
			e, err := s.get(r)
			if err != nil {
				e.blob = storage.Blob{Ref: r}
			}
			if !yield(e.blob, err) {
				return
			}
		}
	}
}

func (s *Blobs) get(r storage.Ref) (entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.all[r]
	if !ok {
		return entry{}, fmt.Errorf("blob %s: %w", r, storage.ErrNotExist)
	}
	return e, nil
}

// FetchRange implements storage.Blobs.
func (s *Blobs) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		if root.IsZero() {
			return
		}
		seen := map[storage.Ref]bool{}
		var blobs []storage.Blob
		node := func(r storage.Ref) (manifest.Node, error) {
			e, err := s.get(r)
			if err == nil && e.blob.Kind != storage.Node {
				err = fmt.Errorf("blob %s is no node: %w", r, storage.ErrInvalid)
			}
			if err == nil && !seen[r] {
				seen[r] = true
				blobs = append(blobs, e.blob)
			}
			return e.node, err
		}
		top, err := node(root)
		if err != nil {
			yield(storage.Blob{Ref: root}, err)
			return
		}
		var refs []storage.Ref
		err = manifest.Walk(node, root, top.Sum(), off, n, func(e manifest.Extent) bool {
			if !e.Ref.IsZero() && !seen[e.Ref] {
				seen[e.Ref] = true
				refs = append(refs, e.Ref)
			}
			return true
		})
		if err != nil {
			yield(storage.Blob{}, err)
			return
		}
		for _, b := range blobs {
			if !yield(b, nil) {
				return
			}
		}
		for len(refs) > 0 {
			k := min(len(refs), storage.MaxBatch)
			for b, err := range s.Fetch(ctx, c, refs[:k]) {
				if !yield(b, err) {
					return
				}
			}
			refs = refs[k:]
		}
	}
}

// Put implements storage.Blobs.
func (s *Blobs) Put(ctx context.Context, _ storage.Class, blobs []storage.Blob) error {
	if len(blobs) > storage.MaxBatch {
		return fmt.Errorf("%d blobs: %w", len(blobs), storage.ErrInvalid)
	}
	fresh := make(map[storage.Ref]entry, len(blobs))
	for _, b := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, err := s.h.Verify(b, nil)
		if err != nil {
			return fmt.Errorf("%v: %w", err, storage.ErrInvalid)
		}
		b.Data = append([]byte(nil), b.Data...)
		e := entry{blob: b}
		if b.Kind == storage.Node {
			if e.node, err = manifest.Decode(append([]byte(nil), raw...)); err != nil {
				return fmt.Errorf("%v: %w", err, storage.ErrInvalid)
			}
			if err := s.checkNode(e.node, fresh); err != nil {
				return err
			}
		}
		fresh[b.Ref] = e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blobs {
		if _, ok := s.all[b.Ref]; !ok {
			s.all[b.Ref] = fresh[b.Ref]
		}
	}
	return nil
}

// checkNode holds a node's items to what is stored or comes before it (A48).
func (s *Blobs) checkNode(n manifest.Node, fresh map[storage.Ref]entry) error {
	for i := range n.Len() {
		it := n.Item(i)
		if it.Ref.IsZero() {
			continue
		}
		e, ok := fresh[it.Ref]
		if !ok {
			var err error
			if e, err = s.get(it.Ref); err != nil {
				return fmt.Errorf("child %s is not stored: %w", it.Ref, storage.ErrInvalid)
			}
		}
		fits := e.blob.Kind == storage.Chunk
		if n.Level() > 0 {
			fits = e.blob.Kind == storage.Node && e.node.Level() == n.Level()-1 && e.node.Sum() == it.Len && e.node.Used() == it.Used
		}
		if !fits {
			return fmt.Errorf("child %s is not as its parent says: %w", it.Ref, storage.ErrInvalid)
		}
	}
	return nil
}

// Missing implements storage.Blobs.
func (s *Blobs) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if len(refs) > storage.MaxBatch {
		return dst, fmt.Errorf("%d refs: %w", len(refs), storage.ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		if _, ok := s.all[r]; !ok {
			dst = append(dst, r)
		}
	}
	return dst, nil
}
