package nfs

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/spokefs/spokefs/fabric"
)

// maxPath is the longest path MNT takes, bytes (MNTPATHLEN).
const maxPath = 1024

// mounts remembers who mounted what, for DUMP. It is for show: clients come and go without a word.
type mounts struct {
	mu   sync.Mutex // guards list
	list []mounted
}

type mounted struct{ host, dir string }

func (m *mounts) add(e mounted, limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.list, e) {
		return
	}
	if len(m.list) >= limit {
		m.list = slices.Delete(m.list, 0, 1)
	}
	m.list = append(m.list, e)
}

// drop forgets a host's mount of dir, or all of its mounts if dir is "".
func (m *mounts) drop(host, dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(e mounted) bool { return e.host == host && (dir == "" || e.dir == dir) })
}

func (m *mounts) all() []mounted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// mount answers MOUNT version 3.
func (s *Server) mount(ctx context.Context, r *request) uint32 {
	host := r.from.String()
	switch r.proc {
	case 0: // NULL
	case 1: // MNT
		dir := string(r.in.opaque(maxPath))
		if r.in.bad {
			return acceptGarbageArgs
		}
		h, err := s.export(ctx, r, dir)
		st := mountStatus(err)
		r.out.u32(uint32(st))
		if st != nfsv3.NFS3_OK {
			s.log.Info("nfs: mount refused", "client", host, "path", dir, "error", err)
			return acceptSuccess
		}
		r.out.opaque(h[:])
		r.out.u32(1)
		r.out.u32(authSys)
		s.mounts.add(mounted{host, dir}, s.cfg.Mounts)
	case 2: // DUMP
		for _, m := range s.mounts.all() {
			r.out.u32(1)
			r.out.name(m.host)
			r.out.name(m.dir)
		}
		r.out.u32(0)
	case 3: // UMNT
		dir := string(r.in.opaque(maxPath))
		if r.in.bad {
			return acceptGarbageArgs
		}
		s.mounts.drop(host, dir)
	case 4: // UMNTALL
		s.mounts.drop(host, "")
	case 5: // EXPORT
		s.exports(r)
	default:
		return acceptProcUnavail
	}
	return acceptSuccess
}

// mountStatus is mountstat3, whose codes are NFS's but for a few, such as JUKEBOX and STALE.
func mountStatus(err error) nfsv3.Nfsstat3 {
	switch st := statusFor(err); st {
	case nfsv3.NFS3_OK, nfsv3.NFS3ERR_PERM, nfsv3.NFS3ERR_NOENT, nfsv3.NFS3ERR_IO, nfsv3.NFS3ERR_ACCES, nfsv3.NFS3ERR_NOTDIR,
		nfsv3.NFS3ERR_INVAL, nfsv3.NFS3ERR_NAMETOOLONG, nfsv3.NFS3ERR_NOTSUPP:
		return st
	default:
		return nfsv3.NFS3ERR_SERVERFAULT
	}
}

// export finds the directory that a client mounts: "/portal", "/portal/sub", or "/" if there is
// exactly one portal. As with other servers the path is looked up as root; what the client may do
// there is another matter.
func (s *Server) export(ctx context.Context, r *request, dir string) (h fabric.Handle, err error) {
	steps := strings.FieldsFunc(path.Clean("/"+dir), func(c rune) bool { return c == '/' })
	if len(steps) == 0 {
		names := s.portals.Names()
		if len(names) != 1 {
			return h, fabric.NotExist
		}
		steps = names
	}
	p, err := s.portals.Portal(steps[0])
	if err != nil {
		return h, err
	}
	policy := p.Policy()
	if !admits(&policy, r.from) {
		return h, fabric.Denied
	}
	fs := p.As(fabric.Root())
	ino := fs.Root()
	if len(steps) > 1 {
		attrs, err := fs.Walk(ctx, ino, steps[1:])
		if err != nil {
			return h, err
		}
		last := attrs[len(attrs)-1]
		if last.Type != fabric.TypeDir {
			return h, fabric.NotDir
		}
		ino = last.Ino
	}
	return p.Handle(ino), nil
}

// exports lists the portals and who may mount them.
func (s *Server) exports(r *request) {
	for _, name := range s.portals.Names() {
		p, err := s.portals.Portal(name)
		if err != nil {
			continue // its directory is not there yet
		}
		policy := p.Policy()
		if len(policy.Protocols) > 0 && !slices.Contains(policy.Protocols, "nfs") {
			continue
		}
		r.out.u32(1)
		r.out.name("/" + name)
		groups := []string{"127.0.0.0/8", "::1/128"}
		if len(policy.Clients) > 0 {
			groups = groups[:0]
			for _, c := range policy.Clients {
				groups = append(groups, c.String())
			}
		}
		for _, g := range groups {
			r.out.u32(1)
			r.out.name(g)
		}
		r.out.u32(0)
	}
	r.out.u32(0)
}
