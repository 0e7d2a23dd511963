package namespace

import (
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// Encodings of the structs that records, commands, results and messages are made of.

func (w *writer) attr(a *fabric.Attr) {
	w.uint(uint64(a.Ino))
	w.u8(uint8(a.Type))
	w.uint(uint64(a.Mode))
	w.uint(uint64(a.UID))
	w.uint(uint64(a.GID))
	w.uint(uint64(a.Nlink))
	w.uint(a.Rdev)
	w.int(a.Size)
	w.int(a.Used)
	w.int(int64(a.Atime))
	w.int(int64(a.Mtime))
	w.int(int64(a.Ctime))
	w.int(int64(a.Btime))
	w.uint(a.Iver)
	w.uint(uint64(a.Parent))
}

func (r *reader) attr() (a fabric.Attr) {
	a.Ino = fabric.Ino(r.uint())
	a.Type = fabric.Type(r.u8())
	a.Mode = r.u16()
	a.UID, a.GID, a.Nlink = r.u32(), r.u32(), r.u32()
	a.Rdev = r.uint()
	a.Size, a.Used = r.int(), r.int()
	a.Atime, a.Mtime = fabric.Time(r.int()), fabric.Time(r.int())
	a.Ctime, a.Btime = fabric.Time(r.int()), fabric.Time(r.int())
	a.Iver = r.uint()
	a.Parent = fabric.Ino(r.uint())
	return a
}

func (w *writer) version(v fabric.Version) {
	w.uint(v.Iver)
	w.int(v.Size)
	w.int(int64(v.Mtime))
	w.int(int64(v.Ctime))
}

func (r *reader) version() fabric.Version {
	return fabric.Version{Iver: r.uint(), Size: r.int(), Mtime: fabric.Time(r.int()), Ctime: fabric.Time(r.int())}
}

func (w *writer) cred(c *fabric.Cred) {
	w.uint(uint64(c.UID))
	w.uint(uint64(c.GID))
	w.uint(uint64(len(c.Groups)))
	for _, g := range c.Groups {
		w.uint(uint64(g))
	}
	w.raw(c.Op[:])
}

func (r *reader) cred() (c fabric.Cred) {
	c.UID, c.GID = r.u32(), r.u32()
	n := r.count(1)
	if n > fabric.MaxGroups {
		r.fail()
		return c
	}
	for range n {
		c.Groups = append(c.Groups, r.u32())
	}
	copy(c.Op[:], r.raw(16))
	return c
}

func (w *writer) spec(s *fabric.NodeSpec) {
	w.u8(uint8(s.Type))
	w.uint(uint64(s.Mode))
	w.uint(s.Rdev)
	w.str(s.Target)
	w.uint(s.Verifier)
}

func (r *reader) spec() fabric.NodeSpec {
	return fabric.NodeSpec{Type: fabric.Type(r.u8()), Mode: r.u16(), Rdev: r.uint(), Target: r.str(), Verifier: r.uint()}
}

func (w *writer) cond(c fabric.Cond) {
	w.bool(c.Absent)
	w.uint(uint64(c.Ino))
	w.uint(c.Iver)
}

func (r *reader) cond() fabric.Cond {
	return fabric.Cond{Absent: r.bool(), Ino: fabric.Ino(r.uint()), Iver: r.uint()}
}

func (w *writer) expect(e Expect) {
	w.uint(uint64(e.Ino))
	w.bool(e.Unchecked)
}

func (r *reader) expect() Expect { return Expect{Ino: fabric.Ino(r.uint()), Unchecked: r.bool()} }

func (w *writer) setAttr(s *fabric.SetAttr) {
	w.uint(uint64(s.Set))
	w.uint(uint64(s.Mode))
	w.uint(uint64(s.UID))
	w.uint(uint64(s.GID))
	w.int(s.Size)
	w.int(int64(s.Atime))
	w.int(int64(s.Mtime))
	w.int(int64(s.Guard))
}

func (r *reader) setAttr() fabric.SetAttr {
	return fabric.SetAttr{
		Set: fabric.SetBits(r.u16()), Mode: r.u16(), UID: r.u32(), GID: r.u32(), Size: r.int(),
		Atime: fabric.Time(r.int()), Mtime: fabric.Time(r.int()), Guard: fabric.Time(r.int()),
	}
}

// content writes nil and empty Inline apart: an empty file is either, a hole never.
func (w *writer) content(c *Content) {
	w.int(c.Size)
	w.int(c.Used)
	w.ref(c.Root)
	w.bool(c.Inline != nil)
	if c.Inline != nil {
		w.bytes(c.Inline)
	}
}

func (r *reader) content() (c Content) {
	c.Size, c.Used, c.Root = r.int(), r.int(), r.ref()
	if r.bool() {
		if c.Inline = r.bytes(); c.Inline == nil {
			c.Inline = []byte{}
		}
	}
	return c
}

func (w *writer) xattrs(x []Xattr) {
	w.uint(uint64(len(x)))
	for i := range x {
		w.str(x[i].Name)
		w.bytes(x[i].Value)
	}
}

func (r *reader) xattrs() []Xattr {
	var out []Xattr
	for range r.count(2) {
		out = append(out, Xattr{Name: r.str(), Value: r.bytes()})
	}
	return out
}

func (w *writer) chunking(c Chunking) {
	w.u8(c.Algorithm)
	w.uint(uint64(c.Min))
	w.uint(uint64(c.Mean))
	w.uint(uint64(c.Max))
}

func (r *reader) chunking() Chunking {
	return Chunking{Algorithm: r.u8(), Min: r.u32(), Mean: r.u32(), Max: r.u32()}
}

func (w *writer) info(i *Info) {
	w.uint(i.ID)
	w.str(i.Name)
	w.uint(i.History)
	w.raw(i.DigestKey[:])
	w.raw(i.HandleKey[:])
	w.chunking(i.Chunking)
	w.bool(i.ReadOnly)
}

func (r *reader) info() (i Info) {
	i.ID, i.Name, i.History = r.uint(), r.str(), r.uint()
	i.DigestKey, i.HandleKey = r.key(), r.key()
	i.Chunking, i.ReadOnly = r.chunking(), r.bool()
	return i
}

func (w *writer) inode(n *Inode) {
	w.attr(&n.Attr)
	w.content(&n.Content)
	w.str(n.Target)
	w.uint(n.Verifier)
	w.xattrs(n.Xattrs)
	w.bool(n.Partial)
}

func (r *reader) inode() (n Inode) {
	n.Attr, n.Content = r.attr(), r.content()
	n.Target, n.Verifier = r.str(), r.uint()
	n.Xattrs, n.Partial = r.xattrs(), r.bool()
	return n
}

func (w *writer) change(c *fabric.Change) {
	w.version(c.Before)
	w.attr(&c.After)
}

func (r *reader) change() fabric.Change { return fabric.Change{Before: r.version(), After: r.attr()} }

func (w *writer) blob(b *storage.Blob) {
	w.ref(b.Ref)
	w.u8(uint8(b.Kind))
	w.u8(uint8(b.Form))
	w.bytes(b.Data)
}

func (r *reader) blob() storage.Blob {
	return storage.Blob{Ref: r.ref(), Kind: storage.Kind(r.u8()), Form: storage.Form(r.u8()), Data: r.bytes()}
}
