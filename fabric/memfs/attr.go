package memfs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spokefs/spokefs/fabric"
)

// SetAttr implements fabric.FS.
func (v *view) SetAttr(ctx context.Context, ino fabric.Ino, set fabric.SetAttr) (fabric.Change, error) {
	ch, err := v.setAttr(ino, &set)
	if err == nil {
		v.s.tell(ctx, v.who.From, fabric.Key{Kind: fabric.KeyPages, Ino: ino})
	}
	return ch, err
}

func (v *view) setAttr(ino fabric.Ino, set *fabric.SetAttr) (ch fabric.Change, err error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if err := v.writes(); err != nil {
		return ch, err
	}
	n, err := v.get(ino)
	if err != nil {
		return ch, err
	}
	ch.Before, ch.After = n.Version(), n.Attr
	if set.Set&fabric.SetGuard != 0 && set.Guard != n.Ctime {
		return ch, fabric.Precondition
	}
	if err := v.maySet(n, set); err != nil {
		return ch, err
	}
	if set.Set&^fabric.SetGuard == 0 {
		return ch, nil
	}
	if set.Set&fabric.SetSize != 0 {
		v.cut(n, set.Size)
	}
	v.s.touch(n)
	v.set(n, set)
	ch.After = n.Attr
	return ch, nil
}

// maySet says whether the caller may make all of the changes.
func (v *view) maySet(n *node, set *fabric.SetAttr) error {
	owns, root := v.who.Owns(&n.Attr), v.who.UID == 0
	writes := owns || v.may(n, fabric.PermWrite) == nil
	if set.Set&fabric.SetSize != 0 {
		switch {
		case n.Type == fabric.TypeDir:
			return fabric.IsDir
		case n.Type != fabric.TypeFile || set.Size < 0:
			return fabric.Invalid
		case set.Size > fabric.MaxFileSize:
			return fabric.TooBig
		case !writes:
			return fabric.Denied
		}
	}
	switch {
	case set.Set&(fabric.SetMode|fabric.SetUID|fabric.SetGID|fabric.SetAtime|fabric.SetMtime) != 0 && !owns:
		return fabric.NotOwner
	case set.Set&fabric.SetUID != 0 && set.UID != n.UID && !root:
		return fabric.NotOwner
	case set.Set&fabric.SetGID != 0 && set.GID != n.GID && !root && !v.who.In(set.GID):
		return fabric.NotOwner
	case set.Set&(fabric.SetAtimeNow|fabric.SetMtimeNow) != 0 && !writes:
		return fabric.Denied
	}
	return nil
}

// set makes the changes but the size's.
func (v *view) set(n *node, set *fabric.SetAttr) {
	has := func(b fabric.SetBits) bool { return set.Set&b != 0 }
	if has(fabric.SetUID) {
		n.UID = set.UID
	}
	if has(fabric.SetGID) {
		n.GID = set.GID
	}
	if n.Type != fabric.TypeDir && (has(fabric.SetKillPriv) || has(fabric.SetUID|fabric.SetGID) && v.who.UID != 0) {
		killPriv(n)
	}
	if has(fabric.SetMode) {
		n.Mode = set.Mode & fabric.ModeAll
		if n.Type != fabric.TypeDir && v.who.UID != 0 && !v.who.In(n.GID) {
			n.Mode &^= fabric.ModeSetgid
		}
	}
	if has(fabric.SetAtime) {
		n.Atime = set.Atime
	}
	if has(fabric.SetMtime) {
		n.Mtime = set.Mtime
	}
	if has(fabric.SetAtimeNow) {
		n.Atime = n.Ctime
	}
	if has(fabric.SetMtimeNow) {
		n.Mtime = n.Ctime
	}
}

// killPriv drops setuid, and setgid where it is no mark of mandatory locking.
func killPriv(n *node) {
	n.Mode &^= fabric.ModeSetuid
	if n.Mode&0o010 != 0 {
		n.Mode &^= fabric.ModeSetgid
	}
}

// Xattr implements fabric.FS.
func (v *view) Xattr(_ context.Context, ino fabric.Ino, name string, p []byte) (int, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n, err := v.get(ino)
	if err != nil {
		return 0, err
	}
	value, ok := n.xattrs[name]
	switch {
	case !ok:
		return 0, fabric.NoXattr
	case p != nil && len(p) < len(value):
		return 0, fabric.Invalid
	}
	copy(p, value)
	return len(value), nil
}

// ListXattr implements fabric.FS.
func (v *view) ListXattr(_ context.Context, ino fabric.Ino) ([]string, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n, err := v.get(ino)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.xattrs)), nil
}

// mayXattr gives an inode whose attribute of this name the caller may set or remove.
func (v *view) mayXattr(ino fabric.Ino, name string, size int) (*node, error) {
	if err := v.writes(); err != nil {
		return nil, err
	}
	n, err := v.get(ino)
	switch {
	case err != nil:
		return nil, err
	case name == "" || strings.Contains(name, "\x00"):
		return nil, fabric.Invalid
	case len(name) > fabric.MaxXattrName:
		return nil, fabric.NameTooLong
	case size > fabric.MaxXattrValue:
		return nil, fabric.TooBig
	case v.who.UID == 0:
		return n, nil
	case !strings.HasPrefix(name, "user."), n.Type != fabric.TypeFile && n.Type != fabric.TypeDir:
		return nil, fabric.NotOwner
	case !v.who.Owns(&n.Attr):
		return n, v.may(n, fabric.PermWrite)
	}
	return n, nil
}

// SetXattr implements fabric.FS.
func (v *view) SetXattr(_ context.Context, ino fabric.Ino, name string, value []byte, m fabric.XattrMode) error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n, err := v.mayXattr(ino, name, len(value))
	if err != nil {
		return err
	}
	old, ok := n.xattrs[name]
	switch {
	case ok && m == fabric.XattrCreate:
		return fabric.Exist
	case !ok && m == fabric.XattrReplace:
		return fabric.NoXattr
	}
	size := len(name) + len(value)
	for k, x := range n.xattrs {
		size += len(k) + len(x)
	}
	if ok {
		size -= len(name) + len(old)
	}
	if size > fabric.MaxXattrs {
		return fabric.NoSpace
	}
	n.xattrs[name] = slices.Clone(value)
	v.s.touch(n)
	return nil
}

// RemoveXattr implements fabric.FS.
func (v *view) RemoveXattr(_ context.Context, ino fabric.Ino, name string) error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n, err := v.mayXattr(ino, name, 0)
	if err != nil {
		return err
	}
	if _, ok := n.xattrs[name]; !ok {
		return fabric.NoXattr
	}
	delete(n.xattrs, name)
	v.s.touch(n)
	return nil
}
