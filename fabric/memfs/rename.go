package memfs

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
)

// Rename implements fabric.FS.
func (v *view) Rename(ctx context.Context, from fabric.Ino, old string, to fabric.Ino, name string, m fabric.RenameMode) (src, dst fabric.Change, err error) {
	src, dst, keys, err := v.rename(from, old, to, name, m)
	if err == nil {
		v.s.tell(ctx, v.who.From, keys...)
	}
	return src, dst, err
}

func (v *view) rename(from fabric.Ino, old string, to fabric.Ino, name string, m fabric.RenameMode) (src, dst fabric.Change, keys []fabric.Key, err error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	a, src, err := v.edit(from)
	if err != nil {
		return src, dst, nil, err
	}
	b, dst, err := v.edit(to)
	if err != nil {
		return src, dst, nil, err
	}
	if m > fabric.RenameNoReplace {
		return src, dst, nil, fabric.Unsupported
	}
	n, target, err := v.ends(a, old, b, name)
	if err != nil {
		return src, dst, nil, err
	}
	if n == target && m == fabric.RenameReplace {
		return src, dst, nil, nil // two names of one file: nothing happens
	}
	if err := v.mayRename(a, b, n, target, m); err != nil {
		return src, dst, nil, err
	}
	keys = append(told(from, old, n.Ino), told(to, name)...)
	unbind(a, old, n)
	if target != nil {
		unbind(b, name, target)
		v.unlink(target)
		keys = append(keys, fabric.Key{Kind: fabric.KeyAttr, Ino: target.Ino})
	}
	bind(b, name, n)
	v.s.touch(n)
	v.changed(a, &src)
	if dst = src; a != b {
		dst.Before = b.Version()
		v.changed(b, &dst)
	}
	return src, dst, keys, nil
}

// ends gives what is to be moved and what is in its place (nil: nothing).
func (v *view) ends(a *node, old string, b *node, name string) (n, target *node, err error) {
	for _, c := range []fabric.Code{fabric.CheckName(old), fabric.CheckName(name)} {
		if c != fabric.OK {
			return nil, nil, c
		}
	}
	if err := v.mayEdit(a); err != nil {
		return nil, nil, err
	}
	if err := v.mayEdit(b); err != nil {
		return nil, nil, err
	}
	if n = v.at(a, old); n == nil {
		return nil, nil, fabric.NotExist
	}
	return n, v.at(b, name), nil
}

// mayRename says whether n may move from a to b, in place of target.
func (v *view) mayRename(a, b, n, target *node, m fabric.RenameMode) error {
	if err := v.sticky(a, n); err != nil {
		return err
	}
	if n.Type == fabric.TypeDir {
		if err := v.mayMoveDir(a, b, n, target); err != nil {
			return err
		}
	}
	if target == nil {
		return nil
	}
	if m == fabric.RenameNoReplace {
		return fabric.Exist
	}
	if err := v.sticky(b, target); err != nil {
		return err
	}
	isDir, onDir := n.Type == fabric.TypeDir, target.Type == fabric.TypeDir
	switch {
	case isDir && !onDir:
		return fabric.NotDir
	case !isDir && onDir:
		return fabric.IsDir
	case len(target.entries) > 0:
		return fabric.NotEmpty
	}
	return nil
}

// mayMoveDir refuses to move a directory below itself; one that gets another parent is changed.
func (v *view) mayMoveDir(a, b, n, target *node) error {
	if a != b {
		if err := v.may(n, fabric.PermWrite); err != nil {
			return err
		}
		if b.Nlink >= fabric.MaxLinks && target == nil {
			return fabric.TooManyLinks
		}
	}
	for depth, up := 0, b; ; depth, up = depth+1, v.s.nodes[up.Parent] {
		switch {
		case up == n:
			return fabric.Invalid
		case up.Ino == fabric.RootIno:
			return nil
		case depth == fabric.MaxDepth:
			return fabric.Loop
		}
	}
}
