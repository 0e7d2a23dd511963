package cluster

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spokefs/spokefs/e2e/harness"
)

// port is the TCP port at which a node serves NFS.
func port(t *testing.T, n *harness.Node) int {
	t.Helper()
	_, s, err := net.SplitHostPort(n.Endpoint("nfs"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A hard mount of the Linux kernel goes on after its server, or the hub behind that, was killed and
// started again: programs wait, nothing is mounted anew, and what fsync acknowledged is there.
func TestKillUnderKernelMount(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes and takes a while")
	}
	for what, c := range map[string]struct{ spoke, wipe bool }{
		"hub": {}, "spoke": {spoke: true}, "spoke, its disk lost": {spoke: true, wipe: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // most of its time is waiting
			w := harness.Open(t, harness.Spec{Lease: 5 * time.Second})
			spoke, err := w.Join(t.Context(), "far", harness.Spec{NFS: true, Wan: wan})
			if err != nil {
				t.Fatal(err)
			}
			g := harness.OpenGuest(t, "hard,timeo=50,wsize=65536", port(t, spoke))
			n := w.Hub
			if c.spoke {
				n = spoke
			}
			writeThrough(t, g, func() {
				n.Kill()
				if c.wipe { // what was written and not committed is the client's to write again
					wipe(t, n)
				}
				if err := n.Start(t.Context()); err != nil {
					t.Error(err)
				}
			})
			for i := range kernelFiles {
				var b bytes.Buffer
				if err := w.Hub.Admin.Read(t.Context(), "main", "/"+name(i), &b); err != nil || !bytes.Equal(b.Bytes(), through(i)) {
					t.Errorf("file %d at the hub: %d bytes of %d, %v", i, b.Len(), len(through(i)), err)
				}
				if r := g.Do(0, harness.FileOp{Kind: harness.ReadFile, Path: name(i)}); r.Err() != nil || !bytes.Equal(r.Data, through(i)) {
					t.Errorf("file %d on the mount: %d bytes of %d, %v", i, len(r.Data), len(through(i)), r.Err())
				}
			}
			if out, err := w.Spokefs("fsck", "--socket", w.Hub.Socket()); err != nil {
				t.Errorf("fsck: %v: %s", err, out)
			}
		})
	}
}

// kernelFiles is how many files are written through a kernel's mount.
const kernelFiles = 300

// through is what file i has: those written around the strike are so long that most of their writes
// are not yet committed then.
func through(i int) []byte {
	if i >= kernelFiles/3-8 && i < kernelFiles/3+16 {
		return bytes.Repeat(content(i), 2<<20/len(content(i)))
	}
	return content(i)
}

// writeThrough writes files with fsync by four writers, and strikes after a third.
func writeThrough(t *testing.T, g *harness.Guest, strike func()) {
	var mu sync.Mutex
	acked := 0
	struck := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < kernelFiles; i += 4 {
				if err := writeOne(g, i); err != nil {
					t.Errorf("write %d: %v", i, err)
				}
				mu.Lock()
				if acked++; acked == kernelFiles/3 {
					close(struck)
				}
				mu.Unlock()
			}
		})
	}
	<-struck
	strike()
	wg.Wait()
}

// writeOne writes a file: in place, or as a new one that is renamed. The mount is hard, so nothing
// may fail but what was carried out before its answer was lost (until A34).
func writeOne(g *harness.Guest, i int) error {
	op := harness.FileOp{Kind: harness.Overwrite, Path: name(i), Data: through(i), Sync: true}
	if i%3 != 0 {
		return g.Do(0, op).Err()
	}
	op.Kind, op.Path = harness.Create, "new-"+name(i)
	err := g.Do(0, op).Err()
	if errors.Is(err, syscall.EEXIST) {
		op.Kind = harness.Overwrite
		err = g.Do(0, op).Err()
	}
	if err != nil {
		return err
	}
	err = g.Do(0, harness.FileOp{Kind: harness.Rename, Path: op.Path, To: name(i)}).Err()
	if errors.Is(err, syscall.ENOENT) { // the caller looks whether it has the new name
		return nil
	}
	return err
}
