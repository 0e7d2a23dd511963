package nfs

import (
	"context"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/spokefs/spokefs/fabric"
)

// Cookies of the two names that fabric does not list; entries' own start at fabric.FirstCookie.
const (
	cookieDot    = 1
	cookieDotDot = 2
)

// listHead is what a reply has besides its entries: status, attributes, verifier, two ends; bytes.
const listHead = 4 + 88 + 8 + 4 + 4

// page is a READDIR or READDIRPLUS reply in the making.
type page struct {
	r    *request
	o    *object
	plus bool
	max  int // bytes of the reply
	dirs int // bytes of names, cookies and numbers; READDIRPLUS
	n    int // entries
}

// add appends an entry, or says that it does not fit.
func (p *page) add(name string, cookie uint64, a *fabric.Attr) bool {
	names := 4 + 8 + 4 + len(name) + pad(len(name)) + 8
	size := names
	if p.plus {
		size += 4 + 4 + 4 + fabric.HandleLen
		if a.Type != fabric.TypeNone {
			size += 84
		}
	}
	if size > p.max || p.plus && p.n > 0 && names > p.dirs {
		return false
	}
	p.max -= size
	p.dirs -= names
	p.n++
	e := &p.r.out
	e.u32(1)
	e.u64(uint64(a.Ino))
	e.name(name)
	e.u64(cookie)
	if p.plus {
		e.post(a, p.o.fsid)
		h := p.o.portal.Handle(a.Ino)
		e.u32(1)
		e.opaque(h[:])
	}
	return true
}

func (s *Server) readdir(ctx context.Context, r *request) uint32 {
	h, cookie := r.in.handle(), r.in.u64()
	r.in.u64() // cookies are good for ever, so the verifier says nothing
	count := r.in.u32()
	if r.in.bad {
		return acceptGarbageArgs
	}
	return s.list(ctx, r, h, cookie, page{r: r, max: int(min(count, uint32(s.cfg.MaxList)))})
}

func (s *Server) readdirplus(ctx context.Context, r *request) uint32 {
	h, cookie := r.in.handle(), r.in.u64()
	r.in.u64()
	dirs, count := r.in.u32(), r.in.u32()
	if r.in.bad {
		return acceptGarbageArgs
	}
	limit := uint32(s.cfg.MaxList)
	return s.list(ctx, r, h, cookie, page{r: r, plus: true, dirs: int(min(dirs, limit)), max: int(min(count, limit))})
}

// list answers both.
func (s *Server) list(ctx context.Context, r *request, h []byte, cookie uint64, p page) uint32 {
	o, err := s.resolve(r, h)
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	self, err := o.fs.Stat(ctx, o.ino)
	if err == nil && self.Type != fabric.TypeDir {
		err = fabric.NotDir
	}
	if err != nil {
		return s.failAttr(ctx, r, &o, err)
	}
	p.o = &o
	p.max -= listHead
	start := len(r.out.p)
	r.out.u32(0)
	r.out.post(&self, o.fsid)
	r.out.u64(0) // the verifier
	full, err := p.fill(ctx, cookie, &self)
	if err == nil && full && p.n == 0 {
		r.out.p = r.out.p[:start]
		r.out.u32(uint32(nfsv3.NFS3ERR_TOOSMALL))
		r.out.post(&self, o.fsid)
		return acceptSuccess
	}
	// What was listed before an error is good; the client meets the error at the next page.
	if err != nil && p.n == 0 {
		r.out.p = r.out.p[:start]
		return s.failAttr(ctx, r, &o, err)
	}
	r.out.u32(0)
	r.out.boolean(!full && err == nil)
	return acceptSuccess
}

// fill adds the entries after a cookie; full if there are more than fit.
func (p *page) fill(ctx context.Context, cookie uint64, self *fabric.Attr) (full bool, err error) {
	if cookie < cookieDot && !p.add(".", cookieDot, self) {
		return true, nil
	}
	if cookie < cookieDotDot {
		up := fabric.Attr{Ino: self.Parent}
		if a, err := p.o.fs.Lookup(ctx, p.o.ino, ".."); err == nil {
			up = a
		}
		if up.Ino == 0 {
			up.Ino = self.Ino
		}
		if !p.add("..", cookieDotDot, &up) {
			return true, nil
		}
	}
	from := fabric.Pos{}
	if cookie >= uint64(fabric.FirstCookie) {
		from.After = fabric.Cookie(cookie)
	}
	for e, err := range p.o.fs.ReadDir(ctx, p.o.ino, from) {
		if err != nil {
			return false, err
		}
		if !p.add(e.Name, uint64(e.Cookie), &e.Attr) {
			return true, nil
		}
	}
	return false, nil
}
