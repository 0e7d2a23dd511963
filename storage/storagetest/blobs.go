// Package storagetest has the contract of storage's interfaces as suites that any implementation
// runs: a factory goes in, failures come out. Only tests import it.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/spokefs/spokefs/fabric/manifest"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// Blobs runs the contract of storage.Blobs. make gives a new empty store for the hasher's key.
func Blobs(t *testing.T, make func(t *testing.T, h *chunk.Hasher) storage.Blobs) {
	h := chunk.New([32]byte{42})
	for name, f := range map[string]func(*testing.T, *suite){
		"put, missing, fetch":       putFetch,
		"range":                     fetchRange,
		"orphans are refused":       orphans,
		"forged blobs are refused":  forged,
		"batches are bounded":       bounds,
		"cancelled calls end":       cancelled,
		"breaking off a fetch":      breakOff,
		"names of another key":      foreign,
		"lies about children (D63)": lies,
	} {
		t.Run(name, func(t *testing.T) { f(t, &suite{h: h, b: make(t, h)}) })
	}
}

type suite struct {
	h *chunk.Hasher
	b storage.Blobs
}

// file stores n chunks of some KiB and their nodes, and gives all.
func (s *suite) file(n int) (blobs []storage.Blob, tree manifest.Tree) {
	var extents []manifest.Extent
	off := int64(0)
	for i := range n {
		raw := bytes.Repeat(fmt.Appendf(nil, "line of chunk %d\n", i), 1+i%50)
		b := s.h.Seal(storage.Chunk, raw, nil)
		blobs = append(blobs, b)
		extents = append(extents, manifest.Extent{Off: off, Len: int64(len(raw)), Ref: b.Ref})
		off += int64(len(raw))
	}
	tree, err := manifest.Build(s.h, off, extents)
	if err != nil {
		panic(err) // the suite's own extents
	}
	return append(blobs, tree.Nodes...), tree
}

func (s *suite) put(t *testing.T, blobs []storage.Blob) {
	t.Helper()
	for part := range slices.Chunk(blobs, storage.MaxBatch) {
		if err := s.b.Put(t.Context(), storage.Upload, part); err != nil {
			t.Fatal(err)
		}
	}
}

func refsOf(blobs []storage.Blob) (refs []storage.Ref) {
	for _, b := range blobs {
		refs = append(refs, b.Ref)
	}
	return refs
}

