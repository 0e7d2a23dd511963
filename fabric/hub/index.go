package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/pack"
)

// Index is where packs are registered and blobs are found: the part of a namespace's committed
// state that storage/pack needs. It works on any node; what it logs needs the leader.
type Index struct {
	log   Log
	state State
	wall  func() time.Time
}

var _ pack.Index = (*Index)(nil)

// NewIndex is the index of a group's state. It is made before the pack.Store, and that before the
// Namespace.
func NewIndex(log Log, state State, wall func() time.Time) *Index {
	return &Index{log: log, state: state, wall: wall}
}

// Begin implements pack.Index (A40). Keys are unique by how they are made: one that is registered
// already is this call's own proposal, which came twice.
func (x *Index) Begin(ctx context.Context, key string) error {
	code, err := x.propose(ctx, &namespace.PackBegin{Key: key})
	if err != nil || code == fabric.OK || code == fabric.Exist {
		return err
	}
	return fmt.Errorf("register pack %s: %w: %w", key, storage.ErrInvalid, code)
}

// End implements pack.Index (A21).
func (x *Index) End(ctx context.Context, key string, size int64, entries []pack.Entry) error {
	op := &namespace.PackEnd{Key: key, Size: size, Entries: make([]namespace.PackEntry, len(entries))}
	for i, e := range entries {
		op.Entries[i] = namespace.PackEntry{Ref: e.Ref, Kind: e.Kind, Form: e.Form, Off: e.Off, Len: e.Len,
			Sum: e.Sum, Children: e.Children, For: fabric.SessionID(e.Owner)}
	}
	code, err := x.propose(ctx, op)
	if err != nil || code == fabric.OK {
		return err
	}
	return fmt.Errorf("index pack %s: %w: %w", key, storage.ErrInvalid, code)
}

// Locate implements pack.Index.
func (x *Index) Locate(_ context.Context, refs []storage.Ref, dst []pack.Location) ([]pack.Location, error) {
	v, done := x.state.View()
	defer done()
	for _, r := range refs {
		l, _ := namespace.Locate(v, r)
		dst = append(dst, pack.Location(l))
	}
	return dst, nil
}

func (x *Index) propose(ctx context.Context, op namespace.Op) (fabric.Code, error) {
	res, err := own(ctx, x.log, x.wall(), op)
	switch {
	case err == nil:
		return res[0].Code, nil
	case errors.Is(err, fabric.Unavailable):
		return 0, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	return 0, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
}
