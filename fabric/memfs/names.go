package memfs

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
)

// edit gives a directory and what a change of its names starts from; the permission is asked for by
// mayEdit, after the errors that come before it.
func (v *view) edit(dir fabric.Ino) (*node, fabric.Change, error) {
	if err := v.writes(); err != nil {
		return nil, fabric.Change{}, err
	}
	d, err := v.dir(dir)
	if err != nil {
		return nil, fabric.Change{}, err
	}
	return d, fabric.Change{Before: d.Version(), After: d.Attr}, nil
}

func (v *view) mayEdit(d *node) error { return v.may(d, fabric.PermWrite|fabric.PermExec) }

// sticky keeps a caller from taking away the names of others in a sticky directory.
func (v *view) sticky(d, n *node) error {
	if d.Mode&fabric.ModeSticky != 0 && !v.who.Owns(&d.Attr) && !v.who.Owns(&n.Attr) {
		return fabric.NotOwner
	}
	return nil
}

// bind adds a name and unbind takes one away; the directory's times move with changed.
func bind(d *node, name string, n *node) {
	d.entries[name] = entry{n.Ino, d.cookie}
	d.cookie++
	if n.Type == fabric.TypeDir {
		d.Nlink++
		n.Parent = d.Ino
	}
}

func unbind(d *node, name string, n *node) {
	delete(d.entries, name)
	if n.Type == fabric.TypeDir {
		d.Nlink--
	}
}

func (v *view) changed(d *node, ch *fabric.Change) {
	v.s.touch(d)
	d.Mtime = d.Ctime
	ch.After = d.Attr
}

// unlink counts one name less.
func (v *view) unlink(n *node) {
	v.s.touch(n)
	if n.Nlink--; n.Type == fabric.TypeDir {
		n.Nlink = 0
	}
	v.s.drop(n)
}

// told are the keys of a changed name.
func told(dir fabric.Ino, name string, inos ...fabric.Ino) []fabric.Key {
	keys := []fabric.Key{{Kind: fabric.KeyEntry, Ino: dir, Name: name}, {Kind: fabric.KeyAttr, Ino: dir}}
	for _, ino := range inos {
		keys = append(keys, fabric.Key{Kind: fabric.KeyAttr, Ino: ino})
	}
	return keys
}

// Make implements fabric.FS.
func (v *view) Make(ctx context.Context, dir fabric.Ino, name string, spec fabric.NodeSpec) (fabric.Attr, fabric.Change, error) {
	a, ch, err := v.make(dir, name, spec)
	if err == nil {
		v.s.tell(ctx, v.who.From, told(dir, name, a.Ino)...)
	}
	return a, ch, err
}

func (v *view) make(dir fabric.Ino, name string, spec fabric.NodeSpec) (fabric.Attr, fabric.Change, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	d, ch, err := v.edit(dir)
	if err == nil && (name != "" || spec.Type != fabric.TypeFile) {
		err = check(fabric.CheckName(name))
	}
	if err == nil {
		err = checkSpec(&spec)
	}
	if err != nil {
		return fabric.Attr{}, ch, err
	}
	if e, ok := d.entries[name]; ok {
		old := v.s.nodes[e.ino]
		if spec.Verifier != 0 && old.Type == fabric.TypeFile && old.verifier == spec.Verifier {
			return old.Attr, ch, nil
		}
		return fabric.Attr{}, ch, fabric.Exist
	}
	if err := v.mayEdit(d); err != nil {
		return fabric.Attr{}, ch, err
	}
	if spec.Type == fabric.TypeDir && d.Nlink >= fabric.MaxLinks {
		return fabric.Attr{}, ch, fabric.TooManyLinks
	}
	n := v.fill(v.s.newNode(spec.Type), d, &spec)
	if name == "" {
		n.unnamed, n.Nlink = true, 0
		return n.Attr, ch, nil
	}
	bind(d, name, n)
	v.changed(d, &ch)
	return n.Attr, ch, nil
}

func checkSpec(spec *fabric.NodeSpec) error {
	switch spec.Type {
	case fabric.TypeSymlink:
		if spec.Target == "" {
			return fabric.Invalid
		}
		if len(spec.Target) > fabric.MaxTarget {
			return fabric.NameTooLong
		}
	case fabric.TypeFile, fabric.TypeDir, fabric.TypeFifo, fabric.TypeSocket, fabric.TypeChar, fabric.TypeBlock:
	default:
		return fabric.Invalid
	}
	return nil
}

// fill gives a new inode its owner and kind.
func (v *view) fill(n, d *node, spec *fabric.NodeSpec) *node {
	n.Mode, n.UID, n.GID = spec.Mode&fabric.ModeAll, v.who.UID, v.who.GID
	if d.Mode&fabric.ModeSetgid != 0 {
		n.GID = d.GID
		if n.Type == fabric.TypeDir {
			n.Mode |= fabric.ModeSetgid
		}
	}
	switch n.Type {
	case fabric.TypeFile:
		n.verifier = spec.Verifier
	case fabric.TypeSymlink:
		n.Mode, n.target, n.Size = fabric.ModePerm, spec.Target, int64(len(spec.Target))
	case fabric.TypeChar, fabric.TypeBlock:
		n.Rdev = spec.Rdev
	}
	return n
}

