package fstest

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/spokefs/spokefs/fabric"
)

func testReadWrite(e *env) {
	f := e.file(root, "f", "")
	content := ""
	for _, w := range []struct {
		off int64
		n   int
	}{{0, 10}, {5, 10}, {100, 5}, {16 << 10, 1}, {70_000, 200_000}, {3, 1 << 10}, {260_000, 30_000}} {
		p := strings.Repeat(string(rune('a'+w.n%26)), w.n)
		before := e.stat(f)
		e.write(f, w.off, p)
		e.changed("the file", before, e.stat(f))
		if grow := int(w.off) + w.n - len(content); grow > 0 {
			content += strings.Repeat("\x00", grow)
		}
		content = content[:w.off] + p + content[int(w.off)+w.n:]
		a := e.stat(f)
		same(e, "size", a.Size, int64(len(content)))
		same(e, "mtime moves as ctime", a.Mtime == before.Mtime, false)
		if e.read(f) != content {
			e.Fatalf("content differs after %d bytes at %d", w.n, w.off)
		}
	}
	r := e.open(f, fabric.OpenRead)
	size := int64(len(content))
	for _, c := range []struct{ off, n, want int64 }{{0, 1, 1}, {size - 3, 10, 3}, {size, 10, 0}, {size + 100, 10, 0}, {16380, 9, 9}, {0, 0, 0}} {
		p := make([]byte, c.n)
		n, err := r.ReadAt(e.ctx, p, c.off)
		e.must(err)
		same(e, "bytes read", int64(n), c.want)
		if n > 0 && string(p[:n]) != content[c.off:c.off+int64(n)] {
			e.Errorf("read at %d differs", c.off)
		}
	}
	if a := e.stat(f); a.Used <= 0 || a.Used > a.Size {
		e.Errorf("used %d of %d", a.Used, a.Size)
	}
}

