package namespace

import (
	"slices"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/storage"
)

// checkContent says whether a file may have this content: it is whole in itself, and its root is
// a node of the index that covers exactly its size.
func (m *machine) checkContent(c *Content) fabric.Code {
	if c.Size < 0 || c.Used < 0 || c.Used > c.Size {
		return fabric.Invalid
	}
	if c.Size > fabric.MaxFileSize {
		return fabric.TooBig
	}
	if c.Inline != nil {
		if len(c.Inline) > fabric.MaxInline || int64(len(c.Inline)) != c.Size || !c.Root.IsZero() {
			return fabric.Invalid
		}
		return fabric.OK
	}
	if c.Root.IsZero() {
		if c.Used != 0 {
			return fabric.Invalid
		}
		return fabric.OK
	}
	s, ok := load(m.v, blobKey(c.Root), (*reader).stored)
	if !ok || s.kind != storage.Node || s.raw != c.Root.Len || s.sum != uint64(c.Size) {
		return fabric.Invalid
	}
	return fabric.OK
}

// store makes c a node's content and stores the node; counts follow.
func (m *machine) store(n *node, c Content) {
	m.c.bytes += c.Used - n.Used
	switch {
	case c.Inline != nil:
		m.v.Set(inoKey(keyInline, n.Ino), c.Inline)
	case n.Content.Inline != nil:
		m.v.Delete(inoKey(keyInline, n.Ino))
	}
	n.Content = c
	if n.Type == fabric.TypeFile {
		n.Size, n.Used = c.Size, c.Used
	}
	m.put(n)
}

// dropDescription removes the attribute that describes content that has changed.
func (m *machine) dropDescription(n *node) {
	n.xattrs(m.v)
	if i, ok := slices.BinarySearchFunc(n.Xattrs, fabric.ContentXattr, byName); ok {
		n.Xattrs = slices.Delete(n.Xattrs, i, i+1)
		m.storeXattrs(n)
	}
}

// same says whether c is what n holds already.
func (m *machine) same(n *node, c *Content) bool {
	if n.Size != c.Size || n.Content.Root != c.Root || (n.Content.Inline == nil) != (c.Inline == nil) {
		return false
	}
	if c.Inline == nil {
		return true
	}
	n.inline(m.v)
	return string(n.Content.Inline) == string(c.Inline)
}

// file reads a file whose content this session wants to change.
func (m *machine) file(ino fabric.Ino, base uint64, res *OpResult) *node {
	n, ok := getNode(m.v, ino)
	if !ok {
		res.Code = fabric.Stale
		return nil
	}
	res.Before, res.Attr = n.Version(), n.Attr
	if n.Type != fabric.TypeFile {
		res.Code = fabric.Invalid
		return nil
	}
	if !m.mayWrite(n, base) {
		res.Code = fabric.Fenced
		return nil
	}
	return n
}

func (m *machine) publish(o *Publish) (res OpResult) {
	n := m.file(o.Ino, o.Base, &res)
	if n == nil {
		return res
	}
	if res.Code = m.checkContent(&o.Content); res.Code != fabric.OK {
		return res
	}
	if !o.Content.Root.IsZero() && o.Content.Root != n.Content.Root {
		if _, pinned := m.v.Get(pinKey(m.sess.ID, o.Content.Root)); !pinned {
			res.Code = fabric.Invalid
			return res
		}
	}
	if !m.same(n, &o.Content) {
		m.dropDescription(n)
	}
	n.Mtime = o.Mtime
	if o.Atime != 0 {
		n.Atime = o.Atime
	}
	if o.KillPriv {
		killPriv(n)
	}
	ctime := o.Ctime
	if n.Iver > o.Base { // the spoke has shown a later one with each change since
		ctime += fabric.Time(n.Iver - o.Base)
	}
	m.touch(n)
	n.Ctime = max(n.Ctime, ctime)
	m.store(n, o.Content)
	m.unpin(o.Content.Root)
	if o.DropW {
		m.dropW(m.sess.ID, n.Ino)
	}
	res.Attr = n.Attr
	return res
}

// unpin ends the pin that a publish has used: the inode names the root now.
func (m *machine) unpin(root storage.Ref) {
	if !root.IsZero() {
		m.v.Delete(pinKey(m.sess.ID, root))
	}
}

// clone is publish of a content that other files have, each still at the version that was read.
func (m *machine) clone(o *Clone) (res OpResult) {
	n := m.file(o.Dst, o.Base, &res)
	if n == nil {
		return res
	}
	if res.Code = m.checkContent(&o.Content); res.Code != fabric.OK {
		return res
	}
	known := o.Content.Root.IsZero() || o.Content.Root == n.Content.Root
	for _, s := range o.Sources {
		src, ok := getNode(m.v, s.Ino)
		if !ok || src.Type != fabric.TypeFile || src.Iver != s.Iver {
			res.Code = fabric.Precondition
			return res
		}
		known = known || src.Content.Root == o.Content.Root
	}
	if !known {
		if _, pinned := m.v.Get(pinKey(m.sess.ID, o.Content.Root)); !pinned {
			res.Code = fabric.Invalid
			return res
		}
	}
	if !m.same(n, &o.Content) {
		m.dropDescription(n)
	}
	m.touch(n)
	n.Mtime = max(o.Mtime, n.Ctime)
	m.store(n, o.Content)
	m.unpin(o.Content.Root)
	res.Attr = n.Attr
	return res
}
