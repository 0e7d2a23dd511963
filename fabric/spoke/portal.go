package spoke

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/spokefs/spokefs/fabric"
)

// Site is the set of portals that a node shows; it implements fabric.Portals. The set changes by
// Set and Remove.
type Site struct {
	mu      sync.RWMutex // guards portals
	portals map[string]*portal
}

// NewSite is an empty set.
func NewSite() *Site { return &Site{portals: map[string]*portal{}} }

// Set shows a subtree of a namespace as a portal, or changes how. dir is the absolute path of the
// subtree's root, which need not exist yet.
func (t *Site) Set(name string, s *Spoke, dir string, policy fabric.Policy) {
	p := &portal{name: name, s: s, policy: policy, id: xxh3.HashString(name)}
	if s.info.ReadOnly {
		p.policy.ReadOnly = true
	}
	for _, seg := range strings.Split(path.Clean(dir), "/") {
		if seg != "" {
			p.path = append(p.path, seg)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.portals[name] = p
}

// Remove stops showing a portal.
func (t *Site) Remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.portals, name)
}

// Portal implements fabric.Portals. The portal's root must exist.
func (t *Site) Portal(name string) (fabric.Portal, error) {
	t.mu.RLock()
	p := t.portals[name]
	t.mu.RUnlock()
	if p == nil {
		return nil, fabric.NotExist
	}
	if err := p.find(); err != nil {
		return nil, err
	}
	return p, nil
}

// Names implements fabric.Portals.
func (t *Site) Names() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]string, 0, len(t.portals))
	for name := range t.portals {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Resolve implements fabric.Portals.
func (t *Site) Resolve(h []byte) (fabric.Portal, fabric.Ino, error) {
	if len(h) != fabric.HandleLen || h[0] != handleVersion {
		return nil, 0, fabric.BadHandle
	}
	id := binary.BigEndian.Uint64(h[8:])
	t.mu.RLock()
	var p *portal
	for _, q := range t.portals {
		if q.id == id {
			p = q
		}
	}
	t.mu.RUnlock()
	if p == nil {
		return nil, 0, fabric.Stale
	}
	ino, err := p.Resolve(h)
	if err != nil {
		return nil, 0, err
	}
	return p, ino, p.find()
}

// portal implements fabric.Portal.
type portal struct {
	name   string
	s      *Spoke
	id     uint64
	path   []string
	policy fabric.Policy

	mu   sync.Mutex // guards root
	root fabric.Ino // 0 until it was found
}

// find looks for the portal's root, once.
func (p *portal) find() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root != 0 {
		return nil
	}
	dir := fabric.RootIno
	for _, name := range p.path {
		a, err := p.s.lookup(p.s.ctx, dir, name)
		if err != nil {
			return err
		}
		if a.Type != fabric.TypeDir {
			return fabric.NotDir
		}
		dir = a.Ino
	}
	p.root = dir
	return nil
}

// Name implements fabric.Portal.
func (p *portal) Name() string { return p.name }

// Policy implements fabric.Portal.
func (p *portal) Policy() fabric.Policy { return p.policy }

// As implements fabric.Portal.
func (p *portal) As(who fabric.Cred) fabric.FS { return &view{p: p, s: p.s, who: who} }

// Watch implements fabric.Portal.
func (p *portal) Watch(o fabric.Observer) (fabric.Watcher, func()) { return p.s.watch(o) }

// Verifier implements fabric.Portal.
func (p *portal) Verifier() uint64 {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.verifier
}

// ID implements fabric.Portal: of the namespace, so that a file has one st_dev everywhere.
func (p *portal) ID() uint64 { return p.s.info.ID }

// handleVersion is the first byte of a handle (A38, docs/formats/handle.md).
const handleVersion = 1

// Handle implements fabric.Portal.
func (p *portal) Handle(ino fabric.Ino) fabric.Handle {
	var h fabric.Handle
	h[0] = handleVersion
	binary.BigEndian.PutUint64(h[8:], p.id)
	binary.BigEndian.PutUint64(h[16:], uint64(ino))
	binary.BigEndian.PutUint64(h[24:], p.s.info.History)
	copy(h[32:], p.seal(h[:32]))
	return h
}

// seal authenticates the first 32 bytes of a handle.
func (p *portal) seal(head []byte) []byte {
	mac := hmac.New(sha256.New, p.s.info.HandleKey[:])
	mac.Write(head)
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], p.s.info.ID)
	mac.Write(id[:])
	return mac.Sum(nil)[:16]
}

// Resolve implements fabric.Portal: BadHandle for what was not made here, Stale for another history.
func (p *portal) Resolve(h []byte) (fabric.Ino, error) {
	if len(h) != fabric.HandleLen || h[0] != handleVersion || binary.BigEndian.Uint64(h[8:]) != p.id ||
		!hmac.Equal(h[32:], p.seal(h[:32])) {
		return 0, fabric.BadHandle
	}
	if binary.BigEndian.Uint64(h[24:]) != p.s.info.History {
		return 0, fabric.Stale
	}
	return fabric.Ino(binary.BigEndian.Uint64(h[16:])), nil
}

// bounded gives the context of one call: a portal may turn waiting into an error.
func (p *portal) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := p.policy.FailAfter; d > 0 {
		return context.WithTimeout(ctx, d)
	}
	return ctx, func() {}
}