func testAppend(e *env) {
	f := e.file(root, "f", "x")
	off, ch, err := e.open(f, fabric.OpenWrite).Append(e.ctx, []byte("yz"))
	e.must(err)
	same(e, "offset", off, 1)
	same(e, "size", ch.After.Size, 3)
	const writers, each = 4, 8
	var all sync.WaitGroup
	for w := range writers {
		h := e.open(f, fabric.OpenWrite)
		all.Go(func() {
			for range each {
				if _, _, err := h.Append(e.ctx, bytes.Repeat([]byte{byte('0' + w)}, 10)); err != nil {
					e.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := e.read(f)
	same(e, "size after all", len(got), 3+writers*each*10)
	for i := 3; i+10 <= len(got); i += 10 {
		if got[i:i+10] != strings.Repeat(got[i:i+1], 10) {
			e.Fatalf("appends are mixed at %d: %q", i, got[i:i+10])
		}
	}
	for w := range writers {
		same(e, "bytes of one", strings.Count(got, string(rune('0'+w))), each*10)
	}
}

func testTruncate(e *env) {
	f := e.file(owner, "f", "0123456789")
	size := func(n int64) fabric.SetAttr { return fabric.SetAttr{Set: fabric.SetSize, Size: n} }
	for _, c := range []struct {
		n    int64
		want string
	}{{5, "01234"}, {8, "01234\x00\x00\x00"}, {0, ""}, {3, "\x00\x00\x00"}, {3, "\x00\x00\x00"}} {
		before := e.stat(f)
		e.must(e.set(owner, f, size(c.n)))
		same(e, "content", e.read(f), c.want)
		e.changed("the file", before, e.stat(f))
	}
	e.must(e.set(root, f, size(1<<40)))
	a := e.stat(f)
	same(e, "size", a.Size, 1<<40)
	if a.Used > 1<<20 {
		e.Errorf("a hole takes %d bytes", a.Used)
	}
	e.must(e.set(root, f, size(4)))
	e.want("without permission", e.set(other, f, size(0)), fabric.Denied)
	e.want("negative", e.set(root, f, size(-1)), fabric.Invalid)
	e.want("over the limit", e.set(root, f, size(fabric.MaxFileSize+1)), fabric.TooBig)
	e.want("a directory", e.set(root, e.dir, size(0)), fabric.IsDir)
	e.want("a fifo", e.set(root, e.make(root, "fifo", fabric.TypeFifo, 0o666), size(0)), fabric.Invalid)
	same(e, "size", e.stat(f).Size, 4)
}

func testHoles(e *env) {
	f := e.file(root, "f", "")
	h := e.open(f, fabric.OpenRead|fabric.OpenWrite)
	data := func(off int64) (int64, int64) {
		e.Helper()
		start, end, err := h.NextData(e.ctx, off)
		e.must(err)
		return start, end
	}
	start, end := data(0)
	same(e, "data of an empty file", [2]int64{start, end}, [2]int64{0, 0})
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetSize, Size: 10 << 20}))
	start, _ = data(0)
	same(e, "data of a hole", start, 10<<20)
	e.write(f, 4<<20, strings.Repeat("d", 1<<20))
	if start, end = data(0); start > 4<<20 || end <= start || start < 4<<20-1<<17 {
		e.Errorf("data from %d to %d", start, end)
	}
	same(e, "from within", first(data(4<<20+9)), 4<<20+9)
	if _, err := h.Punch(e.ctx, 4<<20, 1<<19); err != nil {
		e.Fatal(err)
	}
	e.must(h.Sync(e.ctx))
	if start, _ = data(0); start > 4<<20+1<<19 || start < 4<<20+1<<18 {
		e.Errorf("data after a punch from %d", start)
	}
	p := make([]byte, 1<<20)
	if _, err := h.ReadAt(e.ctx, p, 4<<20); err != nil {
		e.Fatal(err)
	}
	if want := strings.Repeat("\x00", 1<<19) + strings.Repeat("d", 1<<19); string(p) != want {
		e.Error("content after a punch differs")
	}
	same(e, "size after a punch", e.stat(f).Size, 10<<20)
	same(e, "beyond the end", first(data(20<<20)), 10<<20)
	for _, bad := range [][2]int64{{-1, 5}, {0, 0}, {0, -1}, {fabric.MaxFileSize, 1}} {
		_, err := h.Punch(e.ctx, bad[0], bad[1])
		e.want("bad punch", err, fabric.Invalid)
	}
	_, _, err := h.NextData(e.ctx, -1)
	e.want("data at a negative place", err, fabric.Invalid)
}

func first(a, _ int64) int64 { return a }

func testOpenErrors(e *env) {
	f := e.make(owner, "f", fabric.TypeFile, 0o640)
	for _, c := range []struct {
		what string
		who  fabric.Cred
		ino  fabric.Ino
		mode fabric.OpenMode
		code fabric.Code
	}{
		{"a directory", root, e.dir, fabric.OpenRead, fabric.IsDir},
		{"a symbolic link", root, e.makeIn(root, e.dir, "l", fabric.NodeSpec{Type: fabric.TypeSymlink, Target: "f"}), fabric.OpenRead, fabric.Invalid},
		{"a fifo", root, e.make(root, "fifo", fabric.TypeFifo, 0o666), fabric.OpenRead, fabric.Invalid},
		{"what is not", root, 1 << 40, fabric.OpenRead, fabric.Stale},
		{"read, not allowed", other, f, fabric.OpenRead, fabric.Denied},
		{"write, not allowed", other, f, fabric.OpenWrite, fabric.Denied},
		{"write at a fixed version", owner, f, fabric.OpenWrite | fabric.OpenFixed, fabric.Invalid},
	} {
		_, err := e.as(c.who).Open(e.ctx, c.ino, c.mode)
		e.want(c.what, err, c.code)
	}
}

func testFileErrors(e *env) {
	f := e.file(root, "f", "text")
	r, w := e.open(f, fabric.OpenRead), e.open(f, fabric.OpenWrite)
	same(e, "inode", r.Ino(), f)
	p := make([]byte, 4)
	_, err := w.ReadAt(e.ctx, p, 0)
	e.want("read of a file open for writing", err, fabric.Denied)
	_, _, err = r.WriteAt(e.ctx, p, 0)
	e.want("write of a file open for reading", err, fabric.Denied)
	_, _, err = r.Append(e.ctx, p)
	e.want("append to a file open for reading", err, fabric.Denied)
	_, err = r.Punch(e.ctx, 0, 1)
	e.want("punch of a file open for reading", err, fabric.Denied)
	_, err = r.ReadAt(e.ctx, p, -1)
	e.want("read before the start", err, fabric.Invalid)
	_, _, err = w.WriteAt(e.ctx, p, -1)
	e.want("write before the start", err, fabric.Invalid)
	_, _, err = w.WriteAt(e.ctx, p, fabric.MaxFileSize-3)
	e.want("write over the limit", err, fabric.TooBig)
	same(e, "content", e.read(f), "text")
	e.must(r.Close(e.ctx))
	e.want("a second close", r.Close(e.ctx), fabric.Invalid)
}

func testOpenOwner(e *env) {
	f := e.file(owner, "f", "text")
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o444}))
	_, err := e.as(owner).Open(e.ctx, f, fabric.OpenWrite)
	e.want("by mode", err, fabric.Denied)
	h := e.openAs(owner, f, fabric.OpenWrite|fabric.OpenOwner)
	_, _, err = h.WriteAt(e.ctx, []byte("T"), 0)
	e.must(err)
	same(e, "content", e.read(f), "Text")
	_, err = e.as(other).Open(e.ctx, f, fabric.OpenWrite|fabric.OpenOwner)
	e.want("by another", err, fabric.Denied)
	e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0}))
	_, _, err = h.WriteAt(e.ctx, []byte("t"), 0)
	e.want("what is open stays so", err, fabric.OK)
}

