package hub

import (
	"context"
	"iter"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/pack"
)

// Blobs is the namespace's blobs as this session may use them: it may fetch any (A50), and what
// it stores or asks about is pinned for it (A41).
func (s *Session) Blobs() storage.Blobs { return blobs{s} }

// blobs implements storage.Blobs.
type blobs struct{ s *Session }

// usable refuses sessions that have ended.
func (b blobs) usable(write bool) error {
	switch b.s.over() {
	case nil:
	case error(fabric.Fenced):
		return storage.ErrDenied
	default:
		return storage.ErrUnavailable
	}
	if write && b.s.readOnly {
		return storage.ErrDenied
	}
	if b.s.n.deps.Packs == nil {
		return storage.ErrUnavailable
	}
	return nil
}

func (b blobs) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	if err := b.usable(false); err != nil {
		return failed(err)
	}
	if len(refs) > storage.MaxBatch {
		return failed(storage.ErrInvalid)
	}
	return b.s.n.deps.Packs.Fetch(ctx, c, refs)
}

func (b blobs) FetchRange(ctx context.Context, c storage.Class, root storage.Ref, off, n int64) iter.Seq2[storage.Blob, error] {
	if err := b.usable(false); err != nil {
		return failed(err)
	}
	return b.s.n.deps.Packs.FetchRange(ctx, c, root, off, n)
}

func (b blobs) Put(ctx context.Context, c storage.Class, list []storage.Blob) error {
	if err := b.usable(true); err != nil {
		return err
	}
	if len(list) > storage.MaxBatch {
		return storage.ErrInvalid
	}
	return b.s.n.deps.Packs.PutFor(ctx, c, pack.Owner(b.s.id), list)
}

// Missing logs a pin of what is there before it says so.
func (b blobs) Missing(ctx context.Context, refs, dst []storage.Ref) ([]storage.Ref, error) {
	if err := b.usable(true); err != nil {
		return dst, err
	}
	if len(refs) > storage.MaxBatch {
		return dst, storage.ErrInvalid
	}
	s, start := b.s, len(dst)
	op := &namespace.Pin{Session: s.id, Epoch: s.epoch}
	s.n.view(func(v kv.View) {
		for _, r := range refs {
			if _, ok := namespace.Locate(v, r); ok {
				op.Refs = append(op.Refs, r)
			} else {
				dst = append(dst, r)
			}
		}
	})
	if len(op.Refs) == 0 {
		return dst, nil
	}
	res, err := s.n.own(ctx, op)
	switch {
	case err != nil:
		return dst[:start], storage.ErrUnavailable
	case res[0].Code == fabric.Fenced:
		return dst[:start], storage.ErrDenied
	case res[0].Code != fabric.OK:
		return dst[:start], storage.ErrUnavailable
	}
	return dst, nil
}

func failed(err error) iter.Seq2[storage.Blob, error] {
	return func(yield func(storage.Blob, error) bool) { yield(storage.Blob{}, err) }
}
