package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/admin"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/system"
)

var _ admin.Node = (*Process)(nil)

// onlyHub is the answer of a spoke to what a hub administers.
func (p *Process) onlyHub(op string) error {
	if p.hub == nil {
		return &fabric.Error{Op: op, Code: fabric.Unsupported, Err: errors.New("this node is a spoke: ask the hub")}
	}
	return nil
}

// Status implements admin.Node.
func (p *Process) Status(ctx context.Context) (admin.Status, error) {
	s := admin.Status{
		Role: "spoke", Version: p.version, PID: os.Getpid(), Up: time.Since(p.started),
		Portals: p.spoke.Site.Names(), Endpoints: p.fronts.list(),
	}
	if p.hub != nil {
		s.Role, s.Node = "hub+spoke", p.hub.cfg.Name
	}
	p.spoke.mu.Lock()
	defer p.spoke.mu.Unlock()
	for name, a := range p.spoke.spokes {
		st := a.spoke.Status()
		n := admin.Namespace{
			Name: name, ID: a.spoke.Info().ID, State: st.State, Term: st.Term,
			Dirty: st.Dirty, Bytes: st.Journal, Parked: st.Parked,
		}
		if p.hub != nil {
			p.hub.describe(&n)
		}
		s.Namespaces = append(s.Namespaces, n)
		c := a.spoke.Cache().Stats()
		s.Cache.Bytes += c.Bytes
		s.Cache.Limit += c.Limit
		s.Cache.Hits += c.Hits
		s.Cache.Misses += c.Misses
		s.Cache.Corrupt += c.Corrupt
		s.Cache.Evictions += c.Evicted
		s.Wan.Asked += a.spoke.Asked()
		s.Wan.Raw += c.FetchedRaw
		s.Wan.Stored += c.Fetched
	}
	slices.SortFunc(s.Namespaces, func(a, b admin.Namespace) int { return strings.Compare(a.Name, b.Name) })
	if p.remote != nil {
		w := p.remote.client.Stats()
		s.Wan.Sent, s.Wan.Received = w.Sent, w.Received
		s.Node = p.remote.name
	}
	return s, nil
}

// describe adds what the hub knows of a namespace.
func (h *Hub) describe(n *admin.Namespace) {
	served, err := h.namespace(n.Name)
	if err != nil {
		return
	}
	n.Term, n.Leading, _ = served.group.log.Leading()
	n.Applied = served.group.state.Applied()
	for _, s := range served.engine.Status().Sessions {
		n.Sessions = append(n.Sessions, s.Node)
	}
	v, done := served.group.state.View()
	defer done()
	n.Usage = namespace.Usage(v)
}

