package retry

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/mem"
	"github.com/spokefs/spokefs/storage/storagetest"
)

// shaky breaks each of its first calls: after the second blob, and one ref by itself.
type shaky struct {
	storage.Blobs
	breaks int
	calls  int
}

func (s *shaky) broken() bool {
	s.calls++
	s.breaks--
	return s.breaks >= 0
}

func (s *shaky) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) {
		broken, n := s.broken(), 0
		for b, err := range s.Blobs.Fetch(ctx, c, refs) {
			if n++; broken && n == 1 {
				b, err = storage.Blob{Ref: b.Ref}, storage.ErrUnavailable
			}
			if broken && n == 3 {
				yield(storage.Blob{}, storage.ErrUnavailable)
				return
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

func (s *shaky) Put(ctx context.Context, c storage.Class, blobs []storage.Blob) error {
	if s.broken() {
		return storage.ErrUnavailable
	}
	return s.Blobs.Put(ctx, c, blobs)
}

func TestBlobs(t *testing.T) {
	storagetest.Blobs(t, func(_ *testing.T, h *chunk.Hasher) storage.Blobs { return New(Config{}, mem.New(h)) })
}

func TestOnlyWhatIsOwedIsAskedAgain(t *testing.T) {
	h := chunk.New([32]byte{1})
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{Blobs: mem.New(h), breaks: 2}
		b := New(Config{}, s)
		var blobs []storage.Blob
		var refs []storage.Ref
		for i := range 10 {
			blob := h.Seal(storage.Chunk, []byte{byte(i)}, nil)
			blobs, refs = append(blobs, blob), append(refs, blob.Ref)
		}
		if err := b.Put(t.Context(), storage.Upload, blobs); err != nil || s.calls != 3 {
			t.Fatal(err, s.calls)
		}
		s.breaks, s.calls = 3, 0
		got := map[storage.Ref]int{}
		for blob, err := range b.Fetch(t.Context(), storage.Demand, refs) {
			if got[blob.Ref]++; err != nil {
				t.Error(err)
			}
		}
		for _, r := range refs {
			if got[r] != 1 {
				t.Errorf("%s came %d times", r, got[r])
			}
		}
		if s.calls != 4 {
			t.Errorf("%d calls", s.calls)
		}
		s.breaks, s.calls = 100, 0
		if err := b.Put(t.Context(), storage.Upload, blobs); !errors.Is(err, storage.ErrUnavailable) || s.calls != 5 {
			t.Errorf("for good: %v after %d calls", err, s.calls)
		}
	})
}
