package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/cmd/spokefs/node"
	"github.com/spokefs/spokefs/e2e/nfsclient"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/system"
	"github.com/spokefs/spokefs/protocols/nfs"
)

// nfsSite is a hub, a spoke and an NFS server of its portal "main".
type nfsSite struct {
	addr  string
	site  *node.LocalSite
	srv   *nfs.Server
	close func()
}

// newNFS serves a portal whose root directory anybody may write in.
func newNFS(t *testing.T, portals ...system.Portal) *nfsSite {
	t.Helper()
	s := openNFS(t, t.TempDir(), portals...)
	p, err := s.site.Portals.Portal(s.site.Portals.Names()[0])
	if err != nil {
		t.Fatal(err)
	}
	fs := p.As(fabric.Root())
	if _, err := fs.SetAttr(t.Context(), fs.Root(), fabric.SetAttr{Set: fabric.SetMode, Mode: 0o777}); err != nil {
		t.Fatal(err)
	}
	return s
}

// openNFS serves what is in dir.
func openNFS(t *testing.T, dir string, portals ...system.Portal) *nfsSite {
	t.Helper()
	site, err := node.Local(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(portals) > 0 {
		site.Spoke.Show(portals)
	}
	s := &nfsSite{site: site}
	var stop func()
	s.addr, s.srv, stop = serveNFS(t, site.Portals)
	s.close = sync.OnceFunc(func() {
		stop()
		if err := site.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Cleanup(s.close)
	return s
}

// serveNFS serves portals until stop.
func serveNFS(t *testing.T, portals fabric.Portals) (addr string, srv *nfs.Server, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv = nfs.New(nfs.Config{}, portals, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := srv.Serve(ctx, l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String(), srv, func() { cancel(); done.Wait() }
}

func (s *nfsSite) dial(t *testing.T, export string, uid uint32) *nfsclient.Client {
	t.Helper()
	c, err := nfsclient.DialAs(s.addr, export, uid, uid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func nfsNoise(seed byte, n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(p)
	return p
}

func nfsRead(t *testing.T, c *nfsclient.Client, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.Read(name, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestNFSFiles(t *testing.T) {
	s := newNFS(t)
	c := s.dial(t, "/main", 1000)
	for i, n := range []int{0, 1, 3, 4, 17 << 10, 3<<20 + 5} {
		name, want := fmt.Sprint("/f", n), nfsNoise(byte(i), n)
		if err := c.Write(name, bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		if got := nfsRead(t, c, name); !bytes.Equal(got, want) {
			t.Fatalf("%s: read %d other bytes", name, len(got))
		}
	}
	// Shorter content over longer.
	if err := c.Write("/f17408", bytes.NewReader([]byte("short"))); err != nil {
		t.Fatal(err)
	}
	if got := nfsRead(t, c, "/f17408"); string(got) != "short" {
		t.Fatalf("overwritten: %d bytes", len(got))
	}
	steps := []struct {
		what string
		f    func() error
	}{
		{"mkdir", func() error { return c.Mkdir("/d") }},
		{"rename into", func() error { return c.Rename("/f1", "/d/g") }},
		{"rename over", func() error { return c.Rename("/f3", "/d/g") }},
		{"chmod", func() error { return c.Chmod("/d/g", 0o640) }},
		{"truncate", func() error { return c.Truncate("/f4", 10) }},
		{"symlink", func() error { return c.FS().Symlink("d/g", "/s") }},
		{"remove link", func() error { return c.Remove("/s") }},
	}
	for _, st := range steps {
		if err := st.f(); err != nil {
			t.Fatalf("%s: %v", st.what, err)
		}
	}
	if got := nfsRead(t, c, "/d/g"); !bytes.Equal(got, nfsNoise(2, 3)) {
		t.Fatalf("renamed file has %q", got)
	}
	if got := nfsRead(t, c, "/f4"); len(got) != 10 || !bytes.Equal(got[4:], make([]byte, 6)) {
		t.Fatalf("grown file has %q", got)
	}
	l, err := c.List("/d")
	if err != nil || len(l) != 1 || l[0].Name != "g" || l[0].Size != 3 || l[0].Mode.Perm() != 0o640 {
		t.Fatalf("list: %v, %v", l, err)
	}
	if err := c.Remove("/d"); err == nil {
		t.Fatal("a full directory was removed")
	}
	if err := errors.Join(c.Remove("/d/g"), c.Remove("/d")); err != nil {
		t.Fatal(err)
	}
	if err := c.Read("/d/g", &bytes.Buffer{}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("removed: %v", err)
	}
}

func TestNFSLongListing(t *testing.T) {
	const n = 2000
	s := newNFS(t)
	p, err := s.site.Portals.Portal("main")
	if err != nil {
		t.Fatal(err)
	}
	fs := p.As(fabric.Root())
	dir, _, err := fs.Make(t.Context(), fs.Root(), "many", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, _, err := fs.Make(t.Context(), dir.Ino, fmt.Sprintf("name-%040d", i), fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.dial(t, "/main", 1000).List("/many")
	if err != nil || len(l) != n {
		t.Fatalf("%d of %d names, %v", len(l), n, err)
	}
	// The directory itself mounted, by the path below the portal.
	if l, err = s.dial(t, "/main/many", 1000).List("/"); err != nil || len(l) != n {
		t.Fatalf("mounted: %d of %d names, %v", len(l), n, err)
	}
}

func TestNFSCallersAreHeldToTheirIDs(t *testing.T) {
	s := newNFS(t)
	one, two, root := s.dial(t, "/", 1001), s.dial(t, "/", 1002), s.dial(t, "/", 0)
	if err := one.Mkdir("/private"); err != nil {
		t.Fatal(err)
	}
	if err := one.Chmod("/private", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*nfsclient.Client{"another": two, "root, squashed": root} {
		if _, err := c.List("/private"); err == nil {
			t.Errorf("%s lists a 0700 directory", name)
		}
		if err := c.Write("/private/x", bytes.NewReader([]byte("x"))); err == nil {
			t.Errorf("%s writes in a 0700 directory", name)
		}
		if err := c.Chmod("/private", 0o777); err == nil {
			t.Errorf("%s changes the mode of what it does not own", name)
		}
	}
	// Case N14: the owner writes what it made read-only; nobody else does.
	if _, err := one.FS().Create("/ro", 0o444); err != nil {
		t.Fatal(err)
	}
	f, err := one.FS().OpenFile("/ro", 0o444)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("mine")); err != nil {
		t.Fatalf("the owner cannot write its 0444 file: %v", err)
	}
	g, err := two.FS().OpenFile("/ro", 0o444)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("no")); err == nil {
		t.Fatal("another writes a 0444 file")
	}
	if got := nfsRead(t, two, "/ro"); string(got) != "mine" {
		t.Fatalf("read %q", got)
	}
}

func TestNFSPolicies(t *testing.T) {
	s := newNFS(t,
		system.Portal{Name: "main", Namespace: "main", Path: "/", NoRootSquash: true},
		system.Portal{Name: "ro", Namespace: "main", Path: "/", ReadOnly: true},
		system.Portal{Name: "s3only", Namespace: "main", Path: "/", Protocols: []string{"s3"}},
	)
	root := s.dial(t, "/main", 0)
	if err := root.Write("/x", bytes.NewReader([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := root.Chmod("/x", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.dial(t, "/ro", 0).Write("/y", bytes.NewReader([]byte("y"))); err == nil {
		t.Error("written through a read-only portal")
	}
	if err := s.dial(t, "/ro", 0).Read("/x", &bytes.Buffer{}); err == nil {
		t.Error("squashed root reads root's 0600 file")
	}
	for _, export := range []string{"/s3only", "/none", "/", "/main/none", "/main/x"} {
		if _, err := nfsclient.DialAs(s.addr, export, 0, 0); err == nil {
			t.Errorf("mounted %s", export)
		}
	}
}

// port is the server's TCP port.
func (s *nfsSite) port() int {
	a, err := net.ResolveTCPAddr("tcp", s.addr)
	if err != nil {
		panic(err)
	}
	return a.Port
}
