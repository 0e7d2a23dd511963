package memfs

import (
	"context"
	"iter"
	"slices"

	"github.com/spokefs/spokefs/fabric"
)

// view is one caller's fabric.FS.
type view struct {
	p   *portal
	s   *Store
	who fabric.Cred
}

// Root implements fabric.FS.
func (v *view) Root() fabric.Ino { return v.p.root }

// StatFS implements fabric.FS.
func (v *view) StatFS(context.Context) (fabric.Usage, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	u := fabric.Usage{Bytes: capacity, FreeBytes: capacity, Inodes: capacityInodes, FreeInodes: capacityInodes - int64(len(v.s.nodes))}
	for _, n := range v.s.nodes {
		u.FreeBytes -= n.Used
	}
	return u, nil
}

// get gives an inode. mu is held, here and in all helpers below.
func (v *view) get(ino fabric.Ino) (*node, error) {
	if n := v.s.nodes[ino]; n != nil {
		return n, nil
	}
	return nil, fabric.Stale
}

// dir gives a directory.
func (v *view) dir(ino fabric.Ino) (*node, error) {
	n, err := v.get(ino)
	if err == nil && n.Type != fabric.TypeDir {
		return nil, fabric.NotDir
	}
	return n, err
}

// may is an error unless the caller has all of want.
func (v *view) may(n *node, want fabric.Perm) error {
	if v.who.May(&n.Attr, want) != want {
		return fabric.Denied
	}
	return nil
}

// search gives a directory in which the caller may look for names.
func (v *view) search(ino fabric.Ino) (*node, error) {
	n, err := v.dir(ino)
	if err == nil {
		err = v.may(n, fabric.PermExec)
	}
	return n, err
}

// check is the error of a code, nil if it is OK.
func check(c fabric.Code) error {
	if c == fabric.OK {
		return nil
	}
	return c
}

// Lookup implements fabric.FS.
func (v *view) Lookup(_ context.Context, dir fabric.Ino, name string) (fabric.Attr, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	d, err := v.search(dir)
	if err != nil {
		return fabric.Attr{}, err
	}
	switch {
	case name == ".", name == ".." && dir == v.p.root:
		return d.Attr, nil
	case name == "..":
		return v.s.nodes[d.Parent].Attr, nil
	}
	return v.child(d, name)
}

func (v *view) child(d *node, name string) (fabric.Attr, error) {
	if err := check(fabric.CheckName(name)); err != nil {
		return fabric.Attr{}, err
	}
	e, ok := d.entries[name]
	if !ok {
		return fabric.Attr{}, fabric.NotExist
	}
	return v.s.nodes[e.ino].Attr, nil
}

// Walk implements fabric.FS.
func (v *view) Walk(_ context.Context, dir fabric.Ino, path []string) ([]fabric.Attr, error) {
	for _, name := range path {
		if err := check(fabric.CheckName(name)); err != nil {
			return nil, err
		}
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	var out []fabric.Attr
	for _, name := range path {
		d, err := v.search(dir)
		if err != nil {
			return out, err
		}
		a, err := v.child(d, name)
		if err != nil {
			return out, err
		}
		out, dir = append(out, a), a.Ino
	}
	return out, nil
}

// Stat implements fabric.FS.
func (v *view) Stat(_ context.Context, ino fabric.Ino) (fabric.Attr, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n, err := v.get(ino)
	if err != nil {
		return fabric.Attr{}, err
	}
	return n.Attr, nil
}

// Access implements fabric.FS.
func (v *view) Access(ctx context.Context, ino fabric.Ino, want fabric.Perm) (fabric.Perm, error) {
	a, err := v.Stat(ctx, ino)
	if err != nil {
		return 0, err
	}
	got := v.who.May(&a, want)
	if v.p.policy.ReadOnly {
		got &^= fabric.PermWrite
	}
	return got, nil
}

// writes refuses a change on a read-only portal.
func (v *view) writes() error {
	if v.p.policy.ReadOnly {
		return fabric.ReadOnly
	}
	return nil
}

// ReadDir implements fabric.FS; the listing is of one moment.
func (v *view) ReadDir(_ context.Context, dir fabric.Ino, from fabric.Pos) iter.Seq2[fabric.Entry, error] {
	return func(yield func(fabric.Entry, error) bool) {
		list, err := v.list(dir, from)
		if err != nil {
			yield(fabric.Entry{}, err)
			return
		}
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (v *view) list(dir fabric.Ino, from fabric.Pos) ([]fabric.Entry, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	d, err := v.dir(dir)
	if err == nil {
		err = v.may(d, fabric.PermRead)
	}
	if err != nil {
		return nil, err
	}
	var out []fabric.Entry
	for name, e := range d.entries {
		if from.ByName && name >= from.At || !from.ByName && e.cookie > from.After {
			out = append(out, fabric.Entry{Name: name, Cookie: e.cookie, Attr: v.s.nodes[e.ino].Attr})
		}
	}
	slices.SortFunc(out, func(a, b fabric.Entry) int {
		if from.ByName {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}
		return int(int64(a.Cookie) - int64(b.Cookie))
	})
	return out, nil
}

// ReadLink implements fabric.FS.
func (v *view) ReadLink(_ context.Context, ino fabric.Ino) (string, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n, err := v.get(ino)
	if err == nil && n.Type != fabric.TypeSymlink {
		err = fabric.Invalid
	}
	if err != nil {
		return "", err
	}
	return n.target, nil
}

// Lock implements fabric.FS.
func (v *view) Lock(context.Context, fabric.Ino, fabric.Lock) error { return fabric.Unsupported }

// TryLock implements fabric.FS.
func (v *view) TryLock(context.Context, fabric.Ino, fabric.Lock) error { return fabric.Unsupported }

// TestLock implements fabric.FS.
func (v *view) TestLock(context.Context, fabric.Ino, fabric.Lock) (fabric.Lock, bool, error) {
	return fabric.Lock{}, false, fabric.Unsupported
}

// Unlock implements fabric.FS.
func (v *view) Unlock(context.Context, fabric.Ino, fabric.Lock) error { return fabric.Unsupported }

// Sync implements fabric.FS.
func (v *view) Sync(context.Context, fabric.Ino) error { return nil }
