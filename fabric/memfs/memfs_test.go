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
