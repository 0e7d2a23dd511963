package nfs

import (
	"context"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/spokefs/spokefs/fabric"
)

// object is an inode that a call named by its handle, as the caller sees it.
type object struct {
	portal fabric.Portal
	policy fabric.Policy
	who    fabric.Cred
	fs     fabric.FS
	ino    fabric.Ino
	fsid   uint64
}

// procedures are NFSv3's, by number. Each decodes all arguments first.
var procedures = [...]func(s *Server, ctx context.Context, r *request) uint32{
	0:  func(*Server, context.Context, *request) uint32 { return acceptSuccess },
	1:  (*Server).getattr,
	2:  (*Server).setattr,
	3:  (*Server).lookup,
	4:  (*Server).access,
	5:  (*Server).readlink,
	6:  (*Server).read,
	7:  (*Server).write,
	8:  (*Server).create,
	9:  (*Server).mkdir,
	10: (*Server).symlink,
	11: (*Server).mknod,
	12: (*Server).remove,
	13: (*Server).rmdir,
	14: (*Server).rename,
	15: (*Server).link,
	16: (*Server).readdir,
	17: (*Server).readdirplus,
	18: (*Server).fsstat,
	19: (*Server).fsinfo,
	20: (*Server).pathconf,
	21: (*Server).commit,
}

// nfs answers NFS version 3.
func (s *Server) nfs(ctx context.Context, r *request) uint32 {
	if r.proc >= uint32(len(procedures)) {
		return acceptProcUnavail
	}
	return procedures[r.proc](s, ctx, r)
}

// handle decodes a handle; resolve makes it an object when all arguments are decoded.
func (d *dec) handle() []byte { return d.opaque(64) }

// resolve finds what a handle names and checks that this client may use its portal.
func (s *Server) resolve(r *request, h []byte) (o object, err error) {
	o.portal, o.ino, err = s.portals.Resolve(h)
	if err != nil {
		return o, err
	}
	o.policy = o.portal.Policy()
	if !admits(&o.policy, r.from) {
		return o, fabric.Denied
	}
	o.who = under(r.who, &o.policy)
	o.fs = o.portal.As(o.who)
	o.fsid = o.portal.ID()
	return o, nil
}

// statusFor is the status of an error. A call ends before its answer only when it took longer than
// Config.Stuck, or when the connection is gone and nobody reads the answer: the client comes back.
func statusFor(err error) nfsv3.Nfsstat3 {
	c := fabric.CodeOf(err)
	if c == fabric.Canceled {
		return nfsv3.NFS3ERR_JUKEBOX
	}
	st, _ := statusOf(c)
	return st
}

// fail appends the status of an error, and logs those that are our own fault.
func (s *Server) fail(r *request, err error) {
	st := statusFor(err)
	if st == nfsv3.NFS3ERR_SERVERFAULT {
		s.log.Error("nfs: internal error", "procedure", r.proc, "client", r.from, "error", err)
	}
	r.out.u32(uint32(st))
}

// stat gives an object's attributes for a reply, nil if they are not to be had.
func (o *object) stat(ctx context.Context) *fabric.Attr {
	if o.fs == nil {
		return nil
	}
	a, err := o.fs.Stat(ctx, o.ino)
	if err != nil {
		return nil
	}
	return &a
}

// live gives an object's attributes; Stale if it has no name left. Its inode may be there yet, held
// by whoever had it open, but an NFS client cannot hold a file open that another removed.
func (o *object) live(ctx context.Context) (fabric.Attr, error) {
	a, err := o.fs.Stat(ctx, o.ino)
	if err == nil && a.Nlink == 0 {
		err = fabric.Stale
	}
	return a, err
}

// failAttr answers an error whose reply carries the object's attributes.
func (s *Server) failAttr(ctx context.Context, r *request, o *object, err error) uint32 {
	s.fail(r, err)
	r.out.post(o.stat(ctx), o.fsid)
	return acceptSuccess
}

// same is the wcc_data of something that did not change.
func (o *object) same(ctx context.Context) (c fabric.Change) {
	if a := o.stat(ctx); a != nil {
		c.Before, c.After = a.Version(), *a
	}
	return c
}

// failWcc answers an error whose reply carries wcc_data: nothing changed.
func (s *Server) failWcc(ctx context.Context, r *request, o *object, err error) uint32 {
	s.fail(r, err)
	c := o.same(ctx)
	r.out.wcc(&c, o.fsid)
	return acceptSuccess
}

func (s *Server) getattr(ctx context.Context, r *request) uint32 {
	h := r.in.handle()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	var a fabric.Attr
	if err == nil {
		a, err = o.live(ctx)
	}
	s.fail(r, err)
	if err == nil {
		r.out.attr(&a, o.fsid)
	}
	return acceptSuccess
}

func (s *Server) setattr(ctx context.Context, r *request) uint32 {
	h, set := r.in.handle(), r.in.sattr()
	if r.in.boolean() {
		set.Set |= fabric.SetGuard
		set.Guard = r.in.time()
	}
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	var c fabric.Change
	if err == nil {
		c, err = o.fs.SetAttr(ctx, o.ino, set)
	}
	if err != nil {
		return s.failWcc(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.wcc(&c, o.fsid)
	return acceptSuccess
}

func (s *Server) lookup(ctx context.Context, r *request) uint32 {
	h, name := r.in.handle(), r.in.name()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	var a fabric.Attr
	if err == nil {
		a, err = o.fs.Lookup(ctx, o.ino, name)
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	fh := o.portal.Handle(a.Ino)
	r.out.opaque(fh[:])
	r.out.post(&a, o.fsid)
	r.out.post(o.stat(ctx), o.fsid)
	return acceptSuccess
}

// Bits of ACCESS.
const (
	accessRead    = 0x01
	accessLookup  = 0x02
	accessModify  = 0x04
	accessExtend  = 0x08
	accessDelete  = 0x10
	accessExecute = 0x20
)

// accessOf gives the bits that permissions stand for.
func accessOf(dir bool, p fabric.Perm) (bits uint32) {
	if p&fabric.PermRead != 0 {
		bits |= accessRead
	}
	if p&fabric.PermWrite != 0 {
		bits |= accessModify | accessExtend
		if dir {
			bits |= accessDelete
		}
	}
	if p&fabric.PermExec != 0 {
		if dir {
			bits |= accessLookup
		} else {
			bits |= accessExecute
		}
	}
	return bits
}

func (s *Server) access(ctx context.Context, r *request) uint32 {
	h, want := r.in.handle(), r.in.u32()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	var a fabric.Attr
	var got fabric.Perm
	if err == nil {
		a, err = o.fs.Stat(ctx, o.ino)
	}
	if err == nil {
		got, err = o.fs.Access(ctx, o.ino, fabric.PermRead|fabric.PermWrite|fabric.PermExec)
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.post(&a, o.fsid)
	r.out.u32(want & accessOf(a.Type == fabric.TypeDir, got))
	return acceptSuccess
}

func (s *Server) readlink(ctx context.Context, r *request) uint32 {
	h := r.in.handle()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	var target string
	if err == nil {
		target, err = o.fs.ReadLink(ctx, o.ino)
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.post(o.stat(ctx), o.fsid)
	r.out.name(target)
	return acceptSuccess
}
