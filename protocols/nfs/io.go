package nfs

import (
	"context"
	"math"

	"github.com/spokefs/spokefs/fabric"
)

// open gives an open file for a READ or WRITE. The owner may whatever the mode bits say, for the
// client checked them when the file was opened or made (case N14); who may execute may read, for
// that is how a client runs a program.
func (s *Server) open(ctx context.Context, o *object, mode fabric.OpenMode) (*openFile, error) {
	want := fabric.PermRead
	if mode == fabric.OpenWrite {
		want = fabric.PermWrite
	}
	f, fresh, err := s.files.get(ctx, s.files.key(o.portal.Name(), o.ino, &o.who, mode), func() (fabric.File, error) {
		if _, err := o.live(ctx); err != nil {
			return nil, err
		}
		f, err := o.fs.Open(ctx, o.ino, mode|fabric.OpenOwner)
		if mode == fabric.OpenRead && fabric.CodeOf(err) == fabric.Denied {
			if p, e := o.fs.Access(ctx, o.ino, fabric.PermExec); e == nil && p != 0 {
				return o.portal.As(fabric.Root()).Open(ctx, o.ino, mode)
			}
		}
		return f, err
	})
	if err != nil || fresh {
		return f, err
	}
	// The mode may have changed since it was opened.
	a, err := o.live(ctx)
	switch {
	case err != nil:
	case mode == fabric.OpenWrite && o.policy.ReadOnly:
		err = fabric.ReadOnly
	case o.who.Owns(&a) || o.who.May(&a, want) != 0:
		return f, nil
	case mode == fabric.OpenRead && o.who.May(&a, fabric.PermExec) != 0:
		return f, nil
	default:
		err = fabric.Denied
	}
	s.files.put(f)
	return nil, err
}

func (s *Server) read(ctx context.Context, r *request) uint32 {
	h, off, count := r.in.handle(), r.in.u64(), r.in.u32()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	f, err := s.open(ctx, &o, fabric.OpenRead)
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	defer s.files.put(f)
	n := 0
	if count = min(count, uint32(s.cfg.MaxIO)); count > 0 && off <= math.MaxInt64 {
		if r.data, err = s.mem.get(ctx, int(count)); err == nil {
			n, err = f.file.ReadAt(ctx, r.data.p, int64(off))
		}
	}
	var a fabric.Attr
	if err == nil {
		a, err = f.file.Stat(ctx)
	}
	if err != nil {
		s.mem.free(r.data)
		r.data = nil
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.post(&a, o.fsid)
	r.out.u32(uint32(n))
	// A short read is the end, whatever the size is by now.
	r.out.boolean(n < int(count) || off+uint64(n) >= uint64(a.Size))
	r.out.u32(uint32(n))
	if n > 0 {
		r.payload = r.data.p[:n]
	}
	return acceptSuccess
}

// How stable a WRITE is to be.
const (
	unstable = 0
	fileSync = 2
)

func (s *Server) write(ctx context.Context, r *request) uint32 {
	h, off, count, how := r.in.handle(), r.in.u64(), r.in.u32(), r.in.u32()
	data := r.in.opaque(s.cfg.MaxIO)
	if r.in.bad || how > fileSync || int(count) > len(data) {
		return acceptGarbageArgs
	}
	data = data[:count]
	o, err := s.resolve(r, h)
	if err != nil {
		return s.failWcc(ctx, r, &o, err)
	}
	if off > uint64(fabric.MaxFileSize)-uint64(count) {
		return s.failWcc(ctx, r, &o, fabric.TooBig)
	}
	// Before the write: should the data be lost at once, the client must see that it has changed.
	verifier := o.portal.Verifier()
	f, err := s.open(ctx, &o, fabric.OpenWrite)
	if err != nil {
		return s.failWcc(ctx, r, &o, err)
	}
	defer s.files.put(f)
	var c fabric.Change
	if len(data) > 0 {
		_, c, err = f.file.WriteAt(ctx, data, int64(off))
	} else {
		c = o.same(ctx)
	}
	committed := uint32(unstable)
	if err == nil && how != unstable {
		committed = fileSync
		err = f.file.Sync(ctx)
	}
	if err != nil {
		return s.failWcc(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.wcc(&c, o.fsid)
	r.out.u32(count)
	r.out.u32(committed)
	r.out.u64(verifier)
	return acceptSuccess
}

func (s *Server) commit(ctx context.Context, r *request) uint32 {
	h := r.in.handle()
	r.in.u64() // the whole file is synced, whatever the range
	r.in.u32()
	if r.in.bad {
		return acceptGarbageArgs
	}
	o, err := s.resolve(r, h)
	if err != nil {
		return s.failWcc(ctx, r, &o, err)
	}
	before := o.same(ctx)
	if err := o.fs.Sync(ctx, o.ino); err != nil {
		return s.failWcc(ctx, r, &o, err)
	}
	// After the sync: what was lost before it shows here.
	verifier := o.portal.Verifier()
	c := o.same(ctx)
	if before.After.Type != fabric.TypeNone {
		c.Before = before.Before
	}
	r.out.u32(0)
	r.out.wcc(&c, o.fsid)
	r.out.u64(verifier)
	return acceptSuccess
}
