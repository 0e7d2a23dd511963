package fstest

import (
	"slices"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

// badNames are refused as entries.
var badNames = []struct {
	name string
	code fabric.Code
}{
	{"", fabric.Invalid}, {".", fabric.Invalid}, {"..", fabric.Invalid}, {"a/b", fabric.Invalid}, {"a\x00", fabric.Invalid},
	{strings.Repeat("x", fabric.MaxName+1), fabric.NameTooLong},
}

func testLookup(e *env) {
	d := e.make(root, "d", fabric.TypeDir, 0o700)
	f := e.makeIn(root, d, "f", fabric.NodeSpec{Type: fabric.TypeFile})
	top := e.as(root).Root()
	same(e, "a name", e.lookup(d, "f"), f)
	same(e, "no name", e.lookup(d, "g"), 0)
	same(e, ". ", e.lookup(d, "."), d)
	same(e, "..", e.lookup(d, ".."), e.dir)
	same(e, ".. of the root", e.lookup(top, ".."), top)
	_, err := e.as(root).Lookup(e.ctx, f, "x")
	e.want("in a file", err, fabric.NotDir)
	_, err = e.as(root).Lookup(e.ctx, f, ".")
	e.want(". of a file", err, fabric.NotDir)
	for _, name := range []string{"f", "none", ".", ".."} {
		_, err = e.as(other).Lookup(e.ctx, d, name)
		e.want("without search permission, "+name, err, fabric.Denied)
	}
	for _, b := range badNames {
		if b.name != "." && b.name != ".." {
			_, err := e.as(root).Lookup(e.ctx, d, b.name)
			e.want("bad name", err, b.code)
		}
	}
	long, bytes := strings.Repeat("n", fabric.MaxName), "caf\xe9 \xff\n\\"
	for _, name := range []string{long, bytes, "...", "-", " "} {
		same(e, "name "+name, e.lookup(d, name), 0)
		ino := e.makeIn(root, d, name, fabric.NodeSpec{Type: fabric.TypeFile})
		same(e, "name "+name, e.lookup(d, name), ino)
	}
}

func testWalk(e *env) {
	a := e.make(root, "a", fabric.TypeDir, 0o755)
	b := e.makeIn(root, a, "b", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o700})
	c := e.makeIn(root, b, "c", fabric.NodeSpec{Type: fabric.TypeFile})
	e.makeIn(root, a, "link", fabric.NodeSpec{Type: fabric.TypeSymlink, Target: "b"})
	for _, w := range []struct {
		who  fabric.Cred
		path string
		inos []fabric.Ino
		code fabric.Code
	}{
		{root, "a/b/c", []fabric.Ino{a, b, c}, fabric.OK},
		{root, "a/x/c", []fabric.Ino{a}, fabric.NotExist},
		{root, "x", nil, fabric.NotExist},
		{root, "a/b/c/d", []fabric.Ino{a, b, c}, fabric.NotDir},
		{other, "a/b/c", []fabric.Ino{a, b}, fabric.Denied},
		{root, "a/../a", nil, fabric.Invalid},
	} {
		attrs, err := e.as(w.who).Walk(e.ctx, e.dir, strings.Split(w.path, "/"))
		e.want(w.path, err, w.code)
		var inos []fabric.Ino
		for i := range attrs {
			inos = append(inos, attrs[i].Ino)
		}
		if !slices.Equal(inos, w.inos) {
			e.Errorf("%s: inodes %v, want %v", w.path, inos, w.inos)
		}
	}
	attrs, err := e.as(root).Walk(e.ctx, e.dir, []string{"a", "link", "c"})
	e.want("through a symbolic link", err, fabric.NotDir)
	if len(attrs) != 2 || attrs[1].Type != fabric.TypeSymlink {
		e.Errorf("through a symbolic link: %v", attrs)
	}
	attrs, err = e.as(root).Walk(e.ctx, e.dir, nil)
	if len(attrs) != 0 || err != nil {
		e.Errorf("an empty path: %v, %v", attrs, err)
	}
}

