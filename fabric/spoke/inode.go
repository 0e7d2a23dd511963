package spoke

import (
	"context"
	"sort"
	"strings"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// inode is what is known of one inode. Spoke.mu guards it, but for file's inner state.
type inode struct {
	ino   fabric.Ino
	known bool            // state is what R or W protects
	seq   uint64          // of the grant that state came with
	state namespace.Inode // as the hub has it; Partial: content or xattrs are missing
	opens int             // open files here
	held  bool            // it has no name, and is held for this session (A30)
	fresh bool            // it was made without a name and waits for Replace
	told  bool            // an Ack said that it is open here
	used  uint64          // Spoke.clock at the last use
	file  *file           // once it was written here
}

// directory is what is known of one directory's entries under D.
type directory struct {
	seq      uint64 // of the D grant
	entries  map[string]entry
	complete bool   // what is not in entries is not there
	changes  uint64 // of our own
	changed  uint64 // Spoke.answers at the last of them
	used     uint64
	// order are the entries' names by cookie and by name, made when first wanted after a change.
	byCookie []listed
	byName   []listed
}

// entry is a name, or the knowledge that there is none (ino 0). ver is the directory's iver that
// it was learnt at from a change of our own.
type entry struct {
	ino    fabric.Ino
	cookie fabric.Cookie
	ver    uint64
}

type listed struct {
	name string
	entry
}

// alive says whether what is known of an inode may be told. Of one that has no name left, and is not
// kept here, the hub alone knows whether it is still there.
func (n *inode) alive() bool { return n.known && (n.state.Nlink > 0 || n.opens > 0 || n.held) }

// get gives the inode's record, made if there is none. mu is held.
func (s *Spoke) get(ino fabric.Ino) *inode {
	s.clock++
	n := s.inodes[ino]
	if n != nil {
		n.used = s.clock
		return n
	}
	n = &inode{ino: ino, used: s.clock}
	s.inodes[ino] = n
	if len(s.inodes) > s.cfg.Inodes {
		s.forgetSome() // but not n, which is the newest
	}
	return n
}

// forgetSome drops the least used quarter of the inodes that nothing depends on, and releases
// what was held on them. mu is held.
func (s *Spoke) forgetSome() {
	type use struct {
		ino  fabric.Ino
		used uint64
	}
	var idle []use
	for ino, n := range s.inodes {
		if n.opens == 0 && !n.held && (n.file == nil || n.file.idle()) {
			idle = append(idle, use{ino, n.used})
		}
	}
	sort.Slice(idle, func(i, j int) bool { return idle[i].used < idle[j].used })
	ss := s.sess
	var back []rights.Grant
	for _, u := range idle[:len(idle)/4] {
		right, seq := ss.held.Right(u.ino)
		delete(s.inodes, u.ino)
		delete(s.dirs, u.ino)
		if right != 0 {
			s.stepLocked(ss, rights.Given{Ino: u.ino, Right: right})
			back = append(back, rights.Grant{Ino: u.ino, Right: right, Seq: seq, Epoch: ss.held.Epoch(), Term: ss.held.Term()})
		}
	}
	if len(back) > 0 {
		s.done.Go(func() { ss.link.Hub.Release(ss.ctx, back) }) // a lost one is recalled some day
	}
}

// valid says whether a right may be used now. mu is held.
func (s *Spoke) valid(ino fabric.Ino, r rights.Right) bool {
	return s.sess.held.Valid(s.deps.Boot(), ino, r)
}

// grant takes a grant and says whether what came with it may be kept. mu is held.
func (s *Spoke) grant(ss *session, g rights.Grant) bool {
	if g.Right == 0 || ss != s.sess {
		return false
	}
	for _, e := range s.stepLocked(ss, rights.Granted{Grant: g}) {
		if _, ok := e.(rights.Accepted); ok {
			return true
		}
	}
	return false
}

// learn keeps the state of an inode that came with a grant of R or W, or may be kept under one
// held already. mu is held.
func (s *Spoke) learn(state *namespace.Inode, seq uint64) *inode {
	n := s.get(state.Ino)
	if n.known && n.state.Iver > state.Iver {
		return n // a change of our own was faster
	}
	if n.known && n.state.Iver == state.Iver && state.Partial && !n.state.Partial {
		return n
	}
	n.known, n.seq, n.state = true, seq, *state
	if n.file != nil {
		n.file.rebase(&n.state)
	}
	return n
}

// attrOf gives an inode's attributes as clients see them: with what is written here and not
// published, and how long they stay fresh. mu is held.
func (s *Spoke) attrOf(n *inode) fabric.Attr {
	a := n.state.Attr
	if n.file != nil {
		n.file.overlayAttr(&a)
	}
	if s.valid(n.ino, rights.R) {
		a.Fresh = s.sess.held.Until().Sub(s.deps.Boot())
	}
	return a
}

// stat gives an inode's attributes, from what is held or from the hub.
func (s *Spoke) stat(ctx context.Context, ino fabric.Ino) (fabric.Attr, error) {
	return s.attributes(ctx, ino, true)
}

// attributes is stat. If exact is false, the times, links and size of a directory may be those
// before a change of a name in it that is on its way.
func (s *Spoke) attributes(ctx context.Context, ino fabric.Ino, exact bool) (fabric.Attr, error) {
	s.mu.Lock()
	if n := s.inodes[ino]; n != nil && n.alive() && s.flights.attrs[ino] == 0 && !(exact && s.flights.dirs[ino] > 0) && s.valid(ino, rights.R) {
		s.clock++
		n.used = s.clock
		a := s.attrOf(n)
		s.mu.Unlock()
		return a, nil
	}
	s.mu.Unlock()
	state, err := s.acquire(ctx, rights.Want{Ino: ino, Right: rights.R})
	return state.Attr, err
}

// full gives an inode with all it has: content root or inline bytes, and xattrs.
func (s *Spoke) full(ctx context.Context, ino fabric.Ino, wait bool) (namespace.Inode, error) {
	s.mu.Lock()
	if n := s.inodes[ino]; n != nil && n.alive() && !n.state.Partial && s.flights.attrs[ino] == 0 && s.valid(ino, rights.R) {
		s.clock++
		n.used = s.clock
		state := n.state
		state.Attr = s.attrOf(n)
		s.mu.Unlock()
		return state, nil
	}
	s.mu.Unlock()
	return s.acquire(ctx, rights.Want{Ino: ino, Right: rights.R, Wait: wait})
}

// acquire asks the hub for one right and gives the inode as clients see it. Stale if it is gone.
func (s *Spoke) acquire(ctx context.Context, w rights.Want) (namespace.Inode, error) {
	states, err := s.acquireAll(ctx, []rights.Want{w})
	if err != nil {
		return namespace.Inode{}, err
	}
	if states[0].Ino == 0 {
		return states[0], fabric.Stale
	}
	return states[0], nil
}

// acquireAll asks for several rights at once; the answer is in the order of wants, and Ino is 0 for
// what is gone. What was granted is learned, and so not lost, if a later call for the rest fails.
func (s *Spoke) acquireAll(ctx context.Context, wants []rights.Want) (all []namespace.Inode, err error) {
	for len(all) < len(wants) {
		some, err := s.acquireSome(ctx, wants[len(all):])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// acquireSome is one call; it answers for the first of wants, at least one.
func (s *Spoke) acquireSome(ctx context.Context, wants []rights.Want) ([]namespace.Inode, error) {
	return call(ctx, s, func(ctx context.Context, ss *session) ([]namespace.Inode, error) {
		grants, states, err := ss.link.Hub.Acquire(ctx, wants)
		if err == nil && (len(states) == 0 || len(states) > len(wants) || len(grants) != len(states)) {
			err = &fabric.Error{Op: "acquire", Code: fabric.Internal}
		}
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range states {
			st := &states[i]
			if st.Ino == 0 {
				continue
			}
			right, seq := ss.held.Right(st.Ino)
			if s.grant(ss, grants[i]) {
				right, seq = ss.held.Right(st.Ino)
			}
			if right&(rights.R|rights.W) != 0 && ss == s.sess {
				n := s.learn(st, seq)
				st.Attr = s.attrOf(n)
			}
			if right&rights.D != 0 {
				s.openDir(st.Ino, seq)
			}
		}
		return states, nil
	})
}

// openDir begins to know a directory's entries under a D grant. mu is held.
func (s *Spoke) openDir(ino fabric.Ino, seq uint64) *directory {
	d := s.dirs[ino]
	if d == nil {
		d = &directory{seq: seq, entries: map[string]entry{}}
		s.dirs[ino] = d
	}
	s.clock++
	d.used = s.clock
	return d
}

// dir gives what is known of a directory, nil if D does not hold. mu is held.
func (s *Spoke) dir(ino fabric.Ino) *directory {
	d := s.dirs[ino]
	if d == nil || !s.valid(ino, rights.D) {
		return nil
	}
	s.clock++
	d.used = s.clock
	return d
}

// set learns an entry, under a copy of its name. mu is held.
func (d *directory) set(name string, e entry) {
	if old, ok := d.entries[name]; ok && old.ver > e.ver && e.ver != 0 {
		return
	}
	d.entries[strings.Clone(name)] = e
	d.byCookie, d.byName = nil, nil
}

// lookup finds a name in a directory, in what is held or at the hub.
func (s *Spoke) lookup(ctx context.Context, dir fabric.Ino, name string) (fabric.Attr, error) {
	s.mu.Lock()
	if d := s.dir(dir); d != nil && s.flights.names[touched{dir, name}] == 0 {
		e, ok := d.entries[name]
		if ok && e.ino != 0 {
			s.mu.Unlock()
			a, err := s.stat(ctx, e.ino)
			if err == nil || fabric.CodeOf(err) != fabric.Stale {
				return a, err
			}
		} else if ok || d.complete {
			s.mu.Unlock()
			return fabric.Attr{}, fabric.NotExist
		} else {
			s.mu.Unlock()
		}
	} else {
		s.mu.Unlock()
	}
	found, err := s.find(ctx, dir, []string{name}, firstBytes)
	if err != nil {
		return fabric.Attr{}, err
	}
	switch {
	case found[0].Inode.Ino == 0:
		return fabric.Attr{}, fabric.Stale
	case len(found) < 2:
		return fabric.Attr{}, fabric.NotDir
	case found[1].Inode.Ino == 0:
		return fabric.Attr{}, fabric.NotExist
	}
	return found[1].Inode.Attr, nil
}

// firstBytes is how much of a file comes with the lookup of a name that no listing brought: who
// looks one up that way mostly reads it.
const firstBytes = 64 << 10

// find follows a path at the hub in one call and learns all that it brings. The first Found is dir
// itself.
func (s *Spoke) find(ctx context.Context, dir fabric.Ino, path []string, want int) ([]namespace.Found, error) {
	return call(ctx, s, func(ctx context.Context, ss *session) ([]namespace.Found, error) {
		s.mu.Lock()
		asked := s.answers
		s.mu.Unlock()
		grants, found, err := ss.link.Hub.Lookup(ctx, dir, path, want)
		if err == nil && len(found) == 0 {
			err = fabric.Internal
		}
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		for _, g := range grants {
			if s.grant(ss, g) && g.Right&rights.D != 0 {
				s.openDir(g.Ino, g.Seq)
			}
		}
		if ss == s.sess {
			for i := range found {
				s.learnFound(ss, &found[i], asked)
			}
		}
		s.mu.Unlock()
		for i := range found {
			for _, b := range found[i].Blobs {
				if err := s.cache.Take(b); err != nil {
					s.deps.Slog.Warn("a lookup brought a bad blob", "blob", b.Ref, "err", err)
				}
			}
		}
		return found, nil
	})
}

// learnFound keeps one step of a lookup, as far as rights cover it. asked is what Spoke.answers was
// when the hub was asked: a change of our own that was answered since knows better. mu is held.
func (s *Spoke) learnFound(ss *session, f *namespace.Found, asked uint64) {
	if d := s.dir(f.Dir); d != nil && f.Name != "" && d.changed <= asked {
		d.set(f.Name, entry{ino: f.Inode.Ino, cookie: f.Cookie})
	}
	if f.Inode.Ino == 0 {
		return
	}
	if right, seq := ss.held.Right(f.Inode.Ino); right&(rights.R|rights.W) != 0 {
		n := s.learn(&f.Inode, seq)
		f.Inode.Attr = s.attrOf(n)
	}
}
