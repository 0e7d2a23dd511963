package nfs

import (
	"context"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/spokefs/spokefs/fabric"
)

// defaultMode is the mode of what is made without one.
const defaultMode = 0o644

// place decodes a diropargs3.
func (d *dec) place() (dir []byte, name string) { return d.handle(), d.name() }

// How CREATE treats a name that exists.
const (
	createUnchecked = 0
	createGuarded   = 1
	createExclusive = 2
)

func (s *Server) create(ctx context.Context, r *request) uint32 {
	h, name := r.in.place()
	how := r.in.u32()
	spec := fabric.NodeSpec{Type: fabric.TypeFile}
	var set fabric.SetAttr
	switch how {
	case createUnchecked, createGuarded:
		set = r.in.sattr()
	case createExclusive:
		// Attributes follow by SETATTR. A zero verifier would not be one.
		spec.Verifier = max(r.in.u64(), 1)
		set = fabric.SetAttr{Set: fabric.SetMode, Mode: 0o600}
	default:
		return acceptGarbageArgs
	}
	if r.in.bad {
		return acceptGarbageArgs
	}
	return s.make(ctx, r, h, name, spec, set, how == createUnchecked)
}

func (s *Server) mkdir(ctx context.Context, r *request) uint32 {
	h, name := r.in.place()
	set := r.in.sattr()
	if r.in.bad {
		return acceptGarbageArgs
	}
	if set.Set&fabric.SetMode == 0 {
		set.Set, set.Mode = set.Set|fabric.SetMode, 0o755
	}
	return s.make(ctx, r, h, name, fabric.NodeSpec{Type: fabric.TypeDir}, set, false)
}

func (s *Server) symlink(ctx context.Context, r *request) uint32 {
	h, name := r.in.place()
	set := r.in.sattr()
	spec := fabric.NodeSpec{Type: fabric.TypeSymlink, Target: r.in.name()}
	if r.in.bad {
		return acceptGarbageArgs
	}
	set.Set, set.Mode = set.Set|fabric.SetMode, 0o777
	return s.make(ctx, r, h, name, spec, set, false)
}

func (s *Server) mknod(ctx context.Context, r *request) uint32 {
	h, name := r.in.place()
	var spec fabric.NodeSpec
	var set fabric.SetAttr
	switch r.in.u32() {
	case 3:
		spec.Type = fabric.TypeBlock
	case 4:
		spec.Type = fabric.TypeChar
	case 6:
		spec.Type = fabric.TypeSocket
	case 7:
		spec.Type = fabric.TypeFifo
	}
	if spec.Type != fabric.TypeNone {
		set = r.in.sattr()
	}
	if spec.Type == fabric.TypeBlock || spec.Type == fabric.TypeChar {
		spec.Rdev = r.in.u64()
	}
	if r.in.bad {
		return acceptGarbageArgs
	}
	if spec.Type == fabric.TypeNone {
		o, err := s.resolve(r, h)
		if err != nil {
			return s.failWcc(ctx, r, &o, err)
		}
		r.out.u32(uint32(nfsv3.NFS3ERR_BADTYPE))
		c := o.same(ctx)
		r.out.wcc(&c, o.fsid)
		return acceptSuccess
	}
	return s.make(ctx, r, h, name, spec, set, false)
}