func testFixed(e *env) {
	f := e.file(root, "f", "first")
	h := e.open(f, fabric.OpenRead|fabric.OpenFixed)
	before, err := h.Stat(e.ctx)
	e.must(err)
	e.write(f, 0, "second version")
	e.sync(f)
	same(e, "content", e.readFile(h), "first")
	after, err := h.Stat(e.ctx)
	e.must(err)
	same(e, "version", after.Version(), before.Version())
	same(e, "content for others", e.read(f), "second version")
}

func testUnlinked(e *env) {
	f := e.file(root, "f", "text")
	r, w := e.open(f, fabric.OpenRead), e.open(f, fabric.OpenWrite)
	_, err := e.as(root).Remove(e.ctx, e.dir, "f", fabric.RemoveFile, fabric.Cond{})
	e.must(err)
	same(e, "the name", e.lookup(e.dir, "f"), 0)
	_, _, err = w.WriteAt(e.ctx, []byte("more text"), 0)
	e.must(err)
	e.must(w.Sync(e.ctx))
	same(e, "content", e.readFile(r), "more text")
	a, err := r.Stat(e.ctx)
	e.must(err)
	same(e, "links", a.Nlink, 0)
	e.must(w.Close(e.ctx))
	same(e, "content", e.readFile(r), "more text")
	again := e.file(root, "f", "other")
	if again == f {
		e.Error("a number was used again")
	}
	g := e.open(again, fabric.OpenRead)
	e.must(e.rename(root, e.dir, "f", e.dir, "h"))
	k := e.file(root, "k", "k")
	e.must(e.rename(root, e.dir, "k", e.dir, "h"))
	same(e, "content of a file that a rename replaced", e.readFile(g), "other")
	same(e, "content of the new one", e.read(k), "k")
}

func testPrivileges(e *env) {
	f := e.file(owner, "f", "x")
	for what, change := range map[string]func() error{
		"write": func() error {
			_, _, err := e.openAs(owner, f, fabric.OpenWrite).WriteAt(e.ctx, []byte("y"), 0)
			return err
		},
		"append": func() error {
			_, _, err := e.openAs(owner, f, fabric.OpenWrite).Append(e.ctx, []byte("y"))
			return err
		},
		"truncate": func() error { return e.set(owner, f, fabric.SetAttr{Set: fabric.SetSize, Size: 1}) },
		"clone": func() error {
			_, err := e.as(owner).Clone(e.ctx, f, nil)
			return err
		},
	} {
		e.must(e.set(root, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o6755}))
		e.write(f, 0, "z")
		same(e, "after root's write", e.stat(f).Mode, 0o6755)
		e.must(change())
		same(e, "after "+what, e.stat(f).Mode, 0o755)
		e.sync(f)
		same(e, "after "+what+" and a sync", e.stat(f).Mode, 0o755)
	}
}

