package hub

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
)

// Index is where packs are registered and blobs are found: the part of the committed state that
// storage/pack needs. It works on any node; what it logs needs the leader.
type Index struct{ n *Namespace }

// Index gives the namespace's.
func (n *Namespace) Index() Index { return Index{n} }

// Begin registers a key before its PUT (A40). Keys are unique by how they are made: one that is
// registered already is this call's own proposal, which came twice.
func (x Index) Begin(ctx context.Context, key string) error {
	err := x.log(ctx, &namespace.PackBegin{Key: key})
	if err == error(fabric.Exist) {
		return nil
	}
	return err
}

// End indexes what a finished pack holds and pins it for who uploaded it (A21). Invalid: an entry
// names what is not there.
func (x Index) End(ctx context.Context, key string, size int64, entries []namespace.PackEntry) error {
	return x.log(ctx, &namespace.PackEnd{Key: key, Size: size, Entries: entries})
}

func (x Index) log(ctx context.Context, op namespace.Op) error {
	res, err := x.n.own(ctx, op)
	if err != nil {
		return err
	}
	if res[0].Code != fabric.OK {
		return res[0].Code
	}
	return nil
}

// Locate finds blobs; a Location without a Key is unknown.
func (x Index) Locate(refs []storage.Ref, dst []namespace.Location) []namespace.Location {
	x.n.view(func(v kv.View) {
		for _, r := range refs {
			l, _ := namespace.Locate(v, r)
			dst = append(dst, l)
		}
	})
	return dst
}
