package namespace

import (
	"encoding/binary"

	"github.com/spokefs/spokefs/fabric"
)

// dir reads a directory and fills what a result says of it even when the op fails (case N8).
func (m *machine) dir(ino fabric.Ino, change *fabric.Change) (*node, fabric.Code) {
	n, ok := getNode(m.v, ino)
	if !ok {
		return nil, fabric.Stale
	}
	if n.Type != fabric.TypeDir {
		return nil, fabric.NotDir
	}
	change.Before, change.After = n.Version(), n.Attr
	if n.Nlink == 0 {
		return nil, fabric.Stale
	}
	return n, fabric.OK
}

// mayEdit says whether the caller may add names to, or take them from, a directory.
func mayEdit(who *fabric.Cred, dir *node) fabric.Code {
	want := fabric.PermWrite | fabric.PermExec
	if who.May(&dir.Attr, want) != want {
		return fabric.Denied
	}
	return fabric.OK
}

// sticky says whether a sticky directory keeps the caller from taking a name of n away.
func sticky(who *fabric.Cred, dir, n *node) fabric.Code {
	if dir.Mode&fabric.ModeSticky != 0 && !who.Owns(&dir.Attr) && !who.Owns(&n.Attr) {
		return fabric.NotOwner
	}
	return fabric.OK
}

// changed records that a directory's entries changed.
func (m *machine) changed(dir *node, change *fabric.Change) {
	m.touch(dir)
	dir.Mtime = dir.Ctime
	m.put(dir)
	change.After = dir.Attr
}

// bind adds a dentry; the caller stores dir after.
func (m *machine) bind(dir *node, name string, ino fabric.Ino) fabric.Cookie {
	c := dir.next
	dir.next++
	v := binary.BigEndian.AppendUint64(nil, uint64(ino))
	m.v.Set(dentryKey(dir.Ino, name), binary.BigEndian.AppendUint64(v, uint64(c)))
	m.v.Set(cookieKey(dir.Ino, c), []byte(name))
	return c
}

func (m *machine) unbind(dir *node, name string, c fabric.Cookie) {
	m.v.Delete(dentryKey(dir.Ino, name))
	m.v.Delete(cookieKey(dir.Ino, c))
}

// child reads the inode a name stands for.
func (m *machine) child(dir *node, name string) (n *node, c fabric.Cookie, ok bool) {
	ino, c, ok := GetDentry(m.v, dir.Ino, name)
	if !ok {
		return nil, 0, false
	}
	n, ok = getNode(m.v, ino)
	if !ok {
		damaged(dentryKey(dir.Ino, name))
	}
	return n, c, true
}

func (m *machine) make(o *Make) (res OpResult) {
	dir, code := m.dir(o.Dir, &res.Dir)
	if res.Code = code; code != fabric.OK {
		return res
	}
	if o.Name != "" || o.Spec.Type != fabric.TypeFile {
		if res.Code = fabric.CheckName(o.Name); res.Code != fabric.OK {
			return res
		}
	}
	if res.Code = checkSpec(o); res.Code != fabric.OK {
		return res
	}
	if o.Name != "" {
		if old, c, ok := m.child(dir, o.Name); ok {
			if o.Spec.Verifier != 0 && old.Type == fabric.TypeFile && old.Verifier == o.Spec.Verifier {
				res.Attr, res.Cookie = old.Attr, c
				return res
			}
			res.Code = fabric.Exist
			return res
		}
	}
	if res.Code = mayEdit(&o.Who, dir); res.Code != fabric.OK {
		return res
	}
	if o.Spec.Type == fabric.TypeDir && dir.Nlink >= fabric.MaxLinks {
		res.Code = fabric.TooManyLinks
		return res
	}
	n := m.newNode(o, dir)
	m.store(n, o.Content)
	if o.Name == "" {
		m.hold(m.sess.ID, n.Ino)
	} else {
		res.Cookie = m.bind(dir, o.Name, n.Ino)
		if n.Type == fabric.TypeDir {
			dir.Nlink++
		}
		m.changed(dir, &res.Dir)
	}
	if o.WantW && n.Type == fabric.TypeFile {
		m.setW(m.sess.ID, n.Ino)
		res.W = true
	}
	res.Attr = n.Attr
	return res
}

