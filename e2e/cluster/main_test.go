package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spokefs/spokefs/e2e/harness"
	"github.com/spokefs/spokefs/protocols/fuse"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// wan is the link between a hub and a spoke: long enough that a round trip counts.
const wan = "5ms,500mbit"

// pair is a hub and a spoke far from it, both with a FUSE mount.
type pair struct {
	t          *testing.T
	world      *harness.World
	spoke      *harness.Node
	home, away string // a directory of the mount at the hub and at the spoke
}

// start makes a pair; the hub keeps packs in store, or in a folder if that is nil.
func start(t *testing.T, store *harness.MinIO) *pair {
	t.Helper()
	if testing.Short() {
		t.Skip("kills processes and takes a while")
	}
	if err := fuse.Available(); err != nil {
		harness.Lacking(t, err)
	}
	w := harness.Open(t, harness.Spec{Lease: 5 * time.Second, Store: store})
	spoke, err := w.Join(t.Context(), "far", harness.Spec{Wan: wan})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, world: w, spoke: spoke}
	mount := func(n *harness.Node, name string) string {
		dir := filepath.Join(w.Dir, name)
		if err := n.Mount(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		// Below the root: while a dead mount is made anew, what is written goes nowhere.
		return filepath.Join(dir, "d")
	}
	p.home, p.away = mount(w.Hub, "home-mnt"), mount(spoke, "far-mnt")
	if err := os.Mkdir(p.home, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// name is file i's.
func name(i int) string { return fmt.Sprint("f", i) }
