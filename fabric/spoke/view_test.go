package spoke

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/spokefs/spokefs/fabric"
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
