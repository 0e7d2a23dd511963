package spoke

import (
	"context"

	"github.com/spokefs/spokefs/cache/journal"
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// touched names the directories of an op, and its names in them.
type touched struct {
	dir  fabric.Ino
	name string
}

// names lists what an op may do to entries.
func names(o namespace.Op) []touched {
	switch o := o.(type) {
	case *namespace.Make:
		if o.Name != "" {
			return []touched{{o.Dir, o.Name}}
		}
	case *namespace.Link:
		return []touched{{o.Dir, o.Name}}
	case *namespace.Replace:
		return []touched{{o.Dir, o.Name}}
	case *namespace.Remove:
		return []touched{{o.Dir, o.Name}}
	case *namespace.Rename:
		return []touched{{o.From, o.Old}, {o.To, o.Name}}
	}
	return nil
}

// unsure forgets what a command whose outcome is not known may have changed. mu is held.
func (s *Spoke) unsure(ops []namespace.Op) {
	for _, o := range ops {
		for _, t := range names(o) {
			delete(s.dirs, t.dir)
			if n := s.inodes[t.dir]; n != nil {
				n.known = false
			}
		}
	}
}

// digest lays the results of a command over what is known. mu is held.
func (s *Spoke) digest(ss *session, before map[fabric.Ino]uint64, ops []namespace.Op, res namespace.Result) {
	if ss != s.sess {
		return
	}
	s.answers++
	for i, o := range ops {
		r := &res.Ops[i]
		if r.Held {
			s.get(r.Lost.Ino).held = true
		}
		s.refresh(&r.Dir.After)
		s.refresh(&r.Dir2.After)
		s.refresh(&r.Lost)
		if m, ok := o.(*namespace.Make); ok && r.Code == fabric.OK {
			s.learnMade(ss, m, r)
		} else {
			s.refresh(&r.Attr)
		}
		if r.Code != fabric.OK {
			continue
		}
		if _, ok := o.(*namespace.Replace); ok {
			n := s.get(r.Attr.Ino)
			n.held, n.fresh = false, false
		}
		for j, t := range names(o) {
			d := s.dirs[t.dir]
			if d == nil {
				continue
			}
			if before[t.dir] != d.seq {
				delete(s.dirs, t.dir) // it began to be known while the command was on its way
				continue
			}
			d.changes++
			d.changed = s.answers
			e := entry{ver: r.Dir.After.Iver}
			if j == 1 && t.dir != r.Dir.After.Ino {
				e.ver = r.Dir2.After.Iver
			}
			switch o.(type) {
			case *namespace.Remove:
			case *namespace.Rename:
				if j == 1 {
					e.ino, e.cookie = r.Attr.Ino, r.Cookie
				} else if r.Dir.After.Iver == r.Dir.Before.Iver {
					continue // two names of one file: nothing happened
				}
			default:
				e.ino, e.cookie = r.Attr.Ino, r.Cookie
			}
			d.set(t.name, e)
		}
	}
}

// refresh takes newer attributes of an inode whose state is kept. mu is held.
func (s *Spoke) refresh(a *fabric.Attr) {
	n := s.inodes[a.Ino]
	if a.Ino == 0 || n == nil || !n.known || n.state.Iver >= a.Iver {
		return
	}
	if n.state.Type == fabric.TypeFile && (a.Size != n.state.Size) && n.file == nil {
		n.known = false // its content changed: ask for all of it
		return
	}
	n.state.Attr = *a
	if n.file != nil {
		n.file.passed(a.Ctime)
	}
}

// learnMade keeps an inode that was just made, if W came with it. mu is held.
func (s *Spoke) learnMade(ss *session, m *namespace.Make, r *namespace.OpResult) {
	st := namespace.Inode{Attr: r.Attr, Target: m.Spec.Target, Verifier: m.Spec.Verifier, Content: m.Content, Xattrs: m.Xattrs}
	if right, seq := ss.held.Right(r.Attr.Ino); right&(rights.R|rights.W) != 0 {
		s.learn(&st, seq)
	}
	if m.Name == "" {
		n := s.get(r.Attr.Ino)
		n.held, n.fresh = true, true
	}
}

// run sends one op and gives its result, whose code is the error. The node's other observers have
// dropped what the op changed when it returns.
func (s *Spoke) run(ctx context.Context, op namespace.Op, skip fabric.Watcher) (namespace.OpResult, error) {
	res, err := s.change(ctx, op)
	if err != nil {
		return namespace.OpResult{}, err
	}
	r := res[0]
	s.note(&r.Attr)
	s.note(&r.Lost)
	if r.Code == fabric.OK {
		s.tell(ctx, op, &r, skip)
	}
	s.release(r.Lost.Ino)
	if r.Code != fabric.OK {
		return r, r.Code
	}
	return r, nil
}

// note tells the journal that a file with unpublished writes has another version by a change of our
// own, so that a replay does not take it for somebody else's.
func (s *Spoke) note(a *fabric.Attr) {
	if a.Ino == 0 {
		return
	}
	s.mu.Lock()
	_, dirty := s.dirty[a.Ino]
	s.mu.Unlock()
	if dirty { // a note that is lost costs a look at the content, or parks it
		s.jrn.Append(journal.Record{Type: journal.Published, Ino: a.Ino, Base: a.Iver}, nil)
	}
}

// release gives up the hold on an inode without a name that nobody here has open (A30).
func (s *Spoke) release(ino fabric.Ino) {
	if s.unhold(ino) {
		s.done.Go(func() { s.dropHold(s.ctx, ino) }) // else the session's end frees it
	}
}

// unhold forgets what is held here of an inode without a name, unless it is open or waits for Replace.
func (s *Spoke) unhold(ino fabric.Ino) bool {
	s.mu.Lock()
	n := s.inodes[ino]
	free := ino != 0 && n != nil && n.held && n.opens == 0 && !n.fresh
	if free {
		n.held, n.known = false, false // it is gone: who asks is told by the hub
		delete(s.dirty, ino)
	}
	s.mu.Unlock()
	if free && n.file != nil {
		n.file.abandon()
	}
	return free
}

func (s *Spoke) dropHold(ctx context.Context, ino fabric.Ino) error {
	_, err := s.change(ctx, &namespace.DropHold{Inos: []fabric.Ino{ino}})
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.inodes[ino]; n != nil {
		n.known = false // who asked while it was on its way learnt what is no more
	}
	return err
}

// Discard implements fabric.FS.
func (v *view) Discard(ctx context.Context, ino fabric.Ino) error {
	v.s.mu.Lock()
	n := v.s.inodes[ino]
	if n == nil || !n.fresh {
		v.s.mu.Unlock()
		return fabric.Invalid
	}
	n.fresh = false
	v.s.mu.Unlock()
	if !v.s.unhold(ino) {
		return nil // the last Close does it
	}
	return v.s.dropHold(ctx, ino)
}

// abandon forgets what is dirty of a file that nobody can ever read.
func (f *file) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.places {
		f.s.jrn.Done(r.place)
	}
	f.places, f.over, f.dirty = nil, nil, false
}

// tell tells the node's other observers what an op changed.
func (s *Spoke) tell(ctx context.Context, op namespace.Op, r *namespace.OpResult, skip fabric.Watcher) {
	if len(s.others(skip)) == 0 {
		return
	}
	var keys []fabric.Key
	for _, a := range []*fabric.Attr{&r.Attr, &r.Dir.After, &r.Dir2.After, &r.Lost} {
		if a.Ino != 0 {
			keys = append(keys, fabric.Key{Kind: fabric.KeyAttr, Ino: a.Ino})
		}
	}
	for _, t := range names(op) {
		keys = append(keys, fabric.Key{Kind: fabric.KeyEntry, Ino: t.dir, Name: t.name})
	}
	s.invalidate(ctx, keys, skip)
}