func testMake(e *env) {
	for i, spec := range []fabric.NodeSpec{
		{Type: fabric.TypeFile, Mode: 0o640}, {Type: fabric.TypeDir, Mode: 0o1750}, {Type: fabric.TypeSymlink, Target: "to/where"},
		{Type: fabric.TypeFifo, Mode: 0o600}, {Type: fabric.TypeSocket, Mode: 0o600},
		{Type: fabric.TypeChar, Mode: 0o600, Rdev: 5<<32 | 1}, {Type: fabric.TypeBlock, Mode: 0o600, Rdev: 8 << 32},
	} {
		name := string(rune('a' + i))
		before := e.stat(e.dir)
		a, ch, err := e.as(owner).Make(e.ctx, e.dir, name, spec)
		e.must(err)
		want := fabric.Attr{Type: spec.Type, Mode: spec.Mode, UID: owner.UID, GID: owner.GID, Nlink: 1, Rdev: spec.Rdev}
		links := before.Nlink
		switch spec.Type {
		case fabric.TypeDir:
			want.Nlink, want.Parent = 2, e.dir
			links++
		case fabric.TypeSymlink:
			want.Mode, want.Size = 0o777, int64(len(spec.Target))
		}
		for _, got := range []fabric.Attr{a, e.stat(a.Ino)} {
			if got.Atime == 0 || got.Mtime == 0 || got.Ctime == 0 || got.Btime == 0 || got.Iver == 0 {
				e.Errorf("type %d: times or iver are missing: %+v", spec.Type, got)
			}
			want.Ino, want.Iver = a.Ino, got.Iver
			want.Atime, want.Mtime, want.Ctime, want.Btime, want.Fresh = got.Atime, got.Mtime, got.Ctime, got.Btime, got.Fresh
			same(e, "attributes", got, want)
		}
		same(e, "the new name", e.lookup(e.dir, name), a.Ino)
		dir := e.stat(e.dir)
		e.changed("the directory", before, dir)
		same(e, "links of the directory", dir.Nlink, links)
		same(e, "mtime of the directory moves as its ctime", dir.Mtime, dir.Ctime)
		same(e, "Change.Before", ch.Before, before.Version())
		same(e, "Change.After", ch.After.Version(), dir.Version())
	}
	d := e.make(root, "setgid", fabric.TypeDir, 0o2777)
	_, err := e.as(root).SetAttr(e.ctx, d, fabric.SetAttr{Set: fabric.SetGID, GID: 2000})
	e.must(err)
	a := e.stat(e.makeIn(other, d, "f", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644}))
	same(e, "group of a file in a setgid directory", a.GID, 2000)
	a = e.stat(e.makeIn(other, d, "d", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755}))
	same(e, "group of a directory in it", a.GID, 2000)
	same(e, "mode of a directory in it", a.Mode, 0o2755)
}

func testMakeErrors(e *env) {
	f := e.make(root, "f", fabric.TypeFile, 0o644)
	closed := e.make(root, "closed", fabric.TypeDir, 0o755)
	file := fabric.NodeSpec{Type: fabric.TypeFile}
	for _, c := range []struct {
		what string
		who  fabric.Cred
		dir  fabric.Ino
		name string
		spec fabric.NodeSpec
		code fabric.Code
	}{
		{"the name is taken", root, e.dir, "f", file, fabric.Exist},
		{"the name is taken, directory", root, e.dir, "closed", fabric.NodeSpec{Type: fabric.TypeDir}, fabric.Exist},
		{"in a file", root, f, "x", file, fabric.NotDir},
		{"without permission", owner, closed, "x", file, fabric.Denied},
		{"no type", root, e.dir, "x", fabric.NodeSpec{}, fabric.Invalid},
		{"a type that is none", root, e.dir, "x", fabric.NodeSpec{Type: 99}, fabric.Invalid},
		{"a symbolic link to nothing", root, e.dir, "x", fabric.NodeSpec{Type: fabric.TypeSymlink}, fabric.Invalid},
		{"a long target", root, e.dir, "x", fabric.NodeSpec{Type: fabric.TypeSymlink, Target: strings.Repeat("t", fabric.MaxTarget+1)}, fabric.NameTooLong},
		{"a directory without a name", root, e.dir, "", fabric.NodeSpec{Type: fabric.TypeDir}, fabric.Invalid},
	} {
		before := e.stat(c.dir)
		_, _, err := e.as(c.who).Make(e.ctx, c.dir, c.name, c.spec)
		e.want(c.what, err, c.code)
		same(e, c.what+": the directory", e.stat(c.dir), before)
	}
	for _, b := range badNames[1:] {
		_, _, err := e.as(root).Make(e.ctx, e.dir, b.name, file)
		e.want("bad name", err, b.code)
	}
	same(e, "names", len(e.list(e.dir, fabric.Pos{})), 2)
	target := strings.Repeat("t", fabric.MaxTarget)
	ino := e.makeIn(root, e.dir, "long", fabric.NodeSpec{Type: fabric.TypeSymlink, Target: target})
	got, err := e.as(root).ReadLink(e.ctx, ino)
	e.must(err)
	same(e, "the longest target", got, target)
}

