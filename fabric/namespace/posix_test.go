package namespace

import (
	"testing"

	"github.com/spokefs/spokefs/fabric"
)

// tree makes directories and files by path, as root, and gives their inodes.
type tree struct {
	*slots
	seq uint32
}

func (w *tree) do(o Op) OpResult {
	w.seq++
	return w.send(w.seq, o).Ops[0]
}

func (w *tree) make(t *testing.T, dir fabric.Ino, name string, typ fabric.Type, mode uint16, who fabric.Cred) fabric.Attr {
	t.Helper()
	res := w.do(&Make{Dir: dir, Name: name, Spec: fabric.NodeSpec{Type: typ, Mode: mode}, Who: who})
	if res.Code != fabric.OK {
		t.Fatalf("make %s: %v", name, res.Code)
	}
	return res.Attr
}

func move(dir fabric.Ino, old string, to fabric.Ino, name string, who fabric.Cred) *Rename {
	un := Expect{Unchecked: true}
	return &Rename{From: dir, Old: old, To: to, Name: name, Who: who, Src: un, Dst: un}
}

func TestRenameRules(t *testing.T) {
	w := &tree{slots: newSlots(t)}
	root := fabric.Root()
	a := w.make(t, fabric.RootIno, "a", fabric.TypeDir, 0o755, root)
	b := w.make(t, a.Ino, "b", fabric.TypeDir, 0o755, root)
	w.make(t, b.Ino, "full", fabric.TypeFile, 0o644, root)
	w.make(t, fabric.RootIno, "d", fabric.TypeDir, 0o755, root)
	w.make(t, fabric.RootIno, "f", fabric.TypeFile, 0o644, root)
	for _, c := range []struct {
		what string
		op   *Rename
		want fabric.Code
	}{
		{"into itself", move(fabric.RootIno, "a", a.Ino, "x", root), fabric.Invalid},
		{"into a descendant", move(fabric.RootIno, "a", b.Ino, "x", root), fabric.Invalid},
		{"directory over file", move(fabric.RootIno, "d", fabric.RootIno, "f", root), fabric.NotDir},
		{"file over directory", move(fabric.RootIno, "f", fabric.RootIno, "d", root), fabric.IsDir},
		{"over a full directory", move(fabric.RootIno, "d", a.Ino, "b", root), fabric.NotEmpty},
		{"of nothing", move(fabric.RootIno, "none", fabric.RootIno, "x", root), fabric.NotExist},
		{"by a stranger", move(fabric.RootIno, "f", a.Ino, "f", fabric.Cred{UID: 7, GID: 7}), fabric.Denied},
		{"of a directory", move(a.Ino, "b", fabric.RootIno, "b", root), fabric.OK},
	} {
		if got := w.do(c.op).Code; got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	if bad := Check(&w.v); len(bad) != 0 {
		t.Errorf("fsck: %v", bad)
	}
}

func TestStickyAndSetgidDirectories(t *testing.T) {
	w := &tree{slots: newSlots(t)}
	ann, bob := fabric.Cred{UID: 1, GID: 1}, fabric.Cred{UID: 2, GID: 2}
	tmp := w.make(t, fabric.RootIno, "tmp", fabric.TypeDir, 0o777|fabric.ModeSticky, fabric.Root())
	w.make(t, tmp.Ino, "ann", fabric.TypeFile, 0o666, ann)
	remove := func(who fabric.Cred) fabric.Code {
		return w.do(&Remove{Dir: tmp.Ino, Name: "ann", Who: who, Expect: Expect{Unchecked: true}}).Code
	}
	if got := remove(bob); got != fabric.NotOwner && got != fabric.Denied {
		t.Errorf("a stranger removes from a sticky directory: %v", got)
	}
	if got := remove(ann); got != fabric.OK {
		t.Errorf("the owner removes: %v", got)
	}
	team := w.make(t, fabric.RootIno, "team", fabric.TypeDir, 0o777|fabric.ModeSetgid, fabric.Cred{GID: 9})
	if f := w.make(t, team.Ino, "f", fabric.TypeFile, 0o644, ann); f.GID != 9 || f.UID != 1 {
		t.Errorf("file in a setgid directory: %d:%d", f.UID, f.GID)
	}
	if d := w.make(t, team.Ino, "d", fabric.TypeDir, 0o755, ann); d.GID != 9 || d.Mode&fabric.ModeSetgid == 0 {
		t.Errorf("directory in a setgid directory: group %d, mode %o", d.GID, d.Mode)
	}
}