// testPrivilegesGiven: what is given after a write that takes privileges away stays.
func testPrivilegesGiven(e *env) {
	f := e.file(owner, "f", "x")
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o4755}))
	_, _, err := e.openAs(owner, f, fabric.OpenWrite).WriteAt(e.ctx, []byte("y"), 0)
	e.must(err)
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o4711}))
	e.sync(f)
	same(e, "mode after the sync", e.stat(f).Mode, 0o4711)
	e.must(e.set(owner, f, fabric.SetAttr{Set: fabric.SetMode | fabric.SetSize, Mode: 0o4700}))
	e.sync(f)
	same(e, "mode set with a size", e.stat(f).Mode, 0o4700)
}

func testClone(e *env) {
	small, empty := e.file(owner, "small", "small"), e.file(owner, "empty", "")
	large := strings.Repeat("0123456789abcdef", 20_000)
	big := e.file(owner, "big", large)
	dst := e.file(owner, "dst", "what was there")
	whole := func(inos ...fabric.Ino) (parts []fabric.Part) {
		for _, ino := range inos {
			parts = append(parts, fabric.Part{Ino: ino, Len: -1})
		}
		return parts
	}
	for _, c := range []struct {
		parts []fabric.Part
		want  string
	}{
		{whole(big), large}, {whole(small), "small"}, {whole(empty), ""}, {nil, ""},
		{whole(small, big, small), "small" + large + "small"}, {whole(big, empty, big), large + large}, {whole(small, small), "smallsmall"},
	} {
		e.write(dst, 3, "not yet flushed")
		before := e.stat(dst)
		ch, err := e.as(owner).Clone(e.ctx, dst, c.parts)
		e.must(err)
		a := e.stat(dst)
		e.changed("the target", before, a)
		same(e, "the answer's size", ch.After.Size, int64(len(c.want)))
		if e.read(dst) != c.want {
			e.Fatalf("content of %d parts differs", len(c.parts))
		}
	}
	v := e.stat(small)
	_, err := e.as(owner).Clone(e.ctx, dst, []fabric.Part{{Ino: small, Len: v.Size, Cond: fabric.Cond{Iver: v.Iver}}})
	e.must(err)
	e.write(small, 0, "S")
	same(e, "a change of the source is none of the clone", e.read(dst), "small")
	e.write(dst, 0, "_")
	same(e, "a change of the clone is none of the source", e.read(small), "Small")
}

// testCloneErrors: what the target holds, published or not, stays.
func testCloneErrors(e *env) {
	src, secret := e.file(owner, "src", "source"), e.file(owner, "secret", "s")
	e.must(e.set(root, secret, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o600}))
	dst := e.file(owner, "dst", "")
	for _, c := range []struct {
		what string
		who  fabric.Cred
		dst  fabric.Ino
		part fabric.Part
		code fabric.Code
	}{
		{"another version", owner, dst, fabric.Part{Ino: src, Len: -1, Cond: fabric.Cond{Iver: 1 << 50}}, fabric.Precondition},
		{"a part of a file", owner, dst, fabric.Part{Ino: src, Len: 2}, fabric.Unsupported},
		{"not from the start", owner, dst, fabric.Part{Ino: src, Off: 1, Len: 5}, fabric.Unsupported},
		{"of itself", owner, dst, fabric.Part{Ino: dst, Len: -1}, fabric.Unsupported},
		{"of a directory", owner, dst, fabric.Part{Ino: e.dir, Len: -1}, fabric.Invalid},
		{"of what is not", owner, dst, fabric.Part{Ino: 1 << 40, Len: -1}, fabric.Stale},
		{"of what may not be read", other, dst, fabric.Part{Ino: secret, Len: -1}, fabric.Denied},
		{"into what may not be written", other, dst, fabric.Part{Ino: src, Len: -1}, fabric.Denied},
		{"into a directory", root, e.dir, fabric.Part{Ino: src, Len: -1}, fabric.Invalid},
	} {
		if c.dst == dst {
			e.write(dst, 0, "kept")
		}
		_, err := e.as(c.who).Clone(e.ctx, c.dst, []fabric.Part{c.part})
		e.want(c.what, err, c.code)
		same(e, c.what+": content of the target", e.read(dst), "kept")
	}
}