func testExclusive(e *env) {
	spec := fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600, Verifier: 77}
	first := e.makeIn(owner, e.dir, "f", spec)
	a, _, err := e.as(owner).Make(e.ctx, e.dir, "f", spec)
	e.must(err)
	same(e, "made again with the same verifier", a.Ino, first)
	spec.Verifier = 78
	_, _, err = e.as(owner).Make(e.ctx, e.dir, "f", spec)
	e.want("with another", err, fabric.Exist)
	spec.Verifier = 0
	_, _, err = e.as(owner).Make(e.ctx, e.dir, "f", spec)
	e.want("with none", err, fabric.Exist)
}

func testLink(e *env) {
	f := e.file(owner, "f", "text")
	d := e.make(root, "d", fabric.TypeDir, 0o755)
	before := e.stat(f)
	a, ch, err := e.as(root).Link(e.ctx, f, d, "g")
	e.must(err)
	same(e, "links", a.Nlink, 2)
	same(e, "the change is the directory's", ch.After.Ino, d)
	after := e.stat(f)
	e.changed("the file", before, after)
	same(e, "links", after.Nlink, 2)
	same(e, "mtime stays", after.Mtime, before.Mtime)
	same(e, "the new name", e.lookup(d, "g"), f)
	for _, c := range []struct {
		what     string
		who      fabric.Cred
		ino, dir fabric.Ino
		name     string
		code     fabric.Code
	}{
		{"the name is taken", root, f, d, "g", fabric.Exist},
		{"of a directory", root, d, e.dir, "x", fabric.NotOwner},
		{"into a file", root, f, f, "x", fabric.NotDir},
		{"without permission", owner, f, d, "x", fabric.Denied},
		{"of what is not", root, 1 << 40, d, "x", fabric.Stale},
		{"into what is not", root, f, 1 << 40, "x", fabric.Stale},
	} {
		_, _, err := e.as(c.who).Link(e.ctx, c.ino, c.dir, c.name)
		e.want(c.what, err, c.code)
	}
	for _, b := range badNames {
		_, _, err := e.as(root).Link(e.ctx, f, d, b.name)
		e.want("bad name", err, b.code)
	}
	_, err = e.as(root).Remove(e.ctx, e.dir, "f", fabric.RemoveFile, fabric.Cond{})
	e.must(err)
	same(e, "links after one went", e.stat(f).Nlink, 1)
	same(e, "content by the other name", e.read(f), "text")
}