func putFetch(t *testing.T, s *suite) {
	blobs, _ := s.file(300)
	refs := refsOf(blobs)
	missing, err := s.b.Missing(t.Context(), refs, nil)
	if err != nil || !slices.Equal(missing, refs) {
		t.Fatalf("empty: %d missing of %d, %v", len(missing), len(refs), err)
	}
	s.put(t, blobs)
	s.put(t, blobs) // again is success
	absent := s.h.Chunk([]byte("never put"))
	if missing, err = s.b.Missing(t.Context(), append(refs, absent), nil); err != nil || !slices.Equal(missing, []storage.Ref{absent}) {
		t.Fatalf("full: %v missing, %v", missing, err)
	}
	got := map[storage.Ref]int{}
	asked := slices.Concat(refs[:10], refs, []storage.Ref{absent})
	for b, err := range s.b.Fetch(t.Context(), storage.Demand, asked) {
		got[b.Ref]++
		if b.Ref == absent {
			if !errors.Is(err, storage.ErrNotExist) {
				t.Errorf("absent: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.h.Verify(b, nil); err != nil {
			t.Error(err)
		}
	}
	for _, r := range append(refs, absent) {
		if got[r] != 1 {
			t.Errorf("%s came %d times", r, got[r])
		}
	}
}

func fetchRange(t *testing.T, s *suite) {
	blobs, tree := s.file(2000)
	s.put(t, blobs)
	for _, c := range []struct{ off, n int64 }{{0, 1}, {0, tree.Size}, {tree.Size / 2, 5000}, {tree.Size - 1, 1 << 40}, {tree.Size, 1}} {
		nodes := map[storage.Ref]manifest.Node{}
		chunks := map[storage.Ref]bool{}
		for b, err := range s.b.FetchRange(t.Context(), storage.Demand, tree.Root, c.off, c.n) {
			if err != nil {
				t.Fatal(err)
			}
			raw, err := s.h.Verify(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b.Kind == storage.Chunk {
				chunks[b.Ref] = true
				continue
			}
			if len(chunks) > 0 {
				t.Fatal("a node after a chunk")
			}
			if nodes[b.Ref], err = manifest.Decode(bytes.Clone(raw)); err != nil {
				t.Fatal(err)
			}
		}
		src := func(r storage.Ref) (manifest.Node, error) {
			if n, ok := nodes[r]; ok {
				return n, nil
			}
			return manifest.Node{}, storage.ErrNotExist
		}
		want := map[storage.Ref]bool{}
		err := manifest.Walk(src, tree.Root, tree.Size, c.off, c.n, func(e manifest.Extent) bool {
			want[e.Ref] = true
			return true
		})
		if err != nil {
			t.Fatalf("%v: not all nodes came: %v", c, err)
		}
		for r := range want {
			if !chunks[r] {
				t.Fatalf("%v: chunk %s did not come", c, r)
			}
		}
		if len(chunks) != len(want) {
			t.Errorf("%v: %d chunks, want %d", c, len(chunks), len(want))
		}
	}
	for range s.b.FetchRange(t.Context(), storage.Demand, storage.Ref{}, 0, 100) {
		t.Fatal("a hole has blobs")
	}
	err := error(nil)
	for _, err = range s.b.FetchRange(t.Context(), storage.Demand, s.h.Node([]byte("none")), 0, 100) {
	}
	if !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("unknown root: %v", err)
	}
}

func orphans(t *testing.T, s *suite) {
	blobs, tree := s.file(10)
	if err := s.b.Put(t.Context(), storage.Upload, tree.Nodes); !errors.Is(err, storage.ErrInvalid) {
		t.Fatalf("node without children: %v", err)
	}
	late := append(slices.Clone(tree.Nodes), blobs[:10]...)
	if err := s.b.Put(t.Context(), storage.Upload, late); !errors.Is(err, storage.ErrInvalid) {
		t.Fatalf("node before its children: %v", err)
	}
	s.put(t, blobs[:10])
	s.put(t, tree.Nodes)
}

func forged(t *testing.T, s *suite) {
	good := s.h.Seal(storage.Chunk, bytes.Repeat([]byte("good "), 100), nil)
	other := s.h.Seal(storage.Chunk, bytes.Repeat([]byte("evil "), 100), nil)
	bad := map[string]storage.Blob{
		"other data": {Ref: good.Ref, Kind: storage.Chunk, Form: other.Form, Data: other.Data},
		"cut":        {Ref: good.Ref, Kind: storage.Chunk, Form: good.Form, Data: good.Data[:len(good.Data)-1]},
		"kind":       {Ref: good.Ref, Kind: storage.Node, Form: good.Form, Data: good.Data},
		"no node":    s.h.Seal(storage.Node, []byte("not a node"), nil),
		"empty":      {Kind: storage.Chunk, Form: storage.Raw},
	}
	for name, b := range bad {
		if err := s.b.Put(t.Context(), storage.Upload, []storage.Blob{b}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m, err := s.b.Missing(t.Context(), []storage.Ref{good.Ref}, nil); err != nil || len(m) != 1 {
		t.Errorf("a refused blob is there: %v", err)
	}
}

func bounds(t *testing.T, s *suite) {
	if err := s.b.Put(t.Context(), storage.Upload, make([]storage.Blob, storage.MaxBatch+1)); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("Put: %v", err)
	}
	refs := make([]storage.Ref, storage.MaxBatch+1)
	if _, err := s.b.Missing(t.Context(), refs, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("Missing: %v", err)
	}
	err := error(nil)
	for _, err = range s.b.Fetch(t.Context(), storage.Demand, refs) {
	}
	if !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("Fetch: %v", err)
	}
}

func cancelled(t *testing.T, s *suite) {
	blobs, tree := s.file(10)
	s.put(t, blobs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.b.Put(ctx, storage.Upload, blobs); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
	if _, err := s.b.Missing(ctx, refsOf(blobs), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Missing: %v", err)
	}
	err := error(nil)
	for _, err = range s.b.Fetch(ctx, storage.Demand, refsOf(blobs)) {
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch: %v", err)
	}
	for _, err = range s.b.FetchRange(ctx, storage.Demand, tree.Root, 0, 1<<30) {
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("FetchRange: %v", err)
	}
}

func breakOff(t *testing.T, s *suite) {
	blobs, tree := s.file(100)
	s.put(t, blobs)
	for range s.b.Fetch(t.Context(), storage.Demand, refsOf(blobs)) {
		break
	}
	for range s.b.FetchRange(t.Context(), storage.Demand, tree.Root, 0, 1<<30) {
		break
	}
}

// D64: what is known elsewhere is unknown here.
func foreign(t *testing.T, s *suite) {
	blobs, _ := s.file(3)
	s.put(t, blobs)
	alien := chunk.New([32]byte{43}).Seal(storage.Chunk, []byte("of another namespace"), nil)
	if m, err := s.b.Missing(t.Context(), []storage.Ref{alien.Ref}, nil); err != nil || len(m) != 1 {
		t.Errorf("Missing: %v %v", m, err)
	}
	if err := s.b.Put(t.Context(), storage.Upload, []storage.Blob{alien}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("Put: %v", err)
	}
}

func lies(t *testing.T, s *suite) {
	blobs, tree := s.file(600)
	s.put(t, blobs)
	var root []byte
	for _, b := range tree.Nodes {
		if b.Ref == tree.Root {
			raw, err := s.h.Verify(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			root = bytes.Clone(raw)
		}
	}
	if root[2] == 0 {
		t.Fatal("the file is too small")
	}
	root[8]++ // the first child's end
	lie := s.h.Seal(storage.Node, root, nil)
	if err := s.b.Put(t.Context(), storage.Upload, []storage.Blob{lie}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("wrong sum: %v", err)
	}
}
