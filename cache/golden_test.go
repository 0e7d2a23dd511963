package cache

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestGolden holds docs/formats/cache.md: a chunk of two blocks, then a node.
func TestGolden(t *testing.T) {
	const name = "testdata/segment-v2.golden"
	h := chunk.New([32]byte{1})
	deps := func(d disk.Dir) Deps {
		return Deps{Disk: d, Verify: h.Verify, Slog: slog.New(slog.DiscardHandler)}
	}
	blobs := []struct {
		kind storage.Kind
		raw  []byte
	}{{storage.Chunk, bytes.Repeat([]byte("golden! "), 2100)}, {storage.Node, []byte("a node, for all that the cache knows")}}
	d := disk.NewMem()
	s, err := Open(Config{}, deps(d))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		s.Add(h.Seal(b.kind, b.raw, nil).Ref, b.kind, b.raw)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := content(t, d, segmentName(1))
	if *rewrite {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if the format changed on purpose, it needs a new version", name)
	}

	d = disk.NewMem()
	f, err := d.Open(segmentName(1), disk.Create)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if s, err = Open(Config{}, deps(d)); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, b := range blobs {
		ref := h.Seal(b.kind, b.raw, nil).Ref
		p := make([]byte, len(b.raw))
		if at := s.index[ref]; !s.hit(ref, p, 0) || !bytes.Equal(p, b.raw) || at.kind != b.kind {
			t.Errorf("%v is not read back", ref)
		}
	}
}

// content reads a file whole.
func content(t *testing.T, d disk.Dir, name string) []byte {
	t.Helper()
	f, err := d.Open(name, disk.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, n)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}
