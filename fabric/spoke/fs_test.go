package spoke_test

import (
	"testing"

	"github.com/spokefs/spokefs/e2e/local"
	"github.com/spokefs/spokefs/fabric/fstest"
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