// make makes an inode and gives it those attributes that Make does not take. reuse: a regular file
// of that name is as good, cut to the size asked for.
func (s *Server) make(ctx context.Context, r *request, h []byte, name string, spec fabric.NodeSpec, set fabric.SetAttr, reuse bool) uint32 {
	spec.Mode = defaultMode
	if set.Set&fabric.SetMode != 0 {
		spec.Mode = set.Mode
	}
	d, err := s.resolve(r, h)
	if err != nil {
		return s.failWcc(ctx, r, &d, err)
	}
	if c := fabric.CheckName(name); c != fabric.OK {
		return s.failWcc(ctx, r, &d, c) // to Make an empty name means something else
	}
	a, c, err := d.fs.Make(ctx, d.ino, name, spec)
	switch {
	case err == nil:
		set.Set &^= fabric.SetMode
		if d.who.UID != 0 {
			set.Set &^= fabric.SetUID | fabric.SetGID // as Linux: it is the caller's
		}
		if spec.Type != fabric.TypeFile || set.Size == 0 {
			set.Set &^= fabric.SetSize
		}
	case reuse && fabric.CodeOf(err) == fabric.Exist:
		a, err = d.fs.Lookup(ctx, d.ino, name)
		if err == nil && a.Type != fabric.TypeFile {
			err = fabric.Exist
		}
		c = d.same(ctx)
		set.Set &= fabric.SetSize
	}
	if err == nil && set.Set != 0 {
		var changed fabric.Change
		if changed, err = d.fs.SetAttr(ctx, a.Ino, set); err == nil {
			a = changed.After
		}
	}
	if err != nil {
		return s.failWcc(ctx, r, &d, err)
	}
	r.out.u32(0)
	fh := d.portal.Handle(a.Ino)
	r.out.u32(1)
	r.out.opaque(fh[:])
	r.out.post(&a, d.fsid)
	r.out.wcc(&c, d.fsid)
	return acceptSuccess
}

func (s *Server) remove(ctx context.Context, r *request) uint32 {
	return s.unlink(ctx, r, fabric.RemoveFile)
}

func (s *Server) rmdir(ctx context.Context, r *request) uint32 {
	return s.unlink(ctx, r, fabric.RemoveDir)
}

func (s *Server) unlink(ctx context.Context, r *request, k fabric.RemoveKind) uint32 {
	h, name := r.in.place()
	if r.in.bad {
		return acceptGarbageArgs
	}
	d, err := s.resolve(r, h)
	var c fabric.Change
	if err == nil {
		c, err = d.fs.Remove(ctx, d.ino, name, k, fabric.Cond{})
	}
	if err != nil {
		return s.failWcc(ctx, r, &d, err)
	}
	r.out.u32(0)
	r.out.wcc(&c, d.fsid)
	return acceptSuccess
}

func (s *Server) rename(ctx context.Context, r *request) uint32 {
	h1, old := r.in.place()
	h2, name := r.in.place()
	if r.in.bad {
		return acceptGarbageArgs
	}
	from, err := s.resolve(r, h1)
	var to object
	if err == nil {
		to, err = s.resolve(r, h2)
	}
	if err == nil && from.portal.Name() != to.portal.Name() {
		err = fabric.CrossDevice
	}
	var src, dst fabric.Change
	if err == nil {
		src, dst, err = from.fs.Rename(ctx, from.ino, old, to.ino, name, fabric.RenameReplace)
	}
	s.fail(r, err)
	if err != nil {
		src, dst = from.same(ctx), to.same(ctx)
	} else if dst.After.Type == fabric.TypeNone {
		dst = src // one directory, one change
	}
	r.out.wcc(&src, from.fsid)
	r.out.wcc(&dst, to.fsid)
	return acceptSuccess
}

func (s *Server) link(ctx context.Context, r *request) uint32 {
	h := r.in.handle()
	hd, name := r.in.place()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	var d object
	if err == nil {
		d, err = s.resolve(r, hd)
	}
	if err == nil && o.portal.Name() != d.portal.Name() {
		err = fabric.CrossDevice
	}
	var a fabric.Attr
	var c fabric.Change
	if err == nil {
		a, c, err = o.fs.Link(ctx, o.ino, d.ino, name)
	}
	s.fail(r, err)
	if err != nil {
		if at := o.stat(ctx); at != nil {
			a = *at
		}
		c = d.same(ctx)
	}
	r.out.post(&a, o.fsid)
	r.out.wcc(&c, d.fsid)
	return acceptSuccess
}
