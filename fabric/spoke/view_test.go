package spoke

import (
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
)

// Callers may overwrite what they passed once a call has returned: versitygw does.
func TestArgumentsAreNotKept(t *testing.T) {
	h := newLateHub()
	fs, ctx := serve(t, h), t.Context()
	root := fs.Root()
	buffer := make([]byte, 16)
	pass := func(s string) string { return unsafe.String(&buffer[0], copy(buffer, s)) }
	listed := func() (out []string) {
		for e, err := range fs.ReadDir(ctx, root, fabric.Pos{}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Name)
		}
		return out
	}
	listed() // all of the directory is known from here on

	dir := fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755}
	made, _, err := fs.Make(ctx, root, pass("made"), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := fs.Make(ctx, root, pass("symlink"), fabric.NodeSpec{Type: fabric.TypeSymlink, Target: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Lookup(ctx, root, pass("none")); fabric.CodeOf(err) != fabric.NotExist {
		t.Fatal(err)
	}
	pass("xxxxxxxxxxxxxxxx")
	if got, want := listed(), []string{"made", "symlink"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if a, err := fs.Lookup(ctx, root, "made"); err != nil || a.Ino != made.Ino {
		t.Errorf("found %d, %v", a.Ino, err)
	}
	for _, name := range []string{"none", "xxxx"} { // the second: what is left of the first
		if _, err := fs.Lookup(ctx, root, name); fabric.CodeOf(err) != fabric.NotExist {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file without a name that is not wanted goes at once, or with its last close.
func TestDiscard(t *testing.T) {
	h := newLateHub()
	fs, ctx := serve(t, h), t.Context()
	there := func(ino fabric.Ino) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		_, ok := namespace.GetInode(&h.state, ino)
		return ok
	}
	unnamed := func() fabric.Ino {
		a, _, err := fs.Make(ctx, fs.Root(), "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600})
		if err != nil || !there(a.Ino) {
			t.Fatal(err)
		}
		return a.Ino
	}
	ino := unnamed()
	if err := fs.Discard(ctx, ino); err != nil || there(ino) {
		t.Error("it is still there:", err)
	}
	if err := fs.Discard(ctx, ino); fabric.CodeOf(err) != fabric.Invalid {
		t.Error("a second time:", err)
	}

	ino = unnamed()
	f, err := fs.Open(ctx, ino, fabric.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.Discard(ctx, ino); err != nil || !there(ino) {
		t.Error("it went while it was open:", err)
	}
	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
	for there(ino) { // in the background; a test that hangs here has found that it never goes
		runtime.Gosched()
	}

	dir, _, err := fs.Make(ctx, fs.Root(), "dir", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.Discard(ctx, dir.Ino); fabric.CodeOf(err) != fabric.Invalid || !there(dir.Ino) {
		t.Error("what has a name was discarded:", err)
	}
}
