package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/spoke"
	"github.com/spokefs/spokefs/fabric/system"
)

// site is a hub with spokes beside it.
type site struct {
	t   *testing.T
	dir string
	hub *Hub
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	s.openHub()
	t.Cleanup(func() {
		if err := s.hub.Close(); err != nil {
			t.Errorf("close hub: %v", err)
		}
	})
	if err := s.hub.CreateNamespace(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) openHub() {
	c, err := Parse("test", fmt.Appendf(nil, "[hub]\ndata = %q\n", filepath.Join(s.dir, "hub")))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.hub, err = OpenHub(s.t.Context(), *c.Hub, slog.New(slog.DiscardHandler)); err != nil {
		s.t.Fatal(err)
	}
}

// join starts a spoke beside the hub and gives its portal.
func (s *site) join(name string) (fabric.Portal, *Spoke) {
	s.t.Helper()
	c, err := Parse("test", fmt.Appendf(nil, "[spoke]\ndata = %q\n", filepath.Join(s.dir, name)))
	if err != nil {
		s.t.Fatal(err)
	}
	sp, err := OpenSpoke(*c.Spoke, func(ns string) spoke.Connector {
		served, err := s.hub.namespace(ns)
		if err != nil {
			s.t.Fatal(err)
		}
		return &beside{engine: served.engine, node: name}
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := sp.Attach(s.t.Context(), "main"); err != nil {
		s.t.Fatal(err)
	}
	sp.Show([]system.Portal{{Name: "main", Namespace: "main", Path: "/"}})
	p, err := sp.Site.Portal("main")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { sp.Close(context.Background()) })
	return p, sp
}

func write(t *testing.T, fs fabric.FS, dir fabric.Ino, name string, data []byte) fabric.Ino {
	t.Helper()
	a, _, err := fs.Make(t.Context(), dir, name, fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
	if err != nil {
		t.Fatalf("make %s: %v", name, err)
	}
	f, err := fs.Open(t.Context(), a.Ino, fabric.OpenRead|fabric.OpenWrite)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	if n, _, err := f.WriteAt(t.Context(), data, 0); err != nil || n != len(data) {
		t.Fatalf("write %s: %d, %v", name, n, err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a.Ino
}

func read(t *testing.T, fs fabric.FS, dir fabric.Ino, name string) []byte {
	t.Helper()
	a, err := fs.Lookup(t.Context(), dir, name)
	if err != nil {
		t.Fatalf("lookup %s: %v", name, err)
	}
	f, err := fs.Open(t.Context(), a.Ino, fabric.OpenRead)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	defer f.Close(t.Context())
	p := make([]byte, a.Size+10)
	n, err := f.ReadAt(t.Context(), p, 0)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return p[:n]
}

func noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(p)
	return p
}

func TestTwoSpokesSeeEachOther(t *testing.T) {
	s := newSite(t)
	pa, _ := s.join("a")
	pb, _ := s.join("b")
	a, b := pa.As(fabric.Root()), pb.As(fabric.Root())
	for _, n := range []int{0, 1, 1000, 16 << 10, 16<<10 + 1, 100_000, 3 << 20} {
		name := fmt.Sprint("f", n)
		want := noise(uint64(n), n)
		write(t, a, a.Root(), name, want)
		if got := read(t, a, a.Root(), name); !bytes.Equal(got, want) {
			t.Fatalf("%s: the writer reads %d other bytes", name, len(got))
		}
		if got := read(t, b, b.Root(), name); !bytes.Equal(got, want) {
			t.Fatalf("%s: the other reads %d other bytes", name, len(got))
		}
	}
	names := map[string]bool{}
	for e, err := range b.ReadDir(t.Context(), b.Root(), fabric.Pos{}) {
		if err != nil {
			t.Fatal(err)
		}
		names[e.Name] = true
	}
	if len(names) != 7 {
		t.Fatalf("the other lists %v", names)
	}
	if _, err := b.Remove(t.Context(), b.Root(), "f1000", fabric.RemoveFile, fabric.Cond{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lookup(t.Context(), a.Root(), "f1000"); fabric.CodeOf(err) != fabric.NotExist {
		t.Fatalf("removed at b, a says %v", err)
	}
}

func TestWhatWasClosedSurvivesRestarts(t *testing.T) {
	s := newSite(t)
	p, sp := s.join("a")
	fs := p.As(fabric.Root())
	want := noise(7, 200_000)
	write(t, fs, fs.Root(), "x", want)
	if err := sp.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.hub.Close(); err != nil {
		t.Fatal(err)
	}
	s.openHub()
	p, _ = s.join("a")
	fs = p.As(fabric.Root())
	if got := read(t, fs, fs.Root(), "x"); !bytes.Equal(got, want) {
		t.Fatalf("after restarts %d other bytes", len(got))
	}
}
