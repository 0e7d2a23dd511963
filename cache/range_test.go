package cache

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
)

// walked is a hub that answers ranges, and nothing else.
type walked struct {
	storage.Blobs
	blobs []storage.Blob
	err   error
	calls atomic.Int32
	gate  chan struct{}
}

func (w *walked) FetchRange(context.Context, storage.Class, storage.Ref, int64, int64) iter.Seq2[storage.Blob, error] {
	w.calls.Add(1)
	return func(yield func(storage.Blob, error) bool) {
		for _, b := range w.blobs {
			data := bytes.Clone(b.Data)
			ok := yield(storage.Blob{Ref: b.Ref, Kind: b.Kind, Form: b.Form, Data: data}, nil)
			clear(data) // it lives until the next step
			if !ok {
				return
			}
		}
		<-w.gate
		if w.err != nil {
			yield(storage.Blob{}, w.err)
		}
	}
}

// Fetch is what a range must make needless.
func (w *walked) Fetch(context.Context, storage.Class, []storage.Ref) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) { yield(storage.Blob{}, errors.New("fetched one by one")) }
}

// A root that is not here comes with the chunks behind it, once for all who wait, and they find all
// of it.
func TestFillRangeIsOneCall(t *testing.T) {
	h := chunk.New([32]byte{1})
	d, err := disk.OS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		node := h.Seal(storage.Node, []byte("a node, for all that the cache knows"), nil)
		part := h.Seal(storage.Chunk, bytes.Repeat([]byte("chunk"), 1000), nil)
		w := &walked{blobs: []storage.Blob{node, part}, gate: make(chan struct{})}
		s, err := Open(Config{}, Deps{Disk: d, Blobs: w, Verify: h.Verify, Slog: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- s.FillRange(t.Context(), storage.Demand, node.Ref, 0, 5000) }()
		}
		synctest.Wait()
		if s.Has(node.Ref) {
			t.Error("the root shows before what is behind it has come: who finds it asks for that again")
		}
		close(w.gate)
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		p := make([]byte, 5000)
		if n, err := s.ReadAt(t.Context(), part.Ref, p, 0); err != nil || n != len(p) || string(p[:5]) != "chunk" {
			t.Errorf("the chunk: %d, %v", n, err)
		}
		if n, err := s.ReadAt(t.Context(), node.Ref, p, 0); err != nil || n != int(node.Ref.Len) {
			t.Errorf("the node: %d, %v", n, err)
		}
		if err := s.FillRange(t.Context(), storage.Demand, node.Ref, 0, 5000); err != nil || w.calls.Load() != 1 {
			t.Errorf("%d calls, %v", w.calls.Load(), err)
		}
	})
}

// A range that breaks off before its root is an error; behind it, it is for who reads on.
func TestFillRangeBreaksOff(t *testing.T) {
	h := chunk.New([32]byte{1})
	node := h.Seal(storage.Node, []byte("a node"), nil)
	for what, blobs := range map[string][]storage.Blob{"before": nil, "behind": {node}} {
		d, err := disk.OS(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w := &walked{blobs: blobs, err: storage.ErrUnavailable, gate: make(chan struct{})}
		close(w.gate)
		s, err := Open(Config{}, Deps{Disk: d, Blobs: w, Verify: h.Verify, Slog: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		err = s.FillRange(t.Context(), storage.Demand, node.Ref, 0, 1)
		if (blobs == nil) != errors.Is(err, storage.ErrUnavailable) || (blobs != nil) != s.Has(node.Ref) {
			t.Errorf("%s the root: %v, here: %v", what, err, s.Has(node.Ref))
		}
		s.Close()
	}
}