func testRemove(e *env) {
	d := e.make(root, "d", fabric.TypeDir, 0o755)
	e.makeIn(root, d, "in", fabric.NodeSpec{Type: fabric.TypeFile})
	f := e.make(owner, "f", fabric.TypeFile, 0o644)
	for _, c := range []struct {
		what string
		who  fabric.Cred
		dir  fabric.Ino
		name string
		kind fabric.RemoveKind
		code fabric.Code
	}{
		{"unlink of a directory", root, e.dir, "d", fabric.RemoveFile, fabric.IsDir},
		{"rmdir of a file", root, e.dir, "f", fabric.RemoveDir, fabric.NotDir},
		{"rmdir of one with entries", root, e.dir, "d", fabric.RemoveDir, fabric.NotEmpty},
		{"any of one with entries", root, e.dir, "d", fabric.RemoveAny, fabric.NotEmpty},
		{"no name", root, e.dir, "x", fabric.RemoveFile, fabric.NotExist},
		{"in a file", root, f, "x", fabric.RemoveFile, fabric.NotDir},
		{"without permission", owner, d, "in", fabric.RemoveFile, fabric.Denied},
		{"in what is not", root, 1 << 40, "in", fabric.RemoveFile, fabric.Stale},
	} {
		_, err := e.as(c.who).Remove(e.ctx, c.dir, c.name, c.kind, fabric.Cond{})
		e.want(c.what, err, c.code)
	}
	for _, b := range badNames {
		_, err := e.as(root).Remove(e.ctx, d, b.name, fabric.RemoveAny, fabric.Cond{})
		e.want("bad name", err, b.code)
	}
	links := e.stat(e.dir).Nlink
	_, err := e.as(owner).Remove(e.ctx, e.dir, "f", fabric.RemoveFile, fabric.Cond{})
	e.must(err)
	_, err = e.as(root).Remove(e.ctx, d, "in", fabric.RemoveAny, fabric.Cond{})
	e.must(err)
	before := e.stat(e.dir)
	ch, err := e.as(root).Remove(e.ctx, e.dir, "d", fabric.RemoveDir, fabric.Cond{})
	e.must(err)
	same(e, "links", e.stat(e.dir).Nlink, links-1)
	same(e, "Change.Before", ch.Before, before.Version())
	e.changed("the directory", before, ch.After)
	same(e, "names left", len(e.list(e.dir, fabric.Pos{})), 0)
	_, err = e.as(root).Stat(e.ctx, d)
	e.want("a removed directory", err, fabric.Stale)
}

func testSticky(e *env) {
	d := e.make(root, "d", fabric.TypeDir, 0o1777)
	e.makeIn(owner, d, "f", fabric.NodeSpec{Type: fabric.TypeFile})
	e.makeIn(other, d, "g", fabric.NodeSpec{Type: fabric.TypeFile})
	_, err := e.as(other).Remove(e.ctx, d, "f", fabric.RemoveFile, fabric.Cond{})
	e.want("remove another's", err, fabric.NotOwner)
	_, _, err = e.as(other).Rename(e.ctx, d, "f", d, "h", fabric.RenameReplace)
	e.want("rename another's", err, fabric.NotOwner)
	_, _, err = e.as(other).Rename(e.ctx, d, "g", d, "f", fabric.RenameReplace)
	e.want("rename onto another's", err, fabric.NotOwner)
	_, _, err = e.as(other).Replace(e.ctx, e.lookup(d, "g"), d, "f", fabric.Cond{})
	e.want("replace another's", err, fabric.NotOwner)
	_, err = e.as(owner).Remove(e.ctx, d, "f", fabric.RemoveFile, fabric.Cond{})
	e.want("remove one's own", err, fabric.OK)
	_, err = e.as(root).Remove(e.ctx, d, "g", fabric.RemoveFile, fabric.Cond{})
	e.want("root removes", err, fabric.OK)
}

func testConditions(e *env) {
	f := e.make(root, "f", fabric.TypeFile, 0o644)
	g := e.make(root, "g", fabric.TypeFile, 0o644)
	v := e.stat(f).Iver
	for _, c := range []struct {
		what string
		name string
		cond fabric.Cond
		code fabric.Code
	}{
		{"another inode", "f", fabric.Cond{Ino: g}, fabric.Precondition},
		{"another version", "f", fabric.Cond{Ino: f, Iver: v + 1}, fabric.Precondition},
		{"absent, and it is there", "f", fabric.Cond{Absent: true}, fabric.Precondition},
		{"of what is not there", "x", fabric.Cond{Ino: f}, fabric.Precondition},
	} {
		_, err := e.as(root).Remove(e.ctx, e.dir, c.name, fabric.RemoveFile, c.cond)
		e.want("remove: "+c.what, err, c.code)
		_, _, err = e.as(root).Replace(e.ctx, g, e.dir, c.name, c.cond)
		e.want("replace: "+c.what, err, c.code)
	}
	same(e, "still there", e.lookup(e.dir, "f"), f)
	_, _, err := e.as(root).Replace(e.ctx, g, e.dir, "new", fabric.Cond{Absent: true})
	e.want("replace: absent", err, fabric.OK)
	_, _, err = e.as(root).Replace(e.ctx, g, e.dir, "f", fabric.Cond{Ino: f, Iver: v})
	e.want("replace: the version it is", err, fabric.OK)
	_, err = e.as(root).Remove(e.ctx, e.dir, "f", fabric.RemoveFile, fabric.Cond{Ino: g, Iver: e.stat(g).Iver})
	e.want("remove: the version it is", err, fabric.OK)
}

