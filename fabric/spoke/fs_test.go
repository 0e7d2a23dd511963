package spoke_test

import (
	"testing"

	"github.com/spokefs/spokefs/e2e/local"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/fstest"
	"github.com/spokefs/spokefs/fabric/memfs"
	"github.com/spokefs/spokefs/fabric/spoke"
)

// world shows spokes to the suite.
func world(spokes ...*local.Spoke) (w fstest.World) {
	for _, s := range spokes {
		w.Portals = append(w.Portals, s.Portal("main"))
	}
	w.IverLags = true
	w.ReadOnly = spokes[0].Portal("read-only")
	return w
}

// few is a spoke that forgets most of what it has been told.
var few = spoke.Config{Inodes: 8}

// TestFS runs the suite on one spoke, by pointer and over the wire, on one that forgets, and on two
// of which each call goes to the other.
func TestFS(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		fstest.Run(t, world(local.NewHub(t).Beside("a", spoke.Config{})))
	})
	t.Run("wire", func(t *testing.T) {
		fstest.Run(t, world(local.NewHub(t).Remote("a", spoke.Config{})))
	})
	t.Run("few", func(t *testing.T) {
		fstest.Run(t, world(local.NewHub(t).Beside("a", few)))
	})
	t.Run("two", func(t *testing.T) {
		h := local.NewHub(t)
		fstest.Run(t, world(h.Beside("a", spoke.Config{}), h.Beside("b", spoke.Config{})))
	})
	t.Run("two over the wire", func(t *testing.T) {
		h := local.NewHub(t)
		fstest.Run(t, world(h.Remote("a", spoke.Config{}), h.Remote("b", spoke.Config{})))
	})
}

// reference is what the spokes are compared with.
func reference() fstest.World {
	s := memfs.New(0o777, nil)
	return fstest.World{Portals: []fabric.Portal{s.Show("main", fabric.RootIno, fabric.Policy{})}}
}

// TestRandom compares spokes with memfs under random operations: one spoke; one that forgets and
// asks again all the time; one that publishes all, or starts anew, from time to time; two in turn.
func TestRandom(t *testing.T) {
	random := func(name string, open func(t *testing.T) fstest.World) {
		t.Run(name, func(t *testing.T) {
			fstest.Seeds(t, 4, func(t *testing.T, seed uint64) { fstest.Random(t, open(t), reference(), seed, 400) })
		})
	}
	random("one", func(t *testing.T) fstest.World { return world(local.NewHub(t).Beside("a", spoke.Config{})) })
	random("few", func(t *testing.T) fstest.World { return world(local.NewHub(t).Beside("a", few)) })
	random("wire", func(t *testing.T) fstest.World { return world(local.NewHub(t).Remote("a", spoke.Config{})) })
	random("restarts", func(t *testing.T) fstest.World {
		s := local.NewHub(t).Beside("a", spoke.Config{})
		w, n := world(s), 0
		w.Shake = func(t *testing.T) []fabric.Portal {
			if n++; n%2 == 0 {
				s.Restart()
			} else if err := s.FlushAll(t.Context()); err != nil {
				t.Error(err)
			}
			return []fabric.Portal{s.Portal("main")}
		}
		return w
	})
	random("two", func(t *testing.T) fstest.World {
		h := local.NewHub(t)
		return world(h.Beside("a", spoke.Config{}), h.Remote("b", few))
	})
}

// TestRace lets several callers change one directory at once, at one spoke and at two.
func TestRace(t *testing.T) {
	race := func(name string, open func(t *testing.T) fstest.World) {
		t.Run(name, func(t *testing.T) {
			fstest.Seeds(t, 4, func(t *testing.T, seed uint64) { fstest.Race(t, open(t), seed) })
		})
	}
	race("one", func(t *testing.T) fstest.World { return world(local.NewHub(t).Beside("a", spoke.Config{})) })
	race("few", func(t *testing.T) fstest.World { return world(local.NewHub(t).Beside("a", few)) })
	race("two", func(t *testing.T) fstest.World {
		h := local.NewHub(t)
		return world(h.Remote("a", spoke.Config{}), h.Beside("b", spoke.Config{}))
	})
}
