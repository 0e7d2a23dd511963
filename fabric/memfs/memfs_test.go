package memfs_test

import (
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/fstest"
	"github.com/spokefs/spokefs/fabric/memfs"
)

func world() fstest.World {
	s := memfs.New(0o777, nil)
	return fstest.World{
		Portals:  []fabric.Portal{s.Show("main", fabric.RootIno, fabric.Policy{})},
		ReadOnly: s.Show("read-only", fabric.RootIno, fabric.Policy{ReadOnly: true}),
	}
}

func TestFS(t *testing.T) { fstest.Run(t, world()) }

func TestRace(t *testing.T) {
	fstest.Seeds(t, 4, func(t *testing.T, seed uint64) { fstest.Race(t, world(), seed) })
}

// The random operations end alike on two of them.
func TestRandom(t *testing.T) {
	fstest.Seeds(t, 5, func(t *testing.T, seed uint64) { fstest.Random(t, world(), world(), seed, 400) })
}
