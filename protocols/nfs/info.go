package nfs

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
)

// about resolves the handle of FSSTAT, FSINFO and PATHCONF.
func (s *Server) about(r *request) (o object, bad bool, err error) {
	h := r.in.handle()
	if r.in.bad {
		return o, true, nil
	}
	o, err = s.resolve(r, h)
	return o, false, err
}

func (s *Server) fsstat(ctx context.Context, r *request) uint32 {
	o, bad, err := s.about(r)
	if bad {
		return acceptGarbageArgs
	}
	var u fabric.Usage
	if err == nil {
		u, err = o.fs.StatFS(ctx)
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.post(o.stat(ctx), o.fsid)
	for _, v := range [...]int64{u.Bytes, u.FreeBytes, u.FreeBytes, u.Inodes, u.FreeInodes, u.FreeInodes} {
		r.out.u64(uint64(max(v, 0)))
	}
	r.out.u32(0) // it may change at any time
	return acceptSuccess
}

func (s *Server) fsinfo(ctx context.Context, r *request) uint32 {
	o, bad, err := s.about(r)
	if bad {
		return acceptGarbageArgs
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	io := uint32(s.cfg.MaxIO)
	r.out.u32(0)
	r.out.post(o.stat(ctx), o.fsid)
	for _, v := range [...]uint32{io, io, 4096, io, io, 4096, uint32(s.cfg.MaxList)} {
		r.out.u32(v)
	}
	r.out.u64(uint64(fabric.MaxFileSize))
	r.out.u32(0) // times are exact to 1 ns
	r.out.u32(1)
	r.out.u32(0x01 | 0x02 | 0x08 | 0x10) // hard links, symbolic links, the same everywhere, times can be set
	return acceptSuccess
}

func (s *Server) pathconf(ctx context.Context, r *request) uint32 {
	o, bad, err := s.about(r)
	if bad {
		return acceptGarbageArgs
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.post(o.stat(ctx), o.fsid)
	r.out.u32(fabric.MaxLinks)
	r.out.u32(fabric.MaxName)
	r.out.boolean(true)  // longer names are refused, not cut
	r.out.boolean(true)  // only root may give files away
	r.out.boolean(false) // names keep their case
	r.out.boolean(true)
	return acceptSuccess
}