// linkable gives an inode that may have one more name in a directory.
func (v *view) linkable(ino fabric.Ino, d *node, name string) (*node, error) {
	n, err := v.get(ino)
	switch {
	case err != nil:
		return nil, err
	case n.Type == fabric.TypeDir:
		return nil, fabric.NotOwner // EPERM of link(2)
	case n.Nlink >= fabric.MaxLinks:
		return nil, fabric.TooManyLinks
	}
	if err := check(fabric.CheckName(name)); err != nil {
		return nil, err
	}
	return n, v.mayEdit(d)
}

// relink counts one name more.
func (v *view) relink(n *node) {
	n.Nlink++
	n.unnamed = false
	v.s.touch(n)
}

// Link implements fabric.FS.
func (v *view) Link(ctx context.Context, ino, dir fabric.Ino, name string) (fabric.Attr, fabric.Change, error) {
	a, ch, err := v.link(ino, dir, name)
	if err == nil {
		v.s.tell(ctx, v.who.From, told(dir, name, ino)...)
	}
	return a, ch, err
}

func (v *view) link(ino, dir fabric.Ino, name string) (fabric.Attr, fabric.Change, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	d, ch, err := v.edit(dir)
	if err != nil {
		return fabric.Attr{}, ch, err
	}
	n, err := v.linkable(ino, d, name)
	if err != nil {
		return fabric.Attr{}, ch, err
	}
	if _, ok := d.entries[name]; ok {
		return fabric.Attr{}, ch, fabric.Exist
	}
	v.relink(n)
	bind(d, name, n)
	v.changed(d, &ch)
	return n.Attr, ch, nil
}

// Discard implements fabric.FS.
func (v *view) Discard(_ context.Context, ino fabric.Ino) error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n := v.s.nodes[ino]
	if n == nil || !n.unnamed {
		return fabric.Invalid
	}
	n.unnamed = false
	v.s.drop(n)
	return nil
}

// meets says whether what a name is (nil: nothing) is what a condition asks.
func meets(c fabric.Cond, n *node) bool {
	switch {
	case c.Absent && n != nil:
		return false
	case c.Ino == 0:
		return true
	case n == nil:
		return false
	}
	return n.Ino == c.Ino && (c.Iver == 0 || c.Iver == n.Iver)
}

// at gives what a name is, nil if nothing.
func (v *view) at(d *node, name string) *node { return v.s.nodes[d.entries[name].ino] }

// Replace implements fabric.FS.
func (v *view) Replace(ctx context.Context, ino, dir fabric.Ino, name string, cond fabric.Cond) (fabric.Attr, fabric.Change, error) {
	a, ch, old, err := v.replace(ino, dir, name, cond)
	if err == nil {
		v.s.tell(ctx, v.who.From, told(dir, name, ino, old)...)
	}
	return a, ch, err
}

func (v *view) replace(ino, dir fabric.Ino, name string, cond fabric.Cond) (a fabric.Attr, ch fabric.Change, lost fabric.Ino, err error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	d, ch, err := v.edit(dir)
	if err != nil {
		return a, ch, 0, err
	}
	n, err := v.linkable(ino, d, name)
	if err != nil {
		return a, ch, 0, err
	}
	old := v.at(d, name)
	switch {
	case !meets(cond, old):
		return a, ch, 0, fabric.Precondition
	case old == nil:
	case old.Type == fabric.TypeDir:
		return a, ch, 0, fabric.IsDir
	case old == n:
		return n.Attr, ch, 0, nil
	default:
		if err := v.sticky(d, old); err != nil {
			return a, ch, 0, err
		}
		lost = old.Ino
		unbind(d, name, old)
		v.unlink(old)
	}
	v.relink(n)
	bind(d, name, n)
	v.changed(d, &ch)
	return n.Attr, ch, lost, nil
}

// Remove implements fabric.FS.
func (v *view) Remove(ctx context.Context, dir fabric.Ino, name string, k fabric.RemoveKind, cond fabric.Cond) (fabric.Change, error) {
	ch, ino, err := v.remove(dir, name, k, cond)
	if err == nil {
		v.s.tell(ctx, v.who.From, told(dir, name, ino)...)
	}
	return ch, err
}

func (v *view) remove(dir fabric.Ino, name string, k fabric.RemoveKind, cond fabric.Cond) (ch fabric.Change, lost fabric.Ino, err error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	d, ch, err := v.edit(dir)
	if err == nil {
		err = check(fabric.CheckName(name))
	}
	if err == nil {
		err = v.may(d, fabric.PermExec)
	}
	if err != nil {
		return ch, 0, err
	}
	n := v.at(d, name)
	switch {
	case n == nil && cond.Ino == 0:
		err = fabric.NotExist
	case !meets(cond, n):
		err = fabric.Precondition
	default:
		err = v.mayRemove(d, n, k)
	}
	if err != nil {
		return ch, 0, err
	}
	unbind(d, name, n)
	v.changed(d, &ch)
	v.unlink(n)
	return ch, n.Ino, nil
}

func (v *view) mayRemove(d, n *node, k fabric.RemoveKind) error {
	if err := v.mayEdit(d); err != nil {
		return err
	}
	if err := v.sticky(d, n); err != nil {
		return err
	}
	switch isDir := n.Type == fabric.TypeDir; {
	case isDir && k == fabric.RemoveFile:
		return fabric.IsDir
	case !isDir && k == fabric.RemoveDir:
		return fabric.NotDir
	case len(n.entries) > 0:
		return fabric.NotEmpty
	}
	return nil
}