// testChanges: what a call says of before and after is what Stat says.
func testChanges(e *env) {
	f := e.file(root, "f", "")
	h := e.open(f, fabric.OpenWrite)
	check := func(what string, do func() (fabric.Change, error)) {
		e.Helper()
		before := e.stat(f)
		ch, err := do()
		e.must(err)
		e.changed(what, before, ch.After)
		after := e.stat(f)
		same(e, what+": size before", ch.Before.Size, before.Size)
		same(e, what+": size after", ch.After.Size, after.Size)
		same(e, what+": mtime before", ch.Before.Mtime, before.Mtime)
		same(e, what+": the inode", ch.After.Ino, f)
	}
	check("write", func() (fabric.Change, error) { _, ch, err := h.WriteAt(e.ctx, []byte("text"), 2); return ch, err })
	check("append", func() (fabric.Change, error) { _, ch, err := h.Append(e.ctx, []byte("text")); return ch, err })
	check("punch", func() (fabric.Change, error) { return h.Punch(e.ctx, 0, 3) })
	check("truncate", func() (fabric.Change, error) {
		return e.as(root).SetAttr(e.ctx, f, fabric.SetAttr{Set: fabric.SetSize, Size: 3})
	})
	check("chmod", func() (fabric.Change, error) {
		return e.as(root).SetAttr(e.ctx, f, fabric.SetAttr{Set: fabric.SetMode, Mode: 0o600})
	})
	e.sync(f)
	e.sync(e.dir)
}

func testHandles(e *env) {
	f := e.make(root, "f", fabric.TypeFile, 0o644)
	for i, p := range e.w.Portals {
		q := e.w.Portals[(i+1)%len(e.w.Portals)]
		h := p.Handle(f)
		ino, err := q.Resolve(h[:])
		if err != nil || ino != f {
			e.Errorf("resolved to %v, %v", ino, err)
		}
		same(e, "ID", p.ID(), q.ID())
		for bit := range len(h) * 8 {
			forged := h
			forged[bit/8] ^= 1 << (bit % 8)
			if ino, err := p.Resolve(forged[:]); err == nil && ino != f {
				e.Errorf("with bit %d changed it is %v", bit, ino)
			}
		}
		_, err = p.Resolve(h[:20])
		e.want("a short one", err, fabric.BadHandle)
	}
}

// observer records the keys it was told.
type observer struct {
	mu   sync.Mutex // guards keys
	keys []fabric.Key
}

// Invalidate implements fabric.Observer.
func (o *observer) Invalidate(_ context.Context, keys []fabric.Key) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, keys...)
	return nil
}

// InvalidateAll implements fabric.Observer.
func (o *observer) InvalidateAll(context.Context) error { return nil }

func (o *observer) told(k fabric.KeyKind, ino fabric.Ino, name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range o.keys {
		attr := k == fabric.KeyAttr && key.Kind == fabric.KeyPages // attributes too
		if (key.Kind == k || attr) && key.Ino == ino && key.Name == name {
			return true
		}
	}
	return false
}

