package hub

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
)

// Lookup implements spoke.Hub. The first Found is dir itself, with no Name; one for each step that
// could be made follows, the last of them the end of the path or the first absence.
func (s *Session) Lookup(ctx context.Context, dir fabric.Ino, path []string, want int) ([]rights.Grant, []namespace.Found, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	if len(path) > fabric.MaxDepth || want < 0 {
		return nil, nil, fabric.Invalid
	}
	for _, name := range path {
		if c := fabric.CheckName(name); c != fabric.OK {
			return nil, nil, c
		}
	}
	met := s.n.walk(dir, path)
	for range s.n.cfg.Races {
		wants := wantsOf(met)
		grants, settled, err := s.rights(ctx, wants)
		if err != nil {
			return nil, nil, err
		}
		met = s.n.walk(dir, path)
		ok, err := s.covered(ctx, met, wants, settled)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			return grants, s.first(ctx, met, want), nil
		}
	}
	return nil, nil, &fabric.Error{Op: "lookup", Ino: dir, Code: fabric.Unavailable}
}

// walk follows path in the committed state.
func (n *Namespace) walk(dir fabric.Ino, path []string) (met []namespace.Found) {
	n.view(func(v kv.View) {
		at, ok := namespace.GetInode(v, dir)
		if !ok {
			met = append(met, namespace.Found{})
			return
		}
		met = append(met, namespace.Found{Inode: at})
		for _, name := range path {
			if at.Type != fabric.TypeDir {
				return
			}
			f := namespace.Found{Dir: at.Ino, Name: name}
			if ino, cookie, ok := namespace.GetDentry(v, at.Ino, name); ok {
				f.Cookie = cookie
				f.Inode, _ = namespace.GetInode(v, ino)
			}
			met = append(met, f)
			if at = f.Inode; at.Ino == 0 {
				return
			}
		}
	})
	return met
}

// wantsOf asks D on what is passed and R on the end, none of them to be waited for.
func wantsOf(met []namespace.Found) (wants []rights.Want) {
	for i, f := range met {
		if f.Inode.Ino == 0 {
			continue
		}
		r := rights.R
		if i+1 < len(met) {
			r |= rights.D
		}
		wants = append(wants, rights.Want{Ino: f.Inode.Ino, Right: r})
	}
	return wants
}

// covered says whether the table was asked about all that was met, so that nothing of it is under
// a W that has not been published. It waits for commands that made what was met.
func (s *Session) covered(ctx context.Context, met []namespace.Found, wants []rights.Want, settled fabric.Ino) (bool, error) {
	asked := make(map[fabric.Ino]bool, len(wants))
	for _, w := range wants {
		asked[w.Ino] = true
	}
	ok := true
	var young []fabric.Ino
	s.n.view(func(v kv.View) {
		for _, f := range met {
			if f.Inode.Ino != 0 {
				ok = ok && asked[f.Inode.Ino]
				young = s.young(v, f.Inode.Ino, settled, young)
			}
		}
	})
	if len(young) == 0 {
		return ok, nil
	}
	return false, s.grown(ctx)
}

// first adds the root node and the first want bytes of a file at the end of the path. They are a
// gift: what cannot be had is left out.
func (s *Session) first(ctx context.Context, met []namespace.Found, want int) []namespace.Found {
	last := &met[len(met)-1]
	c := last.Inode.Content
	if want == 0 || last.Inode.Type != fabric.TypeFile || c.Root.IsZero() || s.n.deps.Packs == nil {
		return met
	}
	n := min(int64(want), int64(s.n.cfg.MaxFirst), c.Size)
	left := s.n.cfg.MaxFirst + storage.MaxRaw // one chunk may go beyond
	for b, err := range s.n.deps.Packs.FetchRange(ctx, storage.Demand, c.Root, 0, n) {
		if left -= len(b.Data); err != nil || left < 0 {
			break
		}
		b.Data = append([]byte(nil), b.Data...)
		last.Blobs = append(last.Blobs, b)
	}
	return met
}
