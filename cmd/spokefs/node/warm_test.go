package node

import (
	"context"
	"log/slog"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

// warm gives a portal's view with a file of size bytes that is published, leased and cached, and the
// file open.
func warm(tb testing.TB, size int) (fabric.FS, fabric.File) {
	tb.Helper()
	ctx := context.Background()
	l, err := Local(ctx, tb.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close(ctx) })
	p, err := l.Portals.Portal("main")
	if err != nil {
		tb.Fatal(err)
	}
	fs := p.As(fabric.Root())
	a, _, err := fs.Make(ctx, fs.Root(), "x", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
	if err != nil {
		tb.Fatal(err)
	}
	f, err := fs.Open(ctx, a.Ino, fabric.OpenRead|fabric.OpenWrite)
	if err != nil {
		tb.Fatal(err)
	}
	if _, _, err := f.WriteAt(ctx, noise(1, size), 0); err != nil {
		tb.Fatal(err)
	}
	if err := f.Sync(ctx); err != nil {
		tb.Fatal(err)
	}
	readWhole(tb, f, make([]byte, size))
	return fs, f
}

func readWhole(tb testing.TB, f fabric.File, p []byte) {
	const step = 128 << 10
	for off := 0; off < len(p); off += step {
		part := p[off:min(off+step, len(p))]
		if n, err := f.ReadAt(context.Background(), part, int64(off)); err != nil || n != len(part) {
			tb.Fatal(n, err)
		}
	}
}

// What is leased and cached costs no allocation below the front end (F1).
func TestWarmReadsDoNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("allocations are counted without the race detector, which the short run has")
	}
	const size = 3 << 20
	fs, f := warm(t, size)
	p := make([]byte, size)
	if n := testing.AllocsPerRun(100, func() { readWhole(t, f, p) }); n >= 1 { // pools may be emptied once in a while
		t.Errorf("a whole read makes %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := fs.Lookup(t.Context(), fs.Root(), "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := fs.Stat(t.Context(), f.Ino()); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("a look makes %v allocations", n)
	}
}

// BenchmarkWarmRead is a whole file of 16 MiB through the spoke, in reads of 128 KiB.
func BenchmarkWarmRead(b *testing.B) {
	const size = 16 << 20
	_, f := warm(b, size)
	p := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		readWhole(b, f, p)
	}
}
