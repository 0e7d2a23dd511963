package fstest

import (
	"bytes"
	"context"
	"slices"

	"github.com/spokefs/spokefs/fabric"
)

// fileOne opens a file, or does something with an open one, or clones.
func (p *pair) fileOne(who fabric.Cred, got, want fabric.FS) {
	switch k := p.rng.IntN(10); {
	case k == 0:
		p.cloneOne(who, got, want)
	case k <= 3 || len(p.open) == 0:
		p.openOne(who, got, want)
	case k == 4 || len(p.open) > 12:
		i := p.rng.IntN(len(p.open))
		p.close(p.open[i])
		p.open = slices.Delete(p.open, i, i+1)
	default:
		p.useOne(p.open[p.rng.IntN(len(p.open))])
	}
}

func (p *pair) openOne(who fabric.Cred, got, want fabric.FS) {
	n, mode := p.any(fabric.TypeFile), fabric.OpenMode(1+p.rng.IntN(3))
	if _, err := want.Stat(p.ctx, n.want); err != nil {
		return
	}
	p.say("open %d %#x mode %d", who.UID, n.got, mode)
	f, err := got.Open(p.ctx, n.got, mode)
	g, errRef := want.Open(p.ctx, n.want, mode)
	if p.errs(err, errRef) {
		p.open = append(p.open, twoFiles{n, f, g})
	}
}

func (p *pair) close(f twoFiles) {
	p.say("close %#x", f.twin.got)
	p.errs(f.got.Close(context.WithoutCancel(p.ctx)), f.want.Close(context.WithoutCancel(p.ctx)))
}

func (p *pair) closeAll() {
	for _, f := range p.open {
		p.close(f)
	}
	p.open = nil
}

// useOne reads or changes an open file.
func (p *pair) useOne(f twoFiles) {
	off, n := p.size()+p.rng.Int64N(3), p.size()
	var err, errRef error
	var ch, chRef fabric.Change
	switch p.rng.IntN(7) {
	case 0, 1:
		data := p.fill(max(n, 1))
		p.say("write %#x %d bytes at %d", f.twin.got, len(data), off)
		_, ch, err = f.got.WriteAt(p.ctx, data, off)
		_, chRef, errRef = f.want.WriteAt(p.ctx, data, off)
	case 2:
		data := p.fill(max(n, 1))
		p.say("append %#x %d bytes", f.twin.got, len(data))
		var at, atRef int64
		at, ch, err = f.got.Append(p.ctx, data)
		atRef, chRef, errRef = f.want.Append(p.ctx, data)
		if at != atRef {
			p.t.Errorf("append at %d, want %d", at, atRef)
		}
	case 3:
		p.say("punch %#x %d bytes at %d", f.twin.got, n, off)
		ch, err = f.got.Punch(p.ctx, off, n)
		chRef, errRef = f.want.Punch(p.ctx, off, n)
	case 4:
		p.say("sync %#x", f.twin.got)
		p.errs(f.got.Sync(p.ctx), f.want.Sync(p.ctx))
		return
	default:
		p.readOne(f, off, n)
		return
	}
	if p.errs(err, errRef) && ch.After.Size != chRef.After.Size {
		p.t.Errorf("size %d, want %d", ch.After.Size, chRef.After.Size)
	}
}

func (p *pair) readOne(f twoFiles, off, n int64) {
	p.say("read %#x %d bytes at %d", f.twin.got, n, off)
	a, b := make([]byte, n), make([]byte, n)
	got, err := f.got.ReadAt(p.ctx, a, off)
	want, errRef := f.want.ReadAt(p.ctx, b, off)
	if p.errs(err, errRef) && !bytes.Equal(a[:got], b[:want]) {
		p.t.Errorf("%d bytes, want %d, or others", got, want)
	}
}

func (p *pair) cloneOne(who fabric.Cred, got, want fabric.FS) {
	dst := p.any(fabric.TypeFile)
	var parts, partsRef []fabric.Part
	var size int64
	for range p.rng.IntN(4) {
		n := p.any(fabric.TypeFile)
		if size += n.lastRef.Size; size > 2<<20 {
			break
		}
		parts = append(parts, fabric.Part{Ino: n.got, Len: -1})
		partsRef = append(partsRef, fabric.Part{Ino: n.want, Len: -1})
	}
	if _, err := want.Stat(p.ctx, dst.want); err != nil {
		return
	}
	for i := range partsRef {
		if _, err := want.Stat(p.ctx, partsRef[i].Ino); err != nil {
			return
		}
	}
	p.say("clone %d %#x of %v", who.UID, dst.got, parts)
	_, err := got.Clone(p.ctx, dst.got, parts)
	_, errRef := want.Clone(p.ctx, dst.want, partsRef)
	p.errs(err, errRef)
}

