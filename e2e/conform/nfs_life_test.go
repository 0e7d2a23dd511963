package conform

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/fabric/system"
)

// Cases N1 and N10: handles, file numbers and the file system's number outlive the server.
func TestNFSHandlesOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	open := system.Portal{Name: "main", Namespace: "main", Path: "/", NoRootSquash: true}
	s := openNFS(t, dir, open)
	r := s.raw(t, 0)
	root := r.mnt("/main")
	p := r.want(0, 8, root, "f", 1, noAttrs)
	h := bytes.Clone(p[8:56])
	p = r.want(0, 7, h, uint64(0), 5, 2, "hello")
	verifier := bytes.Clone(p[len(p)-8:])
	before := bytes.Clone(r.want(0, 1, h))
	s.close()

	s = openNFS(t, dir, open)
	r = s.raw(t, 0)
	after := r.want(0, 1, h)
	if !bytes.Equal(before[36:60], after[36:60]) {
		t.Errorf("fsid and fileid were % x, are % x", before[36:60], after[36:60])
	}
	if p = r.want(0, 6, h, uint64(0), 100); !bytes.Equal(p[88:], x(5, 1, "hello")) {
		t.Errorf("read % x", p[88:])
	}
	p = r.want(0, 7, h, uint64(5), 1, 0, "!")
	if bytes.Equal(p[len(p)-8:], verifier) {
		t.Error("the write verifier is that of before the restart (case N7)")
	}
	r.want(0, 3, root, "f")
}

// Cases N1 and N5: another spoke takes the same handles, and a race has one winner over both.
func TestNFSTwoSpokes(t *testing.T) {
	s := newNFS(t)
	other, err := s.site.Join(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	addr, _, stop := serveNFS(t, other.Site)
	t.Cleanup(stop)
	two := &nfsSite{addr: addr}
	a, b := s.raw(t, 1000), two.raw(t, 1000)
	root := a.mnt("/main")
	if !bytes.Equal(root, b.mnt("/main")) {
		t.Fatal("the root has two handles")
	}
	p := a.want(0, 8, root, "f", 1, noAttrs)
	h := bytes.Clone(p[8:56])
	for i := range 20 {
		w, r := a, b
		if i%2 == 1 {
			w, r = b, a
		}
		text := fmt.Sprintf("turn %2d", i)
		w.want(0, 7, h, uint64(0), len(text), 0, text)
		w.want(0, 21, h, uint64(0), 0)
		if p := r.want(0, 6, h, uint64(0), 100); !bytes.Equal(p[88:], x(len(text), 1, text)) {
			t.Fatalf("turn %d: the other reads % x", i, p[88:])
		}
	}
	for i := range 10 {
		name := fmt.Sprint("race", i)
		var status [8]uint32
		var done sync.WaitGroup
		for n := range status {
			r := []*nfsSite{s, two}[n%2].raw(t, 1000)
			done.Go(func() { status[n], _ = r.nfs(8, root, name, 2, uint64(100*i+n+1)) })
		}
		done.Wait()
		won := 0
		for _, st := range status {
			if st == 0 {
				won++
			} else if st != 17 {
				t.Errorf("%s: status %d", name, st)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d winners of %v", name, won, status)
		}
	}
}
