package fstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

// Race lets several callers create, rename, remove, look up and list in one directory at once. What
// a caller was answered is so from then on, until the same caller changes it: names are its own,
// the directory is not.
func Race(t *testing.T, w World, seed uint64) {
	e := newEnv(t, &w, fmt.Sprint("race ", seed))
	const callers, steps = 6, 60
	var all sync.WaitGroup
	for i := range callers {
		r := &racer{t: t, w: &w, ctx: e.ctx, dir: e.dir, id: i, rng: rand.New(rand.NewPCG(seed, uint64(i))), mine: map[string]fabric.Ino{}}
		all.Go(func() {
			for range steps {
				r.step()
			}
			r.check()
		})
	}
	all.Wait()
}

// racer is one caller; mine is what its names are, 0: gone.
type racer struct {
	t    *testing.T
	w    *World
	ctx  context.Context
	dir  fabric.Ino
	id   int
	rng  *rand.Rand
	mine map[string]fabric.Ino
}

// fs gives root's view at one of the sites.
func (r *racer) fs() fabric.FS { return r.w.Portals[r.rng.IntN(len(r.w.Portals))].As(root) }

// name draws one of the caller's names that is there, or one that is not.
func (r *racer) name(there bool) string {
	for range 20 {
		name := fmt.Sprintf("%d-%d", r.id, r.rng.IntN(8))
		if (r.mine[name] != 0) == there {
			return name
		}
	}
	return ""
}

func (r *racer) step() {
	from, to := r.name(true), r.name(false)
	switch k := r.rng.IntN(6); {
	case k <= 1 && to != "":
		a, _, err := r.fs().Make(r.ctx, r.dir, to, fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600})
		r.done("make "+to, err)
		r.mine[to] = a.Ino
	case k == 2 && from != "":
		_, err := r.fs().Remove(r.ctx, r.dir, from, fabric.RemoveFile, fabric.Cond{})
		r.done("remove "+from, err)
		r.mine[from] = 0
	case k == 3 && from != "" && to != "":
		_, _, err := r.fs().Rename(r.ctx, r.dir, from, r.dir, to, fabric.RenameReplace)
		r.done("rename "+from+" to "+to, err)
		r.mine[from], r.mine[to] = 0, r.mine[from]
	case k == 4:
		r.check()
	default:
		for _, name := range []string{from, to} {
			if name != "" {
				r.lookup(name)
			}
		}
	}
}

func (r *racer) done(what string, err error) {
	if err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
}

func (r *racer) lookup(name string) {
	a, err := r.fs().Lookup(r.ctx, r.dir, name)
	want := fabric.OK
	if r.mine[name] == 0 {
		want = fabric.NotExist
	}
	if fabric.CodeOf(err) != want || a.Ino != r.mine[name] {
		r.t.Errorf("lookup of %s: inode %#x, error %v, want inode %#x", name, a.Ino, err, r.mine[name])
	}
}

// check lists the directory: the caller's own names are as it left them.
func (r *racer) check() {
	seen := map[string]fabric.Ino{}
	for d, err := range r.fs().ReadDir(r.ctx, r.dir, fabric.Pos{}) {
		if err != nil {
			r.t.Errorf("list: %v", err)
			return
		}
		if seen[d.Name] != 0 && r.mine[d.Name] != 0 {
			r.t.Errorf("list: %s comes twice", d.Name)
		}
		seen[d.Name] = d.Attr.Ino
	}
	for name, ino := range r.mine {
		if seen[name] != ino {
			r.t.Errorf("list: %s is inode %#x, want %#x", name, seen[name], ino)
		}
	}
}