// testObservers: when a change is answered, the node's other observers were told of it.
func testObservers(e *env) {
	f := e.file(root, "f", "")
	for _, p := range e.w.Portals {
		one := &env{T: e.T, w: &World{Portals: []fabric.Portal{p}}, ctx: e.ctx, dir: e.dir}
		var o, mine observer
		_, stop := p.Watch(&o)
		from, stopMine := p.Watch(&mine)
		who := fabric.Cred{From: from}
		h := one.openAs(who, f, fabric.OpenWrite)
		_, _, err := h.WriteAt(e.ctx, []byte("x"), 0)
		e.must(err)
		same(e, "told of a write", o.told(fabric.KeyPages, f, ""), true)
		ino := one.make(who, "g", fabric.TypeFile, 0o644)
		same(e, "told of a name", o.told(fabric.KeyEntry, e.dir, "g"), true)
		same(e, "told of its directory", o.told(fabric.KeyAttr, e.dir, ""), true)
		e.must(one.set(who, ino, fabric.SetAttr{Set: fabric.SetMode}))
		same(e, "told of a mode", o.told(fabric.KeyAttr, ino, ""), true)
		_, _, err = one.as(who).Rename(e.ctx, e.dir, "g", e.dir, "h", fabric.RenameReplace)
		e.must(err)
		same(e, "told of a new name", o.told(fabric.KeyEntry, e.dir, "h"), true)
		_, err = one.as(who).Remove(e.ctx, e.dir, "h", fabric.RemoveFile, fabric.Cond{})
		e.must(err)
		same(e, "its own are not told", mine.told(fabric.KeyEntry, e.dir, "g"), false)
		stop()
		stopMine()
	}
}

func testReadOnly(e *env) {
	if e.w.ReadOnly == nil {
		e.Skip("the world has no read-only portal")
	}
	f := e.file(root, "f", "text")
	fs := e.w.ReadOnly.As(root)
	_, _, err := fs.Make(e.ctx, e.dir, "x", fabric.NodeSpec{Type: fabric.TypeFile})
	e.want("make", err, fabric.ReadOnly)
	_, _, err = fs.Link(e.ctx, f, e.dir, "x")
	e.want("link", err, fabric.ReadOnly)
	_, _, err = fs.Replace(e.ctx, f, e.dir, "x", fabric.Cond{})
	e.want("replace", err, fabric.ReadOnly)
	_, _, err = fs.Rename(e.ctx, e.dir, "f", e.dir, "x", fabric.RenameReplace)
	e.want("rename", err, fabric.ReadOnly)
	_, err = fs.Remove(e.ctx, e.dir, "f", fabric.RemoveFile, fabric.Cond{})
	e.want("remove", err, fabric.ReadOnly)
	_, err = fs.SetAttr(e.ctx, f, fabric.SetAttr{Set: fabric.SetMode})
	e.want("setattr", err, fabric.ReadOnly)
	_, err = fs.Clone(e.ctx, f, nil)
	e.want("clone", err, fabric.ReadOnly)
	e.want("setxattr", fs.SetXattr(e.ctx, f, "user.x", nil, 0), fabric.ReadOnly)
	e.want("removexattr", fs.RemoveXattr(e.ctx, f, "user.x"), fabric.ReadOnly)
	_, err = fs.Open(e.ctx, f, fabric.OpenWrite)
	e.want("open to write", err, fabric.ReadOnly)
	got, err := fs.Access(e.ctx, f, fabric.PermRead|fabric.PermWrite)
	e.must(err)
	same(e, "access", got, fabric.PermRead)
	ro := &env{T: e.T, w: &World{Portals: []fabric.Portal{e.w.ReadOnly}}, ctx: e.ctx, dir: e.dir}
	same(e, "content", ro.read(f), "text")
}

// testLocks: they are all there, or none is.
func testLocks(e *env) {
	f := e.file(root, "f", "text")
	l := fabric.Lock{Exclusive: true, End: 10, Owner: 1}
	if err := e.as(root).TryLock(e.ctx, f, l); fabric.CodeOf(err) == fabric.Unsupported {
		e.want("lock", e.as(root).Lock(e.ctx, f, l), fabric.Unsupported)
		e.want("unlock", e.as(root).Unlock(e.ctx, f, l), fabric.Unsupported)
		_, _, err := e.as(root).TestLock(e.ctx, f, l)
		e.want("test", err, fabric.Unsupported)
		return
	} else if err != nil {
		e.Fatal(err)
	}
	l.Owner = 2
	e.want("another's lock", e.as(root).TryLock(e.ctx, f, l), fabric.Locked)
}