// compareAll compares all that has a name, and all that is open.
func (p *pair) compareAll() {
	got, want := p.sites(root)
	todo := []*twin{p.nodes[0]}
	for len(todo) > 0 {
		dir := todo[0]
		todo = append(todo[1:], p.compareDir(got, want, dir)...)
	}
	for _, f := range p.open {
		a, err := f.got.Stat(p.ctx)
		b, errRef := f.want.Stat(p.ctx)
		if p.errs(err, errRef) {
			p.attr(a, b)
		}
	}
}

// compareDir compares a directory's listing and its inodes, and gives its subdirectories.
func (p *pair) compareDir(got, want fabric.FS, dir *twin) (subs []*twin) {
	for _, byName := range []bool{false, true} {
		pos := fabric.Pos{ByName: byName}
		var names, namesRef []string
		for d, err := range got.ReadDir(p.ctx, dir.got, pos) {
			if err != nil {
				p.t.Errorf("list %#x: %v", dir.got, err)
				return nil
			}
			names = append(names, d.Name)
		}
		for d, err := range want.ReadDir(p.ctx, dir.want, pos) {
			if err != nil {
				p.t.Errorf("list of the reference: %v", err)
				return nil
			}
			namesRef = append(namesRef, d.Name)
		}
		if !slices.Equal(names, namesRef) {
			p.t.Errorf("list %#x, by name %v: %q, want %q", dir.got, byName, names, namesRef)
			return nil
		}
	}
	for d := range want.ReadDir(p.ctx, dir.want, fabric.Pos{}) {
		a, err := got.Lookup(p.ctx, dir.got, d.Name)
		if err != nil {
			p.t.Errorf("lookup of %q in %#x: %v", d.Name, dir.got, err)
			return nil
		}
		p.attr(a, d.Attr)
		n := p.twinOf(d.Attr.Ino)
		if n.got != a.Ino {
			return nil
		}
		p.compareInode(got, want, n)
		if d.Attr.Type == fabric.TypeDir {
			subs = append(subs, n)
		}
	}
	return subs
}

// compareInode compares what an inode has beside its attributes.
func (p *pair) compareInode(got, want fabric.FS, n *twin) {
	list, err := got.ListXattr(p.ctx, n.got)
	listRef, _ := want.ListXattr(p.ctx, n.want)
	slices.Sort(list)
	if err != nil || !slices.Equal(list, listRef) {
		p.t.Errorf("inode %#x: xattrs %q, %v, want %q", n.got, list, err, listRef)
	}
	for _, name := range listRef {
		a, b := make([]byte, 1024), make([]byte, 1024)
		k, err := got.Xattr(p.ctx, n.got, name, a)
		l, _ := want.Xattr(p.ctx, n.want, name, b)
		if err != nil || !bytes.Equal(a[:k], b[:l]) {
			p.t.Errorf("inode %#x: xattr %s: %v", n.got, name, err)
		}
	}
	switch n.kind {
	case fabric.TypeSymlink:
		a, err := got.ReadLink(p.ctx, n.got)
		if b, _ := want.ReadLink(p.ctx, n.want); err != nil || a != b {
			p.t.Errorf("inode %#x: target %q, %v, want %q", n.got, a, err, b)
		}
	case fabric.TypeFile:
		p.compareContent(got, want, n)
	}
}

func (p *pair) compareContent(got, want fabric.FS, n *twin) {
	f, err := got.Open(p.ctx, n.got, fabric.OpenRead)
	g, errRef := want.Open(p.ctx, n.want, fabric.OpenRead)
	if !p.errs(err, errRef) {
		return
	}
	defer p.close(twoFiles{n, f, g})
	size := n.lastRef.Size
	a, b := make([]byte, size+1), make([]byte, size+1)
	k, err := f.ReadAt(p.ctx, a, 0)
	l, _ := g.ReadAt(p.ctx, b, 0)
	if err != nil || !bytes.Equal(a[:k], b[:l]) {
		p.t.Errorf("inode %#x: content differs: %d bytes, want %d, error %v", n.got, k, l, err)
		return
	}
	for off := int64(0); ; { // what is between data is zero
		start, end, err := f.NextData(p.ctx, off)
		if err != nil || start < off || end < start || end > size {
			p.t.Errorf("inode %#x: data from %d: %d to %d, %v", n.got, off, start, end, err)
			return
		}
		if i := bytes.IndexFunc(b[off:start], func(r rune) bool { return r != 0 }); i >= 0 {
			p.t.Errorf("inode %#x: there is data at %d, in a hole", n.got, off+int64(i))
		}
		if off = end; start >= size {
			return
		}
	}
}
