package fstest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

func (e *env) set(who fabric.Cred, ino fabric.Ino, set fabric.SetAttr) error {
	_, err := e.as(who).SetAttr(e.ctx, ino, set)
	return err
}

func testAccess(e *env) {
	const r, w, x = fabric.PermRead, fabric.PermWrite, fabric.PermExec
	f := e.make(owner, "f", fabric.TypeFile, 0o751)
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetGID, GID: 2000}))
	plain := e.make(root, "plain", fabric.TypeFile, 0)
	for _, c := range []struct {
		who       fabric.Cred
		ino       fabric.Ino
		want, got fabric.Perm
	}{
		{owner, f, r | w | x, r | w | x}, {member, f, r | w | x, r | x}, {other, f, r | w | x, x}, {other, f, r, 0},
		{root, f, r | w | x, r | w | x}, {root, plain, r | w | x, r | w}, {other, plain, r | w | x, 0},
	} {
		got, err := e.as(c.who).Access(e.ctx, c.ino, c.want)
		e.must(err)
		same(e, "access", got, c.got)
	}
	_, err := e.as(root).Access(e.ctx, 1<<40, r)
	e.want("of what is not", err, fabric.Stale)
}

// testGone is what may be asked of an inode that is not there.
func testGone(e *env) {
	ino := e.make(root, "f", fabric.TypeFile, 0o644)
	_, err := e.as(root).Remove(e.ctx, e.dir, "f", fabric.RemoveFile, fabric.Cond{})
	e.must(err)
	e.gone(ino)
	fs := e.as(root)
	_, err = fs.Lookup(e.ctx, ino, "x")
	e.want("lookup", err, fabric.Stale)
	_, err = fs.Open(e.ctx, ino, fabric.OpenRead)
	e.want("open", err, fabric.Stale)
	e.want("setattr", e.set(root, ino, fabric.SetAttr{Set: fabric.SetMode}), fabric.Stale)
	e.want("truncate", e.set(root, ino, fabric.SetAttr{Set: fabric.SetSize}), fabric.Stale)
	_, err = fs.Xattr(e.ctx, ino, "user.x", nil)
	e.want("xattr", err, fabric.Stale)
	_, err = fs.ListXattr(e.ctx, ino)
	e.want("listxattr", err, fabric.Stale)
	e.want("setxattr", fs.SetXattr(e.ctx, ino, "user.x", nil, 0), fabric.Stale)
	e.want("removexattr", fs.RemoveXattr(e.ctx, ino, "user.x"), fabric.Stale)
	_, err = fs.Clone(e.ctx, ino, nil)
	e.want("clone", err, fabric.Stale)
	_, _, err = fs.Make(e.ctx, ino, "x", fabric.NodeSpec{Type: fabric.TypeFile})
	e.want("make", err, fabric.Stale)
}

func testChmod(e *env) {
	f := e.make(owner, "f", fabric.TypeFile, 0o644)
	before := e.stat(f)
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o4755}))
	same(e, "mode", e.stat(f).Mode, 0o4755)
	e.changed("the file", before, e.stat(f))
	same(e, "mtime stays", e.stat(f).Mtime, before.Mtime)
	e.want("by another", e.set(other, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o777}), fabric.NotOwner)
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetGID, GID: 2000}))
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o2770}))
	same(e, "setgid in one's group", e.stat(f).Mode, 0o2770)
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetGID, GID: 3000}))
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o2770}))
	same(e, "setgid in another group is dropped", e.stat(f).Mode, 0o770)
}

func testChown(e *env) {
	f := e.make(owner, "f", fabric.TypeFile, 0o6755)
	e.want("gid by another", e.set(other, f, fabric.SetAttr{Set: fabric.SetGID, GID: other.GID}), fabric.NotOwner)
	e.want("gid to a foreign group", e.set(owner, f, fabric.SetAttr{Set: fabric.SetGID, GID: 3000}), fabric.NotOwner)
	e.want("uid by the owner", e.set(owner, f, fabric.SetAttr{Set: fabric.SetUID, UID: 1001}), fabric.NotOwner)
	same(e, "mode", e.stat(f).Mode, 0o6755)
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetGID, GID: 2000}))
	a := e.stat(f)
	same(e, "group", a.GID, 2000)
	same(e, "privileges go with a chown of the owner's", a.Mode, 0o755)
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetUID | fabric.SetGID, UID: 5, GID: 6}))
	a = e.stat(f)
	same(e, "owner", a.UID, 5)
	same(e, "group", a.GID, 6)
	e.want("no longer the owner", e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode}), fabric.NotOwner)
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o6745}))
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetKillPriv}))
	same(e, "privileges killed; setgid without execution is none", e.stat(f).Mode, 0o2745)
}

