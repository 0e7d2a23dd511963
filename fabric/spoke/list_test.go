package spoke

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// A page of a large directory that is known here costs what a page does, not what the directory
// does: NFS asks for a page with each call.
func TestPageOfALargeDirectory(t *testing.T) {
	const files, calls = 5000, 8
	h := newLateHub()
	for i := range files {
		h.apply(namespace.Command{Wall: 1, From: namespace.Origin{Session: h.ticket.Session, Epoch: h.ticket.Epoch, Seq: uint32(i + 1)},
			Ops: []namespace.Op{&namespace.Make{Dir: fabric.RootIno, Name: fmt.Sprintf("f%04d", i), Spec: fabric.NodeSpec{Type: fabric.TypeSymlink, Target: "x"}, Who: fabric.Root()}}})
	}
	fs := serve(t, h)
	list := func(from fabric.Pos, n int) (seen int, last fabric.Entry) {
		for e, err := range fs.ReadDir(t.Context(), fs.Root(), from) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == n {
				return seen, e
			}
			last = e
		}
		return seen, last
	}
	for range 2 { // the second time brings attributes to keep
		if n, _ := list(fabric.Pos{}, 2*files); n != files {
			t.Fatalf("%d entries, want %d", n, files)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	pos, names := fabric.Pos{}, 0
	for range calls {
		n, e := list(pos, 100)
		names, pos.After = names+n, e.Cookie
	}
	runtime.ReadMemStats(&after)
	if names != calls*100 {
		t.Fatalf("%d entries in %d pages", names, calls)
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > 200<<10 {
		t.Errorf("a page of 100 entries allocates %d bytes", each)
	}
}
