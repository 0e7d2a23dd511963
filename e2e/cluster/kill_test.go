package cluster

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spokefs/spokefs/e2e/harness"
)

// content is what file i has: its size is of every kind, inline, one chunk, several.
func content(i int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	p := make([]byte, []int{10, 3000, 16 << 10, 40_000, 200_000}[i%5])
	for j := range p {
		p[j] = byte(r.Uint32())
	}
	return p
}

// write writes one file with fsync; an error is a file that nobody was promised.
func write(dir string, i int) error {
	f, err := os.Create(filepath.Join(dir, name(i)))
	if err != nil {
		return err
	}
	_, err = f.Write(content(i))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// files is how many are written with fsync while something is done to the nodes.
const files = 1000

// strike writes all files with fsync, by eight writers, four at either side, and goes on until all
// are acknowledged. It strikes at the moment of an acknowledgement, when side has a third of its own:
// what was put off until after it is lost then.
func (p *pair) strike(side string, strike func()) {
	var mu sync.Mutex
	acked := 0
	struck := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < files; i += 8 {
				dir := []string{p.home, p.away}[w%2]
				for write(dir, i) != nil {
					select { // the mount is dead or on its way back
					case <-time.After(50 * time.Millisecond):
					case <-p.t.Context().Done():
						return
					}
				}
				if dir != side {
					continue
				}
				mu.Lock()
				if acked++; acked == files/2/3 {
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

// check reads every file at both sides, and runs fsck.
func (p *pair) check() {
	p.t.Helper()
	var wg sync.WaitGroup
	for r := range 16 {
		wg.Go(func() {
			for i := r / 2; i < files; i += 8 {
				dir := []string{p.home, p.away}[r%2]
				if got, err := os.ReadFile(filepath.Join(dir, name(i))); err != nil || !bytes.Equal(got, content(i)) {
					p.t.Errorf("file %d was acknowledged; %s has %d bytes of %d, %v", i, dir, len(got), len(content(i)), err)
				}
			}
		})
	}
	wg.Wait()
	if out, err := p.world.Spokefs("fsck", "--socket", p.world.Hub.Socket()); err != nil || string(out) != "clean\n" {
		p.t.Errorf("fsck: %v: %s", err, out)
	}
}

// wipe makes a spoke forget cache and journal; it stays the node that it was.
func wipe(t *testing.T, n *harness.Node) {
	if err := os.RemoveAll(filepath.Join(n.Data(), "namespaces")); err != nil {
		t.Error(err)
	}
}

// What fsync acknowledged before a process was killed is there afterwards, at both sides: with packs
// in a folder or in MinIO, and without what a spoke's disk had, since fsync is the hub's word.
func TestKill(t *testing.T) {
	for name, c := range map[string]struct{ spoke, minio, wipe bool }{
		"spoke":                {spoke: true},
		"hub":                  {},
		"spoke on MinIO":       {spoke: true, minio: true},
		"hub on MinIO":         {minio: true},
		"spoke, its disk lost": {spoke: true, wipe: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of its time is waiting: for the link, for leases
			var store *harness.MinIO
			if c.minio {
				store = harness.OpenMinIO(t)
			}
			p := start(t, store)
			n, side := p.world.Hub, p.home
			if c.spoke {
				n, side = p.spoke, p.away
			}
			p.strike(side, func() {
				n.Kill()
				if c.wipe {
					wipe(t, n)
				}
				if err := n.Start(t.Context()); err != nil {
					t.Error(err)
				}
			})
			p.check()
		})
	}
}
