package namespace

import (
	"slices"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

func (m *machine) setAttr(o *SetAttr) (res OpResult) {
	n, ok := getNode(m.v, o.Ino)
	if !ok {
		res.Code = fabric.Stale
		return res
	}
	res.Before, res.Attr = n.Version(), n.Attr
	s := &o.Set
	if s.Set&fabric.SetSize != 0 {
		res.Code = fabric.Invalid // a size is content: Publish
		return res
	}
	if s.Set&fabric.SetGuard != 0 && s.Guard != n.Ctime {
		res.Code = fabric.Precondition
		return res
	}
	if res.Code = MaySet(&o.Who, &n.Attr, s); res.Code != fabric.OK {
		return res
	}
	set(n, s, &o.Who, m.c.wall)
	m.touch(n)
	m.put(n)
	res.Attr = n.Attr
	return res
}

// MaySet says whether the caller may make these changes, by POSIX's rules for chmod, chown and
// utimensat. It does not look at the size.
func MaySet(who *fabric.Cred, a *fabric.Attr, s *fabric.SetAttr) fabric.Code {
	owns := who.Owns(a)
	if s.Set&fabric.SetMode != 0 && !owns {
		return fabric.NotOwner
	}
	if s.Set&fabric.SetUID != 0 && s.UID != a.UID && who.UID != 0 {
		return fabric.NotOwner
	}
	if s.Set&fabric.SetUID != 0 && !owns {
		return fabric.NotOwner
	}
	if s.Set&fabric.SetGID != 0 && who.UID != 0 && (!owns || s.GID != a.GID && !who.In(s.GID)) {
		return fabric.NotOwner
	}
	if s.Set&(fabric.SetAtime|fabric.SetMtime) != 0 && !owns {
		return fabric.NotOwner
	}
	if s.Set&(fabric.SetAtimeNow|fabric.SetMtimeNow) != 0 && !owns && who.May(a, fabric.PermWrite) == 0 {
		return fabric.Denied
	}
	return fabric.OK
}

// set makes the changes.
func set(n *node, s *fabric.SetAttr, who *fabric.Cred, now fabric.Time) {
	chown := s.Set&(fabric.SetUID|fabric.SetGID) != 0
	if s.Set&fabric.SetUID != 0 {
		n.UID = s.UID
	}
	if s.Set&fabric.SetGID != 0 {
		n.GID = s.GID
	}
	if (chown && who.UID != 0 || s.Set&fabric.SetKillPriv != 0) && n.Type != fabric.TypeDir {
		killPriv(n)
	}
	if s.Set&fabric.SetMode != 0 {
		n.Mode = s.Mode & fabric.ModeAll
		if who.UID != 0 && n.Type != fabric.TypeDir && !who.In(n.GID) {
			n.Mode &^= fabric.ModeSetgid
		}
	}
	if s.Set&fabric.SetAtime != 0 {
		n.Atime = s.Atime
	}
	if s.Set&fabric.SetMtime != 0 {
		n.Mtime = s.Mtime
	}
	if s.Set&fabric.SetAtimeNow != 0 {
		n.Atime = now
	}
	if s.Set&fabric.SetMtimeNow != 0 {
		n.Mtime = now
	}
}

// killPriv drops setuid, and setgid where it means a privilege.
func killPriv(n *node) {
	n.Mode &^= fabric.ModeSetuid
	if n.Mode&0o010 != 0 {
		n.Mode &^= fabric.ModeSetgid
	}
}

// checkXattr says whether an attribute of that name and length may be.
func checkXattr(name string, value int) fabric.Code {
	if name == "" || strings.ContainsRune(name, 0) {
		return fabric.Invalid
	}
	if len(name) > fabric.MaxXattrName {
		return fabric.NameTooLong
	}
	if value > fabric.MaxXattrValue {
		return fabric.TooBig
	}
	return fabric.OK
}

func checkXattrs(x []Xattr) fabric.Code {
	size := 0
	for i := range x {
		if c := checkXattr(x[i].Name, len(x[i].Value)); c != fabric.OK {
			return c
		}
		if i > 0 && x[i-1].Name >= x[i].Name {
			return fabric.Invalid
		}
		size += len(x[i].Name) + len(x[i].Value)
	}
	if size > fabric.MaxXattrs {
		return fabric.NoSpace
	}
	return fabric.OK
}

// mayXattr says whether the caller may change an attribute: user.* by write permission, security
// and trusted by root alone.
func mayXattr(who *fabric.Cred, a *fabric.Attr, name string) fabric.Code {
	if who.UID == 0 {
		return fabric.OK
	}
	if !strings.HasPrefix(name, "user.") {
		return fabric.NotOwner
	}
	if a.Type != fabric.TypeFile && a.Type != fabric.TypeDir {
		return fabric.NotOwner
	}
	if !who.Owns(a) && who.May(a, fabric.PermWrite) == 0 {
		return fabric.Denied
	}
	return fabric.OK
}

func byName(x Xattr, name string) int { return strings.Compare(x.Name, name) }

// xattrNode reads an inode with its attributes for a change of one.
func (m *machine) xattrNode(ino fabric.Ino, who *fabric.Cred, name string, size int, res *OpResult) *node {
	n, ok := getNode(m.v, ino)
	if !ok {
		res.Code = fabric.Stale
		return nil
	}
	res.Before, res.Attr = n.Version(), n.Attr
	if res.Code = checkXattr(name, size); res.Code != fabric.OK {
		return nil
	}
	if res.Code = mayXattr(who, &n.Attr, name); res.Code != fabric.OK {
		return nil
	}
	n.xattrs(m.v)
	return n
}

func (m *machine) setXattr(o *SetXattr) (res OpResult) {
	n := m.xattrNode(o.Ino, &o.Who, o.Name, len(o.Value), &res)
	if n == nil {
		return res
	}
	i, exists := slices.BinarySearchFunc(n.Xattrs, o.Name, byName)
	switch {
	case exists && o.Mode == fabric.XattrCreate:
		res.Code = fabric.Exist
		return res
	case !exists && o.Mode == fabric.XattrReplace:
		res.Code = fabric.NoXattr
		return res
	case exists:
		n.Xattrs[i].Value = o.Value
	default:
		n.Xattrs = slices.Insert(n.Xattrs, i, Xattr{o.Name, o.Value})
	}
	if res.Code = checkXattrs(n.Xattrs); res.Code != fabric.OK {
		return res
	}
	m.putXattrs(n, &res)
	return res
}

func (m *machine) removeXattr(o *RemoveXattr) (res OpResult) {
	n := m.xattrNode(o.Ino, &o.Who, o.Name, 0, &res)
	if n == nil {
		return res
	}
	i, exists := slices.BinarySearchFunc(n.Xattrs, o.Name, byName)
	if !exists {
		res.Code = fabric.NoXattr
		return res
	}
	n.Xattrs = slices.Delete(n.Xattrs, i, i+1)
	m.putXattrs(n, &res)
	return res
}

// putXattrs stores changed attributes and the inode.
func (m *machine) putXattrs(n *node, res *OpResult) {
	m.storeXattrs(n)
	m.touch(n)
	m.put(n)
	res.Attr = n.Attr
}

func (m *machine) storeXattrs(n *node) {
	if len(n.Xattrs) == 0 {
		m.v.Delete(inoKey(keyXattrs, n.Ino))
		return
	}
	save(m.v, inoKey(keyXattrs, n.Ino), func(w *writer) { w.xattrs(n.Xattrs) })
}
