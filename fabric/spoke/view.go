package spoke

import (
	"context"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// view is one caller's fabric.FS. A command may be on its way after its caller has given up, and
// its names are kept in what is known of directories: it has copies of them, since callers keep what
// they pass.
type view struct {
	p   *portal
	s   *Spoke
	who fabric.Cred
}

// Root implements fabric.FS.
func (v *view) Root() fabric.Ino { return v.p.root }

// StatFS implements fabric.FS.
func (v *view) StatFS(ctx context.Context) (fabric.Usage, error) {
	return call(ctx, v.s, func(ctx context.Context, ss *session) (fabric.Usage, error) { return ss.link.Hub.StatFS(ctx) })
}

// search gives a directory's attributes, if the caller may look for names in it.
func (v *view) search(ctx context.Context, dir fabric.Ino) (fabric.Attr, error) {
	a, err := v.s.attributes(ctx, dir, false)
	if err != nil {
		return a, err
	}
	if a.Type != fabric.TypeDir {
		return a, fabric.NotDir
	}
	if v.who.May(&a, fabric.PermExec) == 0 {
		return a, fabric.Denied
	}
	return a, nil
}

// Lookup implements fabric.FS.
func (v *view) Lookup(ctx context.Context, dir fabric.Ino, name string) (fabric.Attr, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	if !v.s.knows(dir, "") && fabric.CheckName(name) == fabric.OK {
		// Nothing is known of the directory: one call brings it and the name.
		if _, err := v.s.find(ctx, dir, []string{name}, firstBytes); err != nil {
			return fabric.Attr{}, err
		}
	}
	a, err := v.search(ctx, dir)
	if err != nil {
		return fabric.Attr{}, err
	}
	switch {
	case name == "." || name == ".." && dir == v.p.root:
		return v.s.stat(ctx, dir)
	case name == "..":
		return v.s.stat(ctx, a.Parent)
	}
	if c := fabric.CheckName(name); c != fabric.OK {
		return fabric.Attr{}, c
	}
	return v.s.lookup(ctx, dir, name)
}

// Walk implements fabric.FS. What is known here is not asked for; the rest is one call.
func (v *view) Walk(ctx context.Context, dir fabric.Ino, path []string) ([]fabric.Attr, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	for _, name := range path {
		if c := fabric.CheckName(name); c != fabric.OK {
			return nil, c
		}
	}
	out := make([]fabric.Attr, 0, len(path))
	asked := false
	for i, name := range path {
		if _, err := v.search(ctx, dir); err != nil {
			return out, err
		}
		if !asked && i < len(path)-1 && !v.s.knows(dir, name) {
			asked = true
			if _, err := v.s.find(ctx, dir, path[i:], 0); err != nil {
				return out, err
			}
		}
		a, err := v.s.lookup(ctx, dir, name)
		if err != nil {
			return out, err
		}
		out = append(out, a)
		dir = a.Ino
	}
	return out, nil
}

// knows says whether a name can be answered without the hub; "" asks for the directory alone.
func (s *Spoke) knows(dir fabric.Ino, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		return s.valid(dir, rights.R)
	}
	d := s.dir(dir)
	if d == nil || s.flights.names[touched{dir, name}] > 0 {
		return false
	}
	e, ok := d.entries[name]
	return d.complete || ok && (e.ino == 0 || s.valid(e.ino, rights.R))
}

// Stat implements fabric.FS.
func (v *view) Stat(ctx context.Context, ino fabric.Ino) (fabric.Attr, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	return v.s.stat(ctx, ino)
}

