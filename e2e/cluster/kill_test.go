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

// strike writes all files with fsync, by eight writers, four at either side, strikes after a third,
// and goes on until all are acknowledged.
func (p *pair) strike(strike func()) {
	var mu sync.Mutex
	acked := 0
	struck := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < files; i += 8 {
				for write([]string{p.home, p.away}[w%2], i) != nil {
					select { // the mount is dead or on its way back
					case <-time.After(50 * time.Millisecond):
					case <-p.t.Context().Done():
						return
					}
				}
				mu.Lock()
				if acked++; acked == files/3 {
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

// stores are what a hub can keep packs in.
var stores = map[string]func(t *testing.T) *harness.MinIO{
	"folder": func(*testing.T) *harness.MinIO { return nil },
	"MinIO":  func(t *testing.T) *harness.MinIO { return harness.OpenMinIO(t) },
}

// What fsync acknowledged before a process was killed is there afterwards, at both sides.
func TestKill(t *testing.T) {
	for name, store := range stores {
		for victim, of := range map[string]func(p *pair) *harness.Node{
			"spoke": func(p *pair) *harness.Node { return p.spoke },
			"hub":   func(p *pair) *harness.Node { return p.world.Hub },
		} {
			t.Run(victim+" on "+name, func(t *testing.T) {
				t.Parallel() // most of its time is waiting: for the link, for leases
				p := start(t, store(t))
				p.strike(func() {
					of(p).Kill()
					if err := of(p).Start(t.Context()); err != nil {
						t.Error(err)
					}
				})
				p.check()
			})
		}
	}
}
