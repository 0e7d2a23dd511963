package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/protocols/fuse"
)

// daemon is a spokefs process that can be killed and started again.
type daemon struct {
	t    *testing.T
	args []string
	log  string
	cmd  *exec.Cmd
}

func (d *daemon) start() {
	d.t.Helper()
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	d.cmd = exec.Command(d.args[0], d.args[1:]...)
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == "ready" {
			return
		}
	}
	text, _ := os.ReadFile(d.log)
	d.t.Fatalf("%v ended before it was ready:\n%s", d.args, text)
}

func (d *daemon) kill() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
}

func (d *daemon) stop() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
}

// pair is a hub and a spoke with a FUSE mount.
type pair struct {
	t          *testing.T
	dir, mnt   string
	hub, spoke *daemon
	admin      *admin.Client
}

func start(t *testing.T) *pair {
	if err := fuse.Available(); err != nil {
		if os.Getenv("SPOKEFS_REQUIRE_TOOLS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "spokefs-kill-") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin := filepath.Join(dir, "spokefs")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/spokefs/spokefs/cmd/spokefs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	p := &pair{t: t, dir: dir, mnt: filepath.Join(dir, "mnt")}
	file := func(name, text string) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	hubData, spokeData := filepath.Join(dir, "h"), filepath.Join(dir, "s")
	hubFile := file("hub.toml", fmt.Sprintf("[hub]\ndata = %q\nlisten = %q\nlease = \"5s\"\n", hubData, addr))
	spokeFile := file("spoke.toml", fmt.Sprintf("[spoke]\ndata = %q\n[[spoke.fuse]]\nportal = \"main\"\ndir = %q\n", spokeData, p.mnt))
	p.hub = &daemon{t: t, args: []string{bin, "hub", hubFile}, log: filepath.Join(dir, "hub.log")}
	p.hub.start()
	t.Cleanup(p.hub.stop)
	p.admin = admin.Dial(filepath.Join(hubData, "admin.sock"))
	ctx := t.Context()
	if err := p.admin.CreateNamespace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	if err := p.admin.SetPortal(ctx, system.Portal{Name: "main", Namespace: "main", Path: "/"}); err != nil {
		t.Fatal(err)
	}
	token, err := p.admin.Token(ctx, admin.Join{Spoke: "far", Grants: []system.Grant{{Namespace: "main"}}, TTL: time.Minute, Uses: 1})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(bin, "spoke", "join", token, "--data", spokeData).CombinedOutput(); err != nil {
		t.Fatalf("join: %v: %s", err, out)
	}
	p.spoke = &daemon{t: t, args: []string{bin, "spoke", "run", spokeFile}, log: filepath.Join(dir, "spoke.log")}
	p.spoke.start()
	t.Cleanup(p.spoke.stop)
	return p
}

// content is what file i has.
func content(i int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	p := make([]byte, []int{10, 3000, 16 << 10, 40_000, 200_000}[i%5])
	for j := range p {
		p[j] = byte(r.Uint32())
	}
	return p
}

// acked is the files whose fsync returned.
type acked struct {
	mu    sync.Mutex
	files map[int]bool
}

func (a *acked) add(i int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files[i] = true
	return len(a.files)
}

// write writes one file with fsync; an error is a file that nobody was promised.
func write(dir string, i int) error {
	f, err := os.Create(filepath.Join(dir, fmt.Sprint("f", i)))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content(i)); err != nil {
		return err
	}
	return f.Sync()
}

// strike writes files 0 to n by eight writers, strikes after a third and goes on until all are
// written.
func (p *pair) strike(n int, strike func()) *acked {
	a := &acked{files: map[int]bool{}}
	var once sync.Once
	struck := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				for write(p.mnt, i) != nil {
					select { // the mount is dead or on its way back
					case <-time.After(50 * time.Millisecond):
					case <-p.t.Context().Done():
						return
					}
				}
				if a.add(i) >= n/3 {
					once.Do(func() { close(struck) })
				}
			}
		})
	}
	<-struck
	strike()
	wg.Wait()
	return a
}

// check reads every acknowledged file at the hub, and runs fsck.
func (p *pair) check(a *acked) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	for i := range a.files {
		var got bytes.Buffer
		if err := p.admin.Read(ctx, "main", fmt.Sprint("/f", i), &got); err != nil || !bytes.Equal(got.Bytes(), content(i)) {
			p.t.Errorf("file %d was acknowledged, and has %d bytes, %v", i, got.Len(), err)
		}
	}
	found, err := p.admin.Fsck(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, x := range found {
		p.t.Errorf("fsck: inode %#x: %s", uint64(x.Ino), x.What)
	}
}

// files is how many are written with fsync while a process is killed.
const files = 1000

func TestKillSpoke(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes and takes a while")
	}
	p := start(t)
	a := p.strike(files, func() {
		p.spoke.kill()
		p.spoke.start()
	})
	p.check(a)
}

func TestKillHub(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes and takes a while")
	}
	p := start(t)
	a := p.strike(files, func() {
		p.hub.kill()
		p.hub.start()
	})
	p.check(a)
}