func testTimes(e *env) {
	f := e.file(owner, "f", "x")
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o620}))
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetGID, GID: 2000}))
	both := fabric.SetAtime | fabric.SetMtime
	for _, t := range []fabric.Time{0, 1, -5_000_000_000, 1e18, 1<<62 + 7} {
		before := e.stat(f)
		e.must(e.set(owner, f, fabric.SetAttr{Set: both, Atime: t + 1, Mtime: t}))
		a := e.stat(f)
		same(e, "mtime", a.Mtime, t)
		same(e, "atime", a.Atime, t+1)
		e.changed("the file", before, a)
	}
	e.want("set by another", e.set(member, f, fabric.SetAttr{Set: both}), fabric.NotOwner)
	now := fabric.SetAtimeNow | fabric.SetMtimeNow
	e.want("now, by one who may write", e.set(member, f, fabric.SetAttr{Set: now}), fabric.OK)
	e.want("now, by one who may not", e.set(other, f, fabric.SetAttr{Set: now}), fabric.Denied)
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMtime, Mtime: 5}))
	e.write(f, 0, "y")
	if a := e.stat(f); a.Mtime == 5 {
		e.Error("a write did not move mtime")
	}
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMtime, Mtime: 9}))
	e.sync(f)
	same(e, "mtime set after a write stays over a sync", e.stat(f).Mtime, 9)
	e.must(e.set(root, e.dir, fabric.SetAttr{Set: fabric.SetMtime, Mtime: 11}))
	same(e, "mtime of a directory", e.stat(e.dir).Mtime, 11)
	same(e, "content", e.read(f), "y")
}

func testGuard(e *env) {
	f := e.file(root, "f", "text")
	a := e.stat(f)
	guarded := fabric.SetAttr{Set: fabric.SetGuard | fabric.SetMode | fabric.SetSize, Guard: a.Ctime + 1, Mode: 0o600}
	e.want("another ctime", e.set(root, f, guarded), fabric.Precondition)
	same(e, "the file", e.stat(f), a)
	guarded.Guard = a.Ctime
	e.want("its ctime", e.set(root, f, guarded), fabric.OK)
	same(e, "size", e.stat(f).Size, 0)
	before := e.stat(f)
	ch, err := e.as(other).SetAttr(e.ctx, f, fabric.SetAttr{})
	e.want("nothing to set", err, fabric.OK)
	same(e, "nothing to set: before", ch.Before, before.Version())
	same(e, "nothing to set: after", e.stat(f), before)
}

// testAllOrNothing: an error changes nothing, though a part of what was asked for was allowed.
func testAllOrNothing(e *env) {
	f := e.file(owner, "f", "text")
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o646}))
	before := e.stat(f)
	size := fabric.SetSize
	e.want("size and owner", e.set(owner, f, fabric.SetAttr{Set: size | fabric.SetUID, UID: 7}), fabric.NotOwner)
	e.want("size and mode, by a writer", e.set(other, f, fabric.SetAttr{Set: size | fabric.SetMode, Mode: 0o777}), fabric.NotOwner)
	e.want("size and times, by a writer", e.set(other, f, fabric.SetAttr{Set: size | fabric.SetMtime}), fabric.NotOwner)
	e.want("mode and a bad size", e.set(owner, f, fabric.SetAttr{Set: size | fabric.SetMode, Size: -1}), fabric.Invalid)
	same(e, "the file", e.stat(f), before)
	same(e, "content", e.read(f), "text")
}