// CreateNamespace implements admin.Node.
func (p *Process) CreateNamespace(ctx context.Context, name string) error {
	if err := p.onlyHub("create namespace"); err != nil {
		return err
	}
	if err := p.hub.CreateNamespace(ctx, name); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// set carries out an administrative change at the hub and shows its effect.
func (p *Process) set(ctx context.Context, op string, c system.Command) error {
	if err := p.onlyHub(op); err != nil {
		return err
	}
	if _, err := p.hub.change(ctx, op, c); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// list reads records of the system group.
func list[T any](ctx context.Context, p *Process, op string, all func(v kv.View) func(func(T) bool)) ([]T, error) {
	if err := p.onlyHub(op); err != nil {
		return nil, err
	}
	v, done, err := p.hub.view(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := []T{}
	for x := range all(v) {
		out = append(out, x)
	}
	return out, nil
}

// Portals implements admin.Node.
func (p *Process) Portals(ctx context.Context) ([]system.Portal, error) {
	return list(ctx, p, "list portals", func(v kv.View) func(func(system.Portal) bool) { return system.Portals(v) })
}

// SetPortal implements admin.Node.
func (p *Process) SetPortal(ctx context.Context, x system.Portal) error {
	return p.set(ctx, "set portal", system.Command{SetPortal: &x})
}

// RemovePortal implements admin.Node.
func (p *Process) RemovePortal(ctx context.Context, name string) error {
	return p.set(ctx, "remove portal", system.Command{RemovePortal: name})
}

// Spokes implements admin.Node.
func (p *Process) Spokes(ctx context.Context) ([]system.Spoke, error) {
	return list(ctx, p, "list spokes", func(v kv.View) func(func(system.Spoke) bool) { return system.Spokes(v) })
}

// Revoke implements admin.Node. It acts at the spoke's next renewal.
func (p *Process) Revoke(ctx context.Context, name string) error {
	all, err := p.Spokes(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Name == name {
			s.Revoked = true
			return p.set(ctx, "revoke spoke", system.Command{SetSpoke: &s})
		}
	}
	return &fabric.Error{Op: "revoke spoke " + name, Code: fabric.NotExist}
}

// maxTokenTime bounds a token that can be used once (A56).
const maxTokenTime = time.Hour

// Token implements admin.Node.
func (p *Process) Token(ctx context.Context, j admin.Join) (string, error) {
	if j.Uses < 1 || j.TTL <= 0 || j.Uses == 1 && j.TTL > maxTokenTime {
		return "", &fabric.Error{Op: "token", Code: fabric.Invalid, Err: fmt.Errorf("a token needs a use, and one for a single use at most %v", maxTokenTime)}
	}
	if err := p.set(ctx, "set spoke", system.Command{SetSpoke: &system.Spoke{Name: j.Spoke, Grants: j.Grants}}); err != nil {
		return "", err
	}
	t, err := identity.NewToken(p.hub.advertised(), j.Spoke, p.hub.ca.Pin())
	if err != nil {
		return "", err
	}
	c := system.Command{CreateToken: &system.Token{
		Hash: identity.HashSecret(t.Secret), Spoke: j.Spoke, Uses: j.Uses, Expires: wall() + fabric.Time(j.TTL),
	}}
	return t.Text(), p.set(ctx, "create token", c)
}

// SetKey implements admin.Node.
func (p *Process) SetKey(ctx context.Context, k system.Key) error {
	return p.set(ctx, "set key", system.Command{SetKey: &k})
}

// RemoveKey implements admin.Node.
func (p *Process) RemoveKey(ctx context.Context, access string) error {
	return p.set(ctx, "remove key", system.Command{RemoveKey: access})
}

// Keys implements admin.Node.
func (p *Process) Keys(ctx context.Context) ([]system.Key, error) {
	keys, err := list(ctx, p, "list keys", func(v kv.View) func(func(system.Key) bool) { return system.Keys(v) })
	for i := range keys {
		keys[i].Secret = ""
	}
	return keys, err
}

// Fsck implements admin.Node.
func (p *Process) Fsck(ctx context.Context) ([]admin.Problem, error) {
	if err := p.onlyHub("fsck"); err != nil {
		return nil, err
	}
	out := []admin.Problem{}
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	for name, s := range p.hub.served {
		if err := s.group.lead(ctx); err != nil {
			return nil, err
		}
		v, done := s.group.state.View()
		for _, x := range namespace.Check(v) {
			out = append(out, admin.Problem{Namespace: name, Ino: x.Ino, What: x.What})
		}
		done()
	}
	return out, nil
}

// Mount implements admin.Node.
func (p *Process) Mount(_ context.Context, m admin.Mount) error {
	return p.fronts.mount(p.spoke.Site, m.Portal, m.Dir)
}

// Unmount implements admin.Node.
func (p *Process) Unmount(_ context.Context, dir string) error { return p.fronts.unmount(dir) }

// look gives root's view of a portal and the inode of a path in it.
func (p *Process) look(ctx context.Context, portal, path string) (fabric.FS, fabric.Attr, error) {
	x, err := p.spoke.Site.Portal(portal)
	if err != nil {
		return nil, fabric.Attr{}, &fabric.Error{Op: "portal " + portal, Code: fabric.CodeOf(err)}
	}
	fs := x.As(fabric.Root())
	names := segments(path)
	if len(names) == 0 {
		a, err := fs.Stat(ctx, fs.Root())
		return fs, a, err
	}
	attrs, err := fs.Walk(ctx, fs.Root(), names)
	if err != nil {
		return fs, fabric.Attr{}, &fabric.Error{Op: path, Code: fabric.CodeOf(err), Err: err}
	}
	return fs, attrs[len(attrs)-1], nil
}

// segments splits a path on '/' and leaves out empty ones.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// List implements admin.Node.
func (p *Process) List(ctx context.Context, portal, path string) ([]admin.File, error) {
	fs, a, err := p.look(ctx, portal, path)
	if err != nil {
		return nil, err
	}
	if a.Type != fabric.TypeDir {
		names := segments(path)
		return []admin.File{{Name: names[len(names)-1], Attr: a}}, nil
	}
	out := []admin.File{}
	for e, err := range fs.ReadDir(ctx, a.Ino, fabric.Pos{}) {
		if err != nil {
			return nil, err
		}
		out = append(out, admin.File{Name: e.Name, Attr: e.Attr})
	}
	return out, nil
}

// Read implements admin.Node.
func (p *Process) Read(ctx context.Context, portal, path string, w io.Writer) error {
	fs, a, err := p.look(ctx, portal, path)
	if err != nil {
		return err
	}
	f, err := fs.Open(ctx, a.Ino, fabric.OpenRead|fabric.OpenFixed)
	if err != nil {
		return err
	}
	defer f.Close(ctx)
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := f.ReadAt(ctx, buf, off)
		if err != nil || n == 0 {
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
}

// Write implements admin.Node: the file appears whole, or not at all.
func (p *Process) Write(ctx context.Context, portal, path string, r io.Reader) error {
	names := segments(path)
	if len(names) == 0 {
		return fabric.IsDir
	}
	fs, dir, err := p.look(ctx, portal, strings.Join(names[:len(names)-1], "/"))
	if err != nil {
		return err
	}
	a, _, err := fs.Make(ctx, dir.Ino, "", fabric.NodeSpec{Type: fabric.TypeFile, Mode: 0o644})
	if err != nil {
		return err
	}
	f, err := fs.Open(ctx, a.Ino, fabric.OpenWrite)
	if err != nil {
		return err
	}
	defer f.Close(ctx)
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if _, _, err := f.WriteAt(ctx, buf[:n], off); err != nil {
				return err
			}
			off += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := f.Sync(ctx); err != nil {
		return err
	}
	_, _, err = fs.Replace(ctx, a.Ino, dir.Ino, names[len(names)-1], fabric.Cond{})
	return err
}

// MakeDir implements admin.Node; a directory that exists is success.
func (p *Process) MakeDir(ctx context.Context, portal, path string) error {
	fs, dir, err := p.look(ctx, portal, "")
	if err != nil {
		return err
	}
	for _, name := range segments(path) {
		a, _, err := fs.Make(ctx, dir.Ino, name, fabric.NodeSpec{Type: fabric.TypeDir, Mode: 0o755})
		if fabric.CodeOf(err) == fabric.Exist {
			a, err = fs.Lookup(ctx, dir.Ino, name)
		}
		if err != nil {
			return err
		}
		dir = a
	}
	return nil
}