// checkSpec says whether what is to be made makes sense.
func checkSpec(o *Make) fabric.Code {
	s := &o.Spec
	switch s.Type {
	case fabric.TypeSymlink:
		if len(s.Target) > fabric.MaxTarget {
			return fabric.NameTooLong
		}
		if s.Target == "" {
			return fabric.Invalid
		}
	case fabric.TypeFile, fabric.TypeDir, fabric.TypeFifo, fabric.TypeSocket, fabric.TypeChar, fabric.TypeBlock:
	default:
		return fabric.Invalid
	}
	c := &o.Content
	if c.Inline == nil && (c.Size != 0 || !c.Root.IsZero()) {
		return fabric.Invalid // chunks come by Publish
	}
	if c.Inline != nil && (s.Type != fabric.TypeFile || len(c.Inline) > fabric.MaxInline || c.Size != int64(len(c.Inline))) {
		return fabric.Invalid
	}
	return checkXattrs(o.Xattrs)
}

// newNode makes the inode: the caller's, in the directory's group where that has setgid.
func (m *machine) newNode(o *Make, dir *node) *node {
	n := &node{}
	s := &o.Spec
	n.Attr = fabric.Attr{
		Ino: fabric.Ino(m.c.nextIno), Type: s.Type, Mode: s.Mode & fabric.ModeAll, UID: o.Who.UID, GID: o.Who.GID, Nlink: 1,
		Atime: m.c.wall, Mtime: m.c.wall, Ctime: m.c.wall, Btime: m.c.wall, Iver: 1,
	}
	m.c.nextIno++
	m.c.inodes++
	if dir.Mode&fabric.ModeSetgid != 0 {
		n.GID = dir.GID
		if n.Type == fabric.TypeDir {
			n.Mode |= fabric.ModeSetgid
		}
	}
	switch s.Type {
	case fabric.TypeDir:
		n.Nlink, n.Parent, n.next = 2, dir.Ino, fabric.FirstCookie
	case fabric.TypeSymlink:
		n.Mode, n.Target, n.Size = fabric.ModePerm, s.Target, int64(len(s.Target))
	case fabric.TypeChar, fabric.TypeBlock:
		n.Rdev = s.Rdev
	case fabric.TypeFile:
		n.Verifier = s.Verifier
		if o.Name == "" {
			n.Nlink = 0
		}
	}
	if n.Xattrs = o.Xattrs; len(n.Xattrs) > 0 {
		save(m.v, inoKey(keyXattrs, n.Ino), func(w *writer) { w.xattrs(n.Xattrs) })
	}
	return n
}

func (m *machine) link(o *Link) (res OpResult) {
	dir, code := m.dir(o.Dir, &res.Dir)
	if res.Code = code; code != fabric.OK {
		return res
	}
	n, ok := getNode(m.v, o.Ino)
	if !ok {
		res.Code = fabric.Stale
		return res
	}
	res.Before, res.Attr = n.Version(), n.Attr
	if res.Code = m.mayLink(o, dir, n); res.Code != fabric.OK {
		return res
	}
	if _, _, exists := GetDentry(m.v, dir.Ino, o.Name); exists {
		res.Code = fabric.Exist
		return res
	}
	m.relink(n, &res)
	res.Cookie = m.bind(dir, o.Name, n.Ino)
	m.changed(dir, &res.Dir)
	return res
}

// mayLink says whether a name may be added to n.
func (m *machine) mayLink(o *Link, dir, n *node) fabric.Code {
	if n.Type == fabric.TypeDir {
		return fabric.NotOwner // as link(2) has it: EPERM
	}
	if n.Nlink >= fabric.MaxLinks {
		return fabric.TooManyLinks
	}
	if n.Nlink == 0 {
		if _, mine := m.v.Get(holdKey(n.Ino, m.sess.ID)); !mine {
			return fabric.Stale
		}
	}
	if c := fabric.CheckName(o.Name); c != fabric.OK {
		return c
	}
	return mayEdit(&o.Who, dir)
}

// relink counts one more name of n.
func (m *machine) relink(n *node, res *OpResult) {
	if n.Nlink == 0 {
		m.unholdAll(n.Ino)
	}
	n.Nlink++
	m.touch(n)
	m.put(n)
	res.Attr = n.Attr
}