// Access implements fabric.FS.
func (v *view) Access(ctx context.Context, ino fabric.Ino, want fabric.Perm) (fabric.Perm, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	a, err := v.s.stat(ctx, ino)
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

// SetAttr implements fabric.FS. A size is content and is cut here, under W; the rest is the hub's.
func (v *view) SetAttr(ctx context.Context, ino fabric.Ino, set fabric.SetAttr) (ch fabric.Change, err error) {
	if err := v.writes(); err != nil {
		return ch, err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	a, err := v.s.stat(ctx, ino)
	if err != nil {
		return ch, err
	}
	ch.Before, ch.After = a.Version(), a
	if set.Set&fabric.SetGuard != 0 && set.Guard != a.Ctime {
		return ch, fabric.Precondition
	}
	if err := v.maySet(&a, &set); err != nil {
		return ch, err
	}
	if set.Set&fabric.SetSize != 0 {
		cut, err := v.s.cut(ctx, ino, set.Size, v.kills(&a), v.who.From)
		if err != nil {
			return ch, err
		}
		ch.After = cut.After
	}
	if set.Set &^= fabric.SetSize | fabric.SetGuard; set.Set == 0 {
		return ch, nil
	}
	if c, ok, err := v.times(ctx, &ch.After, set); ok || err != nil {
		return c, err
	}
	if v.s.overtakes(ino, set.Set) {
		if err := v.s.sync(ctx, ino); err != nil {
			return ch, err
		}
	}
	r, err := v.s.run(ctx, &namespace.SetAttr{Ino: ino, Set: set, Who: v.who}, v.who.From)
	if err != nil {
		return ch, err
	}
	ch.After = v.s.afterSet(ino, set, &r.Attr)
	return ch, nil
}

// times sets the times of a file that has unpublished writes; ok is false for all else.
func (v *view) times(ctx context.Context, a *fabric.Attr, set fabric.SetAttr) (ch fabric.Change, ok bool, err error) {
	const only = fabric.SetAtime | fabric.SetMtime | fabric.SetAtimeNow | fabric.SetMtimeNow
	if set.Set&^only != 0 || !v.who.Owns(a) {
		return ch, false, nil
	}
	v.s.mu.Lock()
	n := v.s.inodes[a.Ino]
	var f *file
	if n != nil {
		f = n.file
	}
	v.s.mu.Unlock()
	if f == nil {
		return ch, false, nil
	}
	if ch, ok, err = v.s.setTimes(n, f, set); ok {
		v.s.invalidate(ctx, []fabric.Key{{Kind: fabric.KeyAttr, Ino: a.Ino}}, v.who.From)
	}
	return ch, ok, err
}

// afterSet lets explicit times win over those of writes that are not published yet (case F4).
func (s *Spoke) afterSet(ino fabric.Ino, set fabric.SetAttr, a *fabric.Attr) fabric.Attr {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.inodes[ino]
	if n == nil || n.file == nil {
		return *a
	}
	if set.Set&(fabric.SetMtime|fabric.SetMtimeNow) != 0 {
		n.file.mu.Lock()
		n.file.mtime = a.Mtime
		n.file.mu.Unlock()
	}
	out := *a
	n.file.overlayAttr(&out)
	return out
}

// maySet refuses all of a change if a part of it is not allowed: the size is set here, the rest at
// the hub, and an error must change nothing.
func (v *view) maySet(a *fabric.Attr, set *fabric.SetAttr) error {
	if set.Set&fabric.SetSize == 0 {
		return nil // the hub checks the rest
	}
	switch {
	case a.Type == fabric.TypeDir:
		return fabric.IsDir
	case a.Type != fabric.TypeFile || set.Size < 0:
		return fabric.Invalid
	case set.Size > fabric.MaxFileSize:
		return fabric.TooBig
	case v.who.May(a, fabric.PermWrite) == 0 && !v.who.Owns(a):
		return fabric.Denied
	}
	if c := namespace.MaySet(&v.who, a, set); c != fabric.OK {
		return c
	}
	return nil
}

// overtakes says whether a publish that is to come, or is under way, would undo what is set at the
// hub now: it carries times, and takes privileges away.
func (s *Spoke) overtakes(ino fabric.Ino, set fabric.SetBits) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.inodes[ino]
	if n == nil || n.file == nil {
		return false
	}
	n.file.mu.Lock()
	defer n.file.mu.Unlock()
	const times = fabric.SetAtime | fabric.SetMtime | fabric.SetAtimeNow | fabric.SetMtimeNow
	return n.file.dirty && (set&times != 0 || set&fabric.SetMode != 0 && n.file.kill)
}

// kills says whether a change of content by this caller drops setuid and setgid.
func (v *view) kills(a *fabric.Attr) bool {
	return v.who.UID != 0 && a.Mode&(fabric.ModeSetuid|fabric.ModeSetgid) != 0
}

// Make implements fabric.FS.
func (v *view) Make(ctx context.Context, dir fabric.Ino, name string, spec fabric.NodeSpec) (fabric.Attr, fabric.Change, error) {
	if err := v.writes(); err != nil {
		return fabric.Attr{}, fabric.Change{}, err
	}
	if name != "" || spec.Type != fabric.TypeFile {
		if c := fabric.CheckName(name); c != fabric.OK {
			return fabric.Attr{}, fabric.Change{}, c
		}
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	spec.Target = strings.Clone(spec.Target)
	op := &namespace.Make{Dir: dir, Name: strings.Clone(name), Spec: spec, Who: v.who, WantW: spec.Type == fabric.TypeFile}
	if spec.Type == fabric.TypeFile {
		op.Content.Inline = []byte{}
	}
	r, err := v.s.run(ctx, op, v.who.From)
	if err != nil {
		return fabric.Attr{}, r.Dir, err
	}
	return v.s.shown(&r.Attr), r.Dir, nil
}

// shown gives attributes as they are shown: with what is unpublished here, and their freshness.
func (s *Spoke) shown(a *fabric.Attr) fabric.Attr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.inodes[a.Ino]; n != nil && n.known && s.valid(a.Ino, rights.R) {
		return s.attrOf(n)
	}
	return *a
}

// Link implements fabric.FS.
func (v *view) Link(ctx context.Context, ino, dir fabric.Ino, name string) (fabric.Attr, fabric.Change, error) {
	if err := v.writes(); err != nil {
		return fabric.Attr{}, fabric.Change{}, err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	r, err := v.s.run(ctx, &namespace.Link{Ino: ino, Dir: dir, Name: strings.Clone(name), Who: v.who}, v.who.From)
	return v.s.shown(&r.Attr), r.Dir, err
}

// Replace implements fabric.FS.
func (v *view) Replace(ctx context.Context, ino, dir fabric.Ino, name string, cond fabric.Cond) (fabric.Attr, fabric.Change, error) {
	if err := v.writes(); err != nil {
		return fabric.Attr{}, fabric.Change{}, err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	if err := v.s.sync(ctx, ino); err != nil {
		return fabric.Attr{}, fabric.Change{}, err
	}
	r, err := v.s.run(ctx, &namespace.Replace{Ino: ino, Dir: dir, Name: strings.Clone(name), Cond: cond, Who: v.who}, v.who.From)
	return v.s.shown(&r.Attr), r.Dir, err
}

// Rename implements fabric.FS.
func (v *view) Rename(ctx context.Context, from fabric.Ino, old string, to fabric.Ino, name string, m fabric.RenameMode) (src, dst fabric.Change, err error) {
	if err := v.writes(); err != nil {
		return src, dst, err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	r, err := v.s.run(ctx, &namespace.Rename{From: from, Old: strings.Clone(old), To: to, Name: strings.Clone(name), Mode: m, Who: v.who}, v.who.From)
	return r.Dir, r.Dir2, err
}

// Remove implements fabric.FS.
func (v *view) Remove(ctx context.Context, dir fabric.Ino, name string, k fabric.RemoveKind, cond fabric.Cond) (fabric.Change, error) {
	if err := v.writes(); err != nil {
		return fabric.Change{}, err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	r, err := v.s.run(ctx, &namespace.Remove{Dir: dir, Name: strings.Clone(name), Kind: k, Cond: cond, Who: v.who}, v.who.From)
	return r.Dir, err
}

// ReadDir implements fabric.FS.
func (v *view) ReadDir(ctx context.Context, dir fabric.Ino, from fabric.Pos) iter.Seq2[fabric.Entry, error] {
	return func(yield func(fabric.Entry, error) bool) {
		ctx, cancel := v.p.bounded(ctx)
		defer cancel()
		a, err := v.s.stat(ctx, dir)
		switch {
		case err != nil:
		case a.Type != fabric.TypeDir:
			err = fabric.NotDir
		case v.who.May(&a, fabric.PermRead) == 0:
			err = fabric.Denied
		}
		var l *listing
		if err == nil {
			l, err = v.s.list(ctx, dir, from)
		}
		for err == nil {
			var page []fabric.Entry
			if page, err = l.next(ctx); err != nil || len(page) == 0 {
				break
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
		if err != nil {
			yield(fabric.Entry{}, err)
		}
	}
}

// ReadLink implements fabric.FS.
func (v *view) ReadLink(ctx context.Context, ino fabric.Ino) (string, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	st, err := v.s.full(ctx, ino, false)
	if err == nil && st.Type != fabric.TypeSymlink {
		err = fabric.Invalid
	}
	return st.Target, err
}

// Clone implements fabric.FS: what the parts hold is published where they are, and the new content
// refers to the same chunks (A41).
func (v *view) Clone(ctx context.Context, dst fabric.Ino, parts []fabric.Part) (fabric.Change, error) {
	if err := v.writes(); err != nil {
		return fabric.Change{}, err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	return v.s.clone(ctx, dst, parts, v)
}

// Xattr implements fabric.FS.
func (v *view) Xattr(ctx context.Context, ino fabric.Ino, name string, p []byte) (int, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	st, err := v.s.full(ctx, ino, false)
	if err != nil {
		return 0, err
	}
	x := v.s.described(ino, st.Xattrs)
	i := sort.Search(len(x), func(i int) bool { return x[i].Name >= name })
	if i == len(x) || x[i].Name != name {
		return 0, fabric.NoXattr
	}
	if p != nil && len(p) < len(x[i].Value) {
		return 0, fabric.Invalid
	}
	copy(p, x[i].Value)
	return len(x[i].Value), nil
}

// described leaves out the description of a content that has changed here.
func (s *Spoke) described(ino fabric.Ino, x []namespace.Xattr) []namespace.Xattr {
	s.mu.Lock()
	n := s.inodes[ino]
	s.mu.Unlock()
	if n != nil && n.file != nil && !n.file.idle() {
		return withoutDescription(x)
	}
	return x
}

// ListXattr implements fabric.FS.
func (v *view) ListXattr(ctx context.Context, ino fabric.Ino) ([]string, error) {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	st, err := v.s.full(ctx, ino, false)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, x := range v.s.described(ino, st.Xattrs) {
		out = append(out, x.Name)
	}
	return out, nil
}

// SetXattr implements fabric.FS.
func (v *view) SetXattr(ctx context.Context, ino fabric.Ino, name string, value []byte, m fabric.XattrMode) error {
	if err := v.writes(); err != nil {
		return err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	if name == fabric.ContentXattr { // it describes the content that is here now
		if err := v.s.sync(ctx, ino); err != nil {
			return err
		}
	}
	_, err := v.s.run(ctx, &namespace.SetXattr{Ino: ino, Name: strings.Clone(name), Value: slices.Clone(value), Mode: m, Who: v.who}, v.who.From)
	if err == nil {
		v.s.askXattrs(ino)
	}
	return err
}

// RemoveXattr implements fabric.FS.
func (v *view) RemoveXattr(ctx context.Context, ino fabric.Ino, name string) error {
	if err := v.writes(); err != nil {
		return err
	}
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	_, err := v.s.run(ctx, &namespace.RemoveXattr{Ino: ino, Name: strings.Clone(name), Who: v.who}, v.who.From)
	if err == nil {
		v.s.askXattrs(ino)
	}
	return err
}

// askXattrs makes the next look at an inode's extended attributes ask the hub, after a change of our
// own: two at once may come back in either order.
func (s *Spoke) askXattrs(ino fabric.Ino) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.inodes[ino]; n != nil && n.known {
		n.state.Partial = true
	}
}

// Locks are the kernel's own at each node in this version.

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

// Sync implements fabric.FS. Names are durable when their change is answered.
func (v *view) Sync(ctx context.Context, ino fabric.Ino) error {
	ctx, cancel := v.p.bounded(ctx)
	defer cancel()
	return v.s.sync(ctx, ino)
}
