package namespace

import "github.com/spokefs/spokefs/fabric"

func (m *machine) rename(o *Rename) (res OpResult) {
	from, code := m.dir(o.From, &res.Dir)
	if res.Code = code; code != fabric.OK {
		return res
	}
	to := from
	if o.To != o.From {
		if to, res.Code = m.dir(o.To, &res.Dir2); res.Code != fabric.OK {
			return res
		}
	} else {
		res.Dir2 = res.Dir
	}
	if o.Mode > fabric.RenameNoReplace {
		res.Code = fabric.Unsupported
		return res
	}
	for _, name := range []string{o.Old, o.Name} {
		if res.Code = fabric.CheckName(name); res.Code != fabric.OK {
			return res
		}
	}
	if res.Code = mayEdit(&o.Who, from); res.Code == fabric.OK {
		res.Code = mayEdit(&o.Who, to)
	}
	if res.Code != fabric.OK {
		return res
	}
	n, cookie, ok := m.child(from, o.Old)
	if !ok {
		res.Code = fabric.NotExist
		return res
	}
	res.Before, res.Attr = n.Version(), n.Attr
	old, oldCookie, exists := m.child(to, o.Name)
	if !exists {
		old = nil
	}
	if exists && old.Ino == n.Ino && o.Mode == fabric.RenameReplace {
		res.Cookie = oldCookie
		return res // two names of one file: nothing happens
	}
	if res.Code = m.mayRename(o, from, to, n, old); res.Code != fabric.OK {
		return res
	}
	m.unbind(from, o.Old, cookie)
	if exists {
		m.unbind(to, o.Name, oldCookie)
		if old.Type == fabric.TypeDir {
			to.Nlink--
		}
		m.unlink(old, o.Holders, &res)
	}
	res.Cookie = m.bind(to, o.Name, n.Ino)
	if n.Type == fabric.TypeDir && from != to {
		from.Nlink--
		to.Nlink++
		n.Parent = to.Ino
	}
	m.touch(n)
	m.put(n)
	res.Attr = n.Attr
	m.changed(from, &res.Dir)
	if from != to {
		m.changed(to, &res.Dir2)
	} else {
		res.Dir2 = res.Dir
	}
	return res
}

// mayRename says whether n may move from one directory to another and replace old (nil: nothing).
func (m *machine) mayRename(o *Rename, from, to, n, old *node) fabric.Code {
	if c := sticky(&o.Who, from, n); c != fabric.OK {
		return c
	}
	isDir := n.Type == fabric.TypeDir
	if isDir && from != to {
		if o.Who.May(&n.Attr, fabric.PermWrite) == 0 {
			return fabric.Denied // its .. changes
		}
		if to.Nlink >= fabric.MaxLinks && old == nil {
			return fabric.TooManyLinks
		}
	}
	if isDir {
		if c := m.outside(n.Ino, to); c != fabric.OK {
			return c
		}
	}
	if old == nil {
		return fabric.OK
	}
	if o.Mode == fabric.RenameNoReplace {
		return fabric.Exist
	}
	if c := sticky(&o.Who, to, old); c != fabric.OK {
		return c
	}
	switch oldIsDir := old.Type == fabric.TypeDir; {
	case isDir && !oldIsDir:
		return fabric.NotDir
	case !isDir && oldIsDir:
		return fabric.IsDir
	case oldIsDir && !m.empty(old.Ino):
		return fabric.NotEmpty
	}
	return fabric.OK
}

// outside walks from dir up to the root and refuses to meet ino (A31).
func (m *machine) outside(ino fabric.Ino, dir *node) fabric.Code {
	for range fabric.MaxDepth {
		if dir.Ino == ino {
			return fabric.Invalid
		}
		if dir.Ino == fabric.RootIno {
			return fabric.OK
		}
		up, ok := getNode(m.v, dir.Parent)
		if !ok {
			damaged(inoKey(keyInode, dir.Parent))
		}
		dir = up
	}
	return fabric.Loop
}
