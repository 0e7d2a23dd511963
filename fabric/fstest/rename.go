package fstest

import (
	"slices"
	"sort"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

func (e *env) rename(who fabric.Cred, from fabric.Ino, old string, to fabric.Ino, name string) error {
	_, _, err := e.as(who).Rename(e.ctx, from, old, to, name, fabric.RenameReplace)
	return err
}

func testRename(e *env) {
	d := e.make(root, "d", fabric.TypeDir, 0o777)
	f, g := e.file(root, "f", "f"), e.file(root, "g", "g")
	fb, db, eb := e.stat(f), e.stat(d), e.stat(e.dir)
	src, dst, err := e.as(root).Rename(e.ctx, e.dir, "f", d, "f2", fabric.RenameReplace)
	e.must(err)
	same(e, "source before", src.Before, eb.Version())
	same(e, "target before", dst.Before, db.Version())
	e.changed("source", eb, src.After)
	e.changed("target", db, dst.After)
	e.changed("the file", fb, e.stat(f))
	same(e, "mtime of the file", e.stat(f).Mtime, fb.Mtime)
	same(e, "old name", e.lookup(e.dir, "f"), 0)
	same(e, "new name", e.lookup(d, "f2"), f)
	e.must(e.rename(root, d, "f2", e.dir, "g"))
	same(e, "onto another", e.lookup(e.dir, "g"), f)
	same(e, "content", e.read(f), "f")
	e.gone(g)
	_, _, err = e.as(root).Link(e.ctx, f, d, "h")
	e.must(err)
	before := e.stat(d)
	e.must(e.rename(root, e.dir, "g", d, "h")) // nothing happens
	same(e, "first name of two", e.lookup(e.dir, "g"), f)
	same(e, "second name of two", e.lookup(d, "h"), f)
	same(e, "the directory", e.stat(d), before)
	_, _, err = e.as(root).Rename(e.ctx, e.dir, "g", d, "h", fabric.RenameNoReplace)
	e.want("no-replace, target there", err, fabric.Exist)
	_, _, err = e.as(root).Rename(e.ctx, e.dir, "g", d, "i", fabric.RenameNoReplace)
	e.want("no-replace, free", err, fabric.OK)
	_, _, err = e.as(root).Rename(e.ctx, d, "i", d, "h", fabric.RenameExchange)
	e.want("exchange", err, fabric.Unsupported)
}

func testRenameDirs(e *env) {
	a := e.make(root, "a", fabric.TypeDir, 0o777)
	b := e.make(root, "b", fabric.TypeDir, 0o777)
	sub := e.makeIn(root, a, "sub", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	deep := e.makeIn(root, sub, "deep", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	e.must(e.rename(root, a, "sub", b, "sub"))
	same(e, "links of the old parent", e.stat(a).Nlink, 2)
	same(e, "links of the new parent", e.stat(b).Nlink, 3)
	same(e, "parent", e.stat(sub).Parent, b)
	same(e, "..", e.lookup(sub, ".."), b)
	same(e, "below it", e.lookup(sub, "deep"), deep)
	empty := e.makeIn(root, a, "empty", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
	e.must(e.rename(root, b, "sub", a, "empty"))
	same(e, "onto an empty one", e.lookup(a, "empty"), sub)
	same(e, "links of its parent", e.stat(a).Nlink, 3)
	_, err := e.as(root).Stat(e.ctx, empty)
	e.want("the empty one", err, fabric.Stale)
	e.want("into itself", e.rename(root, a, "empty", sub, "x"), fabric.Invalid)
	e.want("below itself", e.rename(root, a, "empty", deep, "x"), fabric.Invalid)
	e.want("onto its ancestor", e.rename(root, sub, "deep", e.dir, "a"), fabric.NotEmpty)
	e.makeIn(root, b, "closed", fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o555})
	e.want("one whose .. the caller may not change", e.rename(owner, b, "closed", a, "x"), fabric.Denied)
	e.want("the same within its directory", e.rename(owner, b, "closed", b, "x"), fabric.OK)
}

func testRenameErrors(e *env) {
	f := e.make(root, "f", fabric.TypeFile, 0o644)
	d := e.make(root, "d", fabric.TypeDir, 0o777)
	e.makeIn(root, d, "in", fabric.NodeSpec{Type: fabric.TypeFile})
	e.make(root, "empty", fabric.TypeDir, 0o777)
	closed := e.make(root, "closed", fabric.TypeDir, 0o755)
	for _, c := range []struct {
		what string
		from fabric.Ino
		old  string
		to   fabric.Ino
		name string
		code fabric.Code
	}{
		{"no name", e.dir, "x", d, "y", fabric.NotExist},
		{"a file onto a directory", e.dir, "f", e.dir, "empty", fabric.IsDir},
		{"a directory onto a file", e.dir, "empty", e.dir, "f", fabric.NotDir},
		{"onto a directory with entries", e.dir, "empty", e.dir, "d", fabric.NotEmpty},
		{"from a file", f, "x", d, "y", fabric.NotDir},
		{"to a file", d, "in", f, "y", fabric.NotDir},
		{"from what is not", 1 << 40, "x", d, "y", fabric.Stale},
		{"to what is not", d, "in", 1 << 40, "y", fabric.Stale},
		{"from where the caller may not", closed, "x", d, "y", fabric.Denied},
		{"to where the caller may not", d, "in", closed, "y", fabric.Denied},
	} {
		e.want(c.what, e.rename(owner, c.from, c.old, c.to, c.name), c.code)
	}
	for _, b := range badNames {
		e.want("bad old name", e.rename(root, d, b.name, d, "x"), b.code)
		e.want("bad new name", e.rename(root, d, "in", d, b.name), b.code)
	}
	same(e, "names", len(e.list(e.dir, fabric.Pos{})), 4)
}

func testListing(e *env) {
	d := e.make(root, "d", fabric.TypeDir, 0o777)
	same(e, "an empty one", len(e.list(d, fabric.Pos{})), 0)
	var want []string
	for i := range 60 {
		name := string(rune('a'+i%26)) + strings.Repeat("é", i/26)
		e.makeIn(root, d, name, fabric.NodeSpec{Type: fabric.Type(1 + i%2), Mode: 0o600})
		want = append(want, name)
	}
	all := e.list(d, fabric.Pos{})
	last := fabric.FirstCookie - 1
	for _, x := range all {
		if x.Cookie <= last {
			e.Fatalf("cookie %d after %d", x.Cookie, last)
		}
		last = x.Cookie
		if x.Attr.Type != fabric.TypeNone {
			x.Attr.Fresh = 0
			same(e, "attributes of an entry", x.Attr, e.stat(x.Attr.Ino))
		}
		same(e, "inode of an entry", x.Attr.Ino, e.lookup(d, x.Name))
	}
	got := names(all)
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		e.Errorf("names %q, want %q", got, want)
	}
	if by := names(e.list(d, fabric.Pos{ByName: true})); !slices.Equal(by, want) {
		e.Errorf("by name %q, want %q", by, want)
	}
	for _, at := range []string{"", "b", "bb", "é", "zzz", "zéé"} {
		i, _ := slices.BinarySearch(want, at)
		if by := names(e.list(d, fabric.Pos{ByName: true, At: at})); !slices.Equal(by, want[i:]) {
			e.Errorf("by name from %q: %q, want %q", at, by, want[i:])
		}
	}
}

func testListingGoesOn(e *env) {
	d := e.make(root, "d", fabric.TypeDir, 0o777)
	for i := range 20 {
		e.makeIn(root, d, string(rune('a'+i)), fabric.NodeSpec{Type: fabric.TypeFile})
	}
	all := e.list(d, fabric.Pos{})
	for i, x := range all {
		if rest := names(e.list(d, fabric.Pos{After: x.Cookie})); !slices.Equal(rest, names(all[i+1:])) {
			e.Errorf("after entry %d: %q", i, rest)
		}
	}
	_, err := e.as(root).Remove(e.ctx, d, all[4].Name, fabric.RemoveFile, fabric.Cond{})
	e.must(err)
	if rest := names(e.list(d, fabric.Pos{After: all[4].Cookie})); !slices.Equal(rest, names(all[5:])) {
		e.Errorf("after an entry that is gone: %q", rest)
	}
	e.makeIn(root, d, all[4].Name, fabric.NodeSpec{Type: fabric.TypeFile})
	again := e.list(d, fabric.Pos{})
	if x := again[len(again)-1]; x.Name != all[4].Name || x.Cookie <= all[19].Cookie {
		e.Errorf("a name made again has cookie %d, the last was %d", x.Cookie, all[19].Cookie)
	}
	e.must(e.rename(root, d, all[0].Name, d, "renamed"))
	same(e, "after the last cookie", len(e.list(d, fabric.Pos{After: 1 << 60})), 0)
	seen := 0
	for _, err := range e.as(root).ReadDir(e.ctx, d, fabric.Pos{}) {
		e.must(err)
		if seen++; seen == 3 {
			break
		}
	}
	same(e, "entries taken of a listing that was left", seen, 3)
}

func testListingErrors(e *env) {
	f := e.make(root, "f", fabric.TypeFile, 0o644)
	d := e.make(root, "d", fabric.TypeDir, 0o711)
	for _, c := range []struct {
		what string
		ino  fabric.Ino
		code fabric.Code
	}{{"a file", f, fabric.NotDir}, {"without read permission", d, fabric.Denied}, {"what is not", 1 << 40, fabric.Stale}} {
		var err error
		n := 0
		for _, err = range e.as(owner).ReadDir(e.ctx, c.ino, fabric.Pos{}) {
			n++
		}
		e.want(c.what, err, c.code)
		same(e, c.what+": an error ends the listing", n, 1)
	}
}

func testReadLink(e *env) {
	for _, target := range []string{"a", "../x/y", "/abs", "\xff\n"} {
		ino := e.makeIn(owner, e.dir, "l"+strings.ReplaceAll(target, "/", "_"), fabric.NodeSpec{Type: fabric.TypeSymlink, Target: target})
		got, err := e.as(other).ReadLink(e.ctx, ino)
		e.must(err)
		same(e, "target", got, target)
	}
	_, err := e.as(root).ReadLink(e.ctx, e.dir)
	e.want("of a directory", err, fabric.Invalid)
	_, err = e.as(root).ReadLink(e.ctx, 1<<40)
	e.want("of what is not", err, fabric.Stale)
}