func testXattrs(e *env) {
	f := e.file(owner, "f", "x")
	big := bytes.Repeat([]byte{7}, 3000)
	values := map[string][]byte{"user.a": []byte("1"), "user.empty": {}, "user.big": big, "user.é\xff": {0, 1}}
	for name, value := range values {
		before := e.stat(f)
		e.must(e.as(owner).SetXattr(e.ctx, f, name, value, fabric.XattrCreate))
		e.changed("the file", before, e.stat(f))
	}
	for name, value := range values {
		n, err := e.as(owner).Xattr(e.ctx, f, name, nil)
		e.must(err)
		same(e, "length of "+name, n, len(value))
		p := make([]byte, n+1)
		n, err = e.as(owner).Xattr(e.ctx, f, name, p)
		if err != nil || !bytes.Equal(p[:n], value) {
			e.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	list, err := e.as(owner).ListXattr(e.ctx, f)
	e.must(err)
	slices.Sort(list)
	if want := []string{"user.a", "user.big", "user.empty", "user.é\xff"}; !slices.Equal(list, want) {
		e.Errorf("names %q", list)
	}
	_, err = e.as(owner).Xattr(e.ctx, f, "user.big", make([]byte, 10))
	e.want("too short", err, fabric.Invalid)
	e.must(e.as(owner).SetXattr(e.ctx, f, "user.a", []byte("2"), fabric.XattrReplace))
	e.must(e.as(owner).RemoveXattr(e.ctx, f, "user.big"))
	_, err = e.as(owner).Xattr(e.ctx, f, "user.big", nil)
	e.want("removed", err, fabric.NoXattr)
	e.write(f, 0, "yy")
	p := make([]byte, 1)
	_, err = e.as(owner).Xattr(e.ctx, f, "user.a", p)
	if err != nil || p[0] != '2' {
		e.Errorf("after a write: %q, %v", p, err)
	}
	e.sync(f)
	_, err = e.as(owner).Xattr(e.ctx, f, "user.empty", nil)
	e.want("after a sync", err, fabric.OK)
	h := e.open(f, fabric.OpenWrite)
	_, _, err = h.WriteAt(e.ctx, []byte("zz"), 0)
	e.must(err)
	e.must(e.as(owner).SetXattr(e.ctx, f, "user.late", nil, fabric.XattrCreate))
	e.sync(f)
	_, err = e.as(owner).Xattr(e.ctx, f, "user.late", nil)
	e.want("set before a sync", err, fabric.OK)
	e.must(e.as(root).SetXattr(e.ctx, e.dir, "user.d", []byte("3"), fabric.XattrAny))
	e.must(e.as(root).RemoveXattr(e.ctx, e.dir, "user.d"))
}

func testXattrErrors(e *env) {
	f := e.make(owner, "f", fabric.TypeFile, 0o644)
	link := e.makeIn(owner, e.dir, "l", fabric.NodeSpec{Type: fabric.TypeSymlink, Target: "x"})
	e.must(e.as(owner).SetXattr(e.ctx, f, "user.a", []byte("1"), fabric.XattrAny))
	before := e.stat(f)
	for _, c := range []struct {
		what string
		who  fabric.Cred
		ino  fabric.Ino
		name string
		size int
		mode fabric.XattrMode
		code fabric.Code
	}{
		{"it is there", owner, f, "user.a", 1, fabric.XattrCreate, fabric.Exist},
		{"it is not there", owner, f, "user.b", 1, fabric.XattrReplace, fabric.NoXattr},
		{"no name", owner, f, "", 1, fabric.XattrAny, fabric.Invalid},
		{"a long name", owner, f, "user." + strings.Repeat("n", fabric.MaxXattrName-4), 1, fabric.XattrAny, fabric.NameTooLong},
		{"a long value", owner, f, "user.b", fabric.MaxXattrValue + 1, fabric.XattrAny, fabric.TooBig},
		{"too much in all", owner, f, "user.b", fabric.MaxXattrValue, fabric.XattrAny, fabric.NoSpace},
		{"another's file", other, f, "user.b", 1, fabric.XattrAny, fabric.Denied},
		{"trusted", owner, f, "trusted.b", 1, fabric.XattrAny, fabric.NotOwner},
		{"security", owner, f, "security.b", 1, fabric.XattrAny, fabric.NotOwner},
		{"of a symbolic link", owner, link, "user.b", 1, fabric.XattrAny, fabric.NotOwner},
	} {
		err := e.as(c.who).SetXattr(e.ctx, c.ino, c.name, make([]byte, c.size), c.mode)
		e.want(c.what, err, c.code)
	}
	e.want("remove what is not there", e.as(owner).RemoveXattr(e.ctx, f, "user.b"), fabric.NoXattr)
	e.want("remove another's", e.as(other).RemoveXattr(e.ctx, f, "user.a"), fabric.Denied)
	same(e, "the file", e.stat(f), before)
	e.must(e.as(root).SetXattr(e.ctx, f, "trusted.b", nil, fabric.XattrAny))
}

// testDescription: the attribute that describes a content goes with it.
func testDescription(e *env) {
	f, src := e.file(root, "f", "text"), e.file(root, "src", "source")
	for what, change := range map[string]func() error{
		"a write":    func() error { e.write(f, 1, "E"); return nil },
		"a truncate": func() error { return e.set(root, f, fabric.SetAttr{Set: fabric.SetSize, Size: 2}) },
		"growth":     func() error { return e.set(root, f, fabric.SetAttr{Set: fabric.SetSize, Size: 100}) },
		"a clone": func() error {
			_, err := e.as(root).Clone(e.ctx, f, []fabric.Part{{Ino: src, Len: -1}})
			return err
		},
	} {
		e.write(f, 0, what)
		e.must(e.as(root).SetXattr(e.ctx, f, fabric.ContentXattr, []byte(what), fabric.XattrAny))
		e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o600}))
		_, err := e.as(root).Xattr(e.ctx, f, fabric.ContentXattr, nil)
		e.want("before "+what, err, fabric.OK)
		e.must(change())
		_, err = e.as(root).Xattr(e.ctx, f, fabric.ContentXattr, nil)
		e.want("after "+what, err, fabric.NoXattr)
		e.sync(f)
		_, err = e.as(root).Xattr(e.ctx, f, fabric.ContentXattr, nil)
		e.want("after "+what+" and a sync", err, fabric.NoXattr)
	}
}

func testUsage(e *env) {
	before, err := e.as(root).StatFS(e.ctx)
	e.must(err)
	f := e.file(root, "f", strings.Repeat("0123456789", 5000))
	e.sync(f)
	after, err := e.as(root).StatFS(e.ctx)
	e.must(err)
	if after.FreeInodes >= before.FreeInodes || after.FreeBytes > before.FreeBytes-50_000 {
		e.Errorf("free before %+v, after a file of 50,000 bytes %+v", before, after)
	}
	if after.FreeBytes > after.Bytes || after.FreeInodes > after.Inodes || after.FreeBytes < 0 {
		e.Errorf("usage %+v", after)
	}
}
