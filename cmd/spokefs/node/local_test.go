package node

import (
	"log/slog"
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

func TestLocalSiteKeepsItsFiles(t *testing.T) {
	dir := t.TempDir()
	var root fabric.Handle
	for i := range 2 {
		l, err := Local(t.Context(), dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.Portals.Portal("main")
		if err != nil {
			t.Fatal(err)
		}
		fs := p.As(fabric.Root())
		if i == 0 {
			write(t, fs, fs.Root(), "x", []byte("hello"))
			root = p.Handle(fs.Root())
		} else if got := read(t, fs, fs.Root(), "x"); string(got) != "hello" || p.Handle(fs.Root()) != root {
			t.Fatalf("after a restart: %q, the same handle: %v", got, p.Handle(fs.Root()) == root)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