// unlink counts one name less, after its dentry is gone, and tells who holds what is left.
func (m *machine) unlink(n *node, holders []fabric.SessionID, res *OpResult) {
	m.touch(n)
	if n.Type == fabric.TypeDir {
		n.Nlink = 0
	} else {
		n.Nlink--
	}
	res.Lost = n.Attr
	if n.Nlink > 0 {
		m.put(n)
		return
	}
	kept := false
	for _, id := range holders {
		if _, live := GetSession(m.v, id); live && n.Type != fabric.TypeDir {
			m.hold(id, n.Ino)
			kept = true
			res.Held = res.Held || id == m.sess.ID
		}
	}
	m.put(n)
	if !kept {
		m.free(n)
	}
}

// meets says whether what a name stands for (nil: nothing) is what a condition asks.
func meets(c fabric.Cond, n *node) bool {
	if c.Absent && n != nil {
		return false
	}
	if c.Ino == 0 {
		return true
	}
	return n != nil && n.Ino == c.Ino && (c.Iver == 0 || n.Iver == c.Iver)
}

func (m *machine) replace(o *Replace) (res OpResult) {
	dir, code := m.dir(o.Dir, &res.Dir)
	if res.Code = code; code != fabric.OK {
		return res
	}
	n, ok := getNode(m.v, o.Ino)
	if !ok {
		res.Code = fabric.Stale
		return res
	}
	res.Before, res.Attr = n.Version(), n.Attr
	if res.Code = m.mayLink(&Link{Ino: o.Ino, Name: o.Name, Who: o.Who}, dir, n); res.Code != fabric.OK {
		return res
	}
	old, cookie, exists := m.child(dir, o.Name)
	switch {
	case !meets(o.Cond, old):
		res.Code = fabric.Precondition
	case !exists:
	case old.Type == fabric.TypeDir:
		res.Code = fabric.IsDir
	case old.Ino == n.Ino:
		res.Cookie = cookie
		return res
	default:
		res.Code = sticky(&o.Who, dir, old)
	}
	if res.Code != fabric.OK {
		return res
	}
	if exists {
		m.unbind(dir, o.Name, cookie)
		m.unlink(old, o.Holders, &res)
	}
	m.relink(n, &res)
	res.Cookie = m.bind(dir, o.Name, n.Ino)
	m.changed(dir, &res.Dir)
	return res
}

func (m *machine) remove(o *Remove) (res OpResult) {
	dir, code := m.dir(o.Dir, &res.Dir)
	if res.Code = code; code != fabric.OK {
		return res
	}
	if res.Code = fabric.CheckName(o.Name); res.Code != fabric.OK {
		return res
	}
	if o.Who.May(&dir.Attr, fabric.PermExec) == 0 {
		res.Code = fabric.Denied
		return res
	}
	n, cookie, ok := m.child(dir, o.Name)
	switch {
	case !ok && (o.Cond.Ino != 0):
		res.Code = fabric.Precondition
	case !ok:
		res.Code = fabric.NotExist
	case !meets(o.Cond, n):
		res.Code = fabric.Precondition
	default:
		res.Code = m.mayRemove(o, dir, n)
	}
	if res.Code != fabric.OK {
		return res
	}
	m.unbind(dir, o.Name, cookie)
	if n.Type == fabric.TypeDir {
		dir.Nlink--
	}
	m.changed(dir, &res.Dir)
	m.unlink(n, o.Holders, &res)
	return res
}

func (m *machine) mayRemove(o *Remove, dir, n *node) fabric.Code {
	if c := mayEdit(&o.Who, dir); c != fabric.OK {
		return c
	}
	if c := sticky(&o.Who, dir, n); c != fabric.OK {
		return c
	}
	switch isDir := n.Type == fabric.TypeDir; {
	case o.Kind == fabric.RemoveFile && isDir:
		return fabric.IsDir
	case o.Kind == fabric.RemoveDir && !isDir:
		return fabric.NotDir
	case isDir && !m.empty(n.Ino):
		return fabric.NotEmpty
	}
	return fabric.OK
}

func (m *machine) empty(dir fabric.Ino) bool {
	from := inoKey(keyDentry, dir)
	for range m.v.Scan(from, after(from)) {
		return false
	}
	return true
}