func testUnnamed(e *env) {
	before := e.stat(e.dir)
	a, _, err := e.as(owner).Make(e.ctx, e.dir, "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o640})
	e.must(err)
	same(e, "links of an unnamed file", a.Nlink, 0)
	same(e, "nothing in the directory", len(e.list(e.dir, fabric.Pos{})), 0)
	same(e, "the directory", e.stat(e.dir), before)
	fs := e.w.Portals[e.turn%len(e.w.Portals)] // unnamed files are of one site
	one := &env{T: e.T, w: &World{Portals: []fabric.Portal{fs}}, ctx: e.ctx, dir: e.dir}
	a, _, err = one.as(owner).Make(e.ctx, e.dir, "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o640})
	e.must(err)
	one.write(a.Ino, 0, "new")
	same(e, "content of an unnamed file", one.read(a.Ino), "new")
	old := one.file(root, "f", "old")
	e.must(one.as(owner).Sync(e.ctx, a.Ino))
	got, ch, err := one.as(owner).Replace(e.ctx, a.Ino, e.dir, "f", fabric.Cond{Ino: old})
	e.must(err)
	same(e, "links", got.Nlink, 1)
	same(e, "the change is the directory's", ch.After.Ino, e.dir)
	same(e, "the name", e.lookup(e.dir, "f"), a.Ino)
	same(e, "content", e.read(a.Ino), "new")
	e.gone(old)
	_, _, err = e.as(root).Replace(e.ctx, a.Ino, e.dir, "f", fabric.Cond{})
	e.want("replaced by itself", err, fabric.OK)
	same(e, "links", e.stat(a.Ino).Nlink, 1)
}

func testDiscard(e *env) {
	one := &env{T: e.T, w: &World{Portals: e.w.Portals[:1]}, ctx: e.ctx, dir: e.dir} // unnamed files are of one site
	unnamed := fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o600}
	f := one.makeIn(owner, e.dir, "", unnamed)
	e.must(one.as(owner).Discard(e.ctx, f))
	one.gone(f)
	e.want("twice", one.as(owner).Discard(e.ctx, f), fabric.Invalid)
	e.want("a file with a name", one.as(root).Discard(e.ctx, one.file(root, "f", "")), fabric.Invalid)
	g := one.makeIn(owner, e.dir, "", unnamed)
	h := one.openAs(owner, g, fabric.OpenRead|fabric.OpenWrite)
	e.must(one.as(owner).Discard(e.ctx, g))
	_, _, err := h.WriteAt(e.ctx, []byte("open"), 0)
	e.must(err)
	same(e, "content of one that is open", one.readFile(h), "open")
	e.must(h.Close(e.ctx))
	one.gone(g)
}

func testReplaceErrors(e *env) {
	f := e.make(root, "f", fabric.TypeFile, 0o644)
	d := e.make(root, "d", fabric.TypeDir, 0o755)
	for _, c := range []struct {
		what     string
		who      fabric.Cred
		ino, dir fabric.Ino
		name     string
		code     fabric.Code
	}{
		{"onto a directory", root, f, e.dir, "d", fabric.IsDir},
		{"by a directory", root, d, e.dir, "x", fabric.NotOwner},
		{"in a file", root, f, f, "x", fabric.NotDir},
		{"without permission", owner, f, d, "x", fabric.Denied},
		{"by what is not", root, 1 << 40, d, "x", fabric.Stale},
		{"without a name", root, f, d, "", fabric.Invalid},
	} {
		_, _, err := e.as(c.who).Replace(e.ctx, c.ino, c.dir, c.name, fabric.Cond{})
		e.want(c.what, err, c.code)
	}
}
