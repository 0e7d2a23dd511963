// Package memfs is the file system of fabric's interfaces in memory: the smallest correct one, which
// the real one is compared with. One mutex guards all of it, every call does what it says at once,
// and nothing outlives the process. It is for tests.
//
// Where the interface leaves a choice, it takes this one: attributes never stay fresh, an unnamed
// file lives until Replace or Discard, and the advisory locks are Unsupported, as in fabric/spoke.
package memfs

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// The room that StatFS tells of, in bytes and inodes.
const (
	capacity       = int64(1) << 50
	capacityInodes = int64(1) << 40
)

// Store is one namespace and the portals that show it; it implements fabric.Portals.
type Store struct {
	key  [32]byte // of handles
	wall func() time.Time

	mu       sync.Mutex // guards all below, and all nodes
	nodes    map[fabric.Ino]*node
	portals  map[string]*portal
	next     fabric.Ino
	now      fabric.Time // the last time given out; it only grows
	watchers map[fabric.Watcher]fabric.Observer
	watcher  fabric.Watcher
}

// node is an inode.
type node struct {
	fabric.Attr
	opens    int
	unnamed  bool // made without a name, and has had none yet
	target   string
	verifier uint64
	xattrs   map[string][]byte
	content  content
	entries  map[string]entry // of a directory
	cookie   fabric.Cookie    // of its next entry
}

type entry struct {
	ino    fabric.Ino
	cookie fabric.Cookie
}

// New makes a namespace of an empty root directory, with this mode, of root. wall is for times of
// files; time.Now if nil.
func New(mode uint16, wall func() time.Time) *Store {
	if wall == nil {
		wall = time.Now
	}
	s := &Store{wall: wall, nodes: map[fabric.Ino]*node{}, portals: map[string]*portal{}, next: fabric.RootIno, watchers: map[fabric.Watcher]fabric.Observer{}}
	rand.Read(s.key[:])
	root := s.newNode(fabric.TypeDir)
	root.Mode, root.Parent = mode&fabric.ModeAll, root.Ino
	return s
}

// Show makes the directory root a portal, or changes how it is shown.
func (s *Store) Show(name string, root fabric.Ino, policy fabric.Policy) fabric.Portal {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(name))
	p := &portal{s: s, name: name, root: root, policy: policy, id: binary.BigEndian.Uint64(sum[:])}
	s.portals[name] = p
	return p
}

// Portal implements fabric.Portals.
func (s *Store) Portal(name string) (fabric.Portal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.portals[name]; p != nil {
		return p, nil
	}
	return nil, fabric.NotExist
}

// Names implements fabric.Portals.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.portals))
}

// Resolve implements fabric.Portals.
func (s *Store) Resolve(h []byte) (fabric.Portal, fabric.Ino, error) {
	for _, name := range s.Names() {
		p, err := s.Portal(name)
		if err != nil {
			continue
		}
		if ino, err := p.Resolve(h); err == nil {
			return p, ino, nil
		}
	}
	return nil, 0, fabric.BadHandle
}

// tick gives the time of a change, later than all before. mu is held.
func (s *Store) tick() fabric.Time {
	s.now = max(s.now+1, fabric.Time(s.wall().UnixNano()))
	return s.now
}

// newNode makes an inode without a name. mu is held, but in New.
func (s *Store) newNode(t fabric.Type) *node {
	now := s.tick()
	n := &node{xattrs: map[string][]byte{}, content: content{}}
	n.Attr = fabric.Attr{Ino: s.next, Type: t, Nlink: 1, Atime: now, Mtime: now, Ctime: now, Btime: now, Iver: 1}
	if t == fabric.TypeDir {
		n.Nlink, n.entries, n.cookie = 2, map[string]entry{}, fabric.FirstCookie
	}
	s.next++
	s.nodes[n.Ino] = n
	return n
}

// touch moves what every change of an inode moves. mu is held.
func (s *Store) touch(n *node) {
	n.Iver++
	n.Ctime = s.tick()
}

// drop forgets an inode that nothing leads to any more. mu is held.
func (s *Store) drop(n *node) {
	if n.Nlink == 0 && n.opens == 0 && !n.unnamed {
		delete(s.nodes, n.Ino)
	}
}

// portal implements fabric.Portal.
type portal struct {
	s      *Store
	name   string
	root   fabric.Ino
	policy fabric.Policy
	id     uint64
}

// Name implements fabric.Portal.
func (p *portal) Name() string { return p.name }

// Policy implements fabric.Portal.
func (p *portal) Policy() fabric.Policy { return p.policy }

// As implements fabric.Portal.
func (p *portal) As(who fabric.Cred) fabric.FS { return &view{p: p, s: p.s, who: who} }

// Verifier implements fabric.Portal: nothing is ever lost but all of it.
func (p *portal) Verifier() uint64 { return binary.BigEndian.Uint64(p.s.key[:]) }

// ID implements fabric.Portal.
func (p *portal) ID() uint64 { return p.id }

// Watch implements fabric.Portal.
func (p *portal) Watch(o fabric.Observer) (from fabric.Watcher, stop func()) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher++
	from = s.watcher
	s.watchers[from] = o
	return from, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, from)
	}
}

// Handle implements fabric.Portal.
func (p *portal) Handle(ino fabric.Ino) fabric.Handle {
	var h fabric.Handle
	binary.BigEndian.PutUint64(h[:], p.id)
	binary.BigEndian.PutUint64(h[8:], uint64(ino))
	mac := hmac.New(sha256.New, p.s.key[:])
	mac.Write(h[:16])
	copy(h[16:], mac.Sum(nil))
	return h
}

// Resolve implements fabric.Portal.
func (p *portal) Resolve(h []byte) (fabric.Ino, error) {
	if len(h) != fabric.HandleLen {
		return 0, fabric.BadHandle
	}
	ino := fabric.Ino(binary.BigEndian.Uint64(h[8:]))
	if want := p.Handle(ino); !hmac.Equal(h, want[:]) {
		return 0, fabric.BadHandle
	}
	return ino, nil
}

// tell tells all observers but one what changed, and waits for them. mu is not held.
func (s *Store) tell(ctx context.Context, skip fabric.Watcher, keys ...fabric.Key) {
	s.mu.Lock()
	watchers := maps.Clone(s.watchers)
	s.mu.Unlock()
	delete(watchers, skip)
	var told sync.WaitGroup
	for _, o := range watchers {
		told.Go(func() { _ = o.Invalidate(ctx, keys) }) // who cannot is the front end's to end
	}
	told.Wait()
}
