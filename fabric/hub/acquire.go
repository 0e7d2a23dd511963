package hub

import (
	"context"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// Acquire implements spoke.Hub.
func (s *Session) Acquire(ctx context.Context, wants []rights.Want) ([]rights.Grant, []namespace.Inode, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	if err := s.check(wants); err != nil {
		return nil, nil, err
	}
	for range s.n.cfg.Races {
		grants, settled, err := s.rights(ctx, wants)
		if err != nil {
			return nil, nil, err
		}
		inodes := make([]namespace.Inode, len(wants))
		var young []fabric.Ino
		s.n.view(func(v kv.View) {
			for i, w := range wants {
				inodes[i], _ = namespace.GetInode(v, w.Ino)
				young = s.young(v, w.Ino, settled, young)
			}
		})
		if len(young) == 0 {
			return s.without(grants, inodes), inodes, nil
		}
		if err := s.grown(ctx); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, &fabric.Error{Op: "acquire", Code: fabric.Unavailable}
}

// check refuses wants that make no sense.
func (s *Session) check(wants []rights.Want) error {
	if len(wants) > s.n.cfg.MaxWants {
		return fabric.TooBig
	}
	w := false
	for _, x := range wants {
		if x.Ino == 0 || x.Right == 0 || x.Right&^(rights.R|rights.D|rights.W) != 0 {
			return fabric.Invalid
		}
		w = w || x.Right&rights.W != 0
	}
	if !w {
		return nil
	}
	if s.readOnly {
		return fabric.ReadOnly
	}
	var code fabric.Code
	s.n.view(func(v kv.View) {
		for _, x := range wants {
			if x.Right&rights.W == 0 {
				continue
			}
			// A type never changes. What is not there yet may be soon, and is checked by GrantW.
			if a, ok := namespace.GetAttr(v, x.Ino); ok && a.Type != fabric.TypeFile {
				code = fabric.Invalid
			}
		}
	})
	if code != fabric.OK {
		return code
	}
	return nil
}

// rights asks the table, waits, logs W, and returns after a barrier or proposal that began after
// the rights were recorded: what is read now is protected by them.
func (s *Session) rights(ctx context.Context, wants []rights.Want) (g []rights.Grant, settled fabric.Ino, err error) {
	w, err := s.ask(wants)
	if err != nil {
		return nil, 0, err
	}
	select {
	case <-w.done:
	case <-s.done:
		return nil, 0, s.over()
	case <-ctx.Done():
		s.withdraw(w)
		return nil, 0, fabric.Canceled
	}
	if w.code != fabric.OK {
		s.undo(w.grants)
		return nil, 0, w.code
	}
	logged, err := s.logW(w.grants)
	if err != nil {
		return nil, 0, err
	}
	if logged {
		return w.grants, w.settled, s.n.still(s.term)
	}
	return w.grants, w.settled, s.n.fresh(ctx, s.term)
}

// ask puts all wants to the table in one go.
func (s *Session) ask(wants []rights.Want) (*wait, error) {
	w := newWait(len(wants))
	n := s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.code != fabric.OK {
		return nil, s.code
	}
	if len(wants) == 0 {
		close(w.done)
	}
	if len(n.creations) > 0 {
		w.settled = n.creations[0].base
	}
	for i, x := range wants {
		n.apply(rights.Wanted{ID: n.expect(w, i), Session: s.id, Epoch: s.epoch, Want: x})
	}
	return w, nil
}

// withdraw takes back what is not answered yet, and W that was answered and will not be logged.
func (s *Session) withdraw(w *wait) {
	n := s.n
	n.mu.Lock()
	for id := range w.pending { // order does not matter: each is taken back
		delete(n.waits, id)
		if s.code == fabric.OK {
			n.apply(rights.Withdrawn{ID: id})
		}
	}
	n.mu.Unlock()
	s.undo(w.grants)
}

// undo takes back W that was not logged. R and D that nobody heard of stay recorded: a recall of
// them is answered at once.
func (s *Session) undo(grants []rights.Grant) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.code != fabric.OK {
		return
	}
	for _, g := range grants {
		if g.Right&rights.W != 0 {
			s.n.apply(rights.Undone{Session: s.id, Ino: g.Ino})
		}
	}
}

// logW commits the W among grants; logged says that there were some.
func (s *Session) logW(grants []rights.Grant) (logged bool, err error) {
	op := &namespace.GrantW{Session: s.id, Epoch: s.epoch}
	for _, g := range grants {
		if g.Right&rights.W != 0 {
			op.Inos = append(op.Inos, g.Ino)
		}
	}
	if len(op.Inos) == 0 {
		return false, nil
	}
	s.n.mu.Lock()
	reign := s.n.reign
	s.n.mu.Unlock()
	// Not under the caller's ctx: once proposed, its outcome must be known.
	res, err := s.n.own(reign, op)
	if err == nil && res[0].Code != fabric.OK {
		err = res[0].Code
		if res[0].Raced {
			err = fabric.Unavailable
		}
	}
	if err != nil {
		s.undo(grants)
		return false, err
	}
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	for _, ino := range op.Inos {
		s.n.apply(rights.Logged{Session: s.id, Ino: ino})
	}
	return true, nil
}

// young appends ino, unless it is settled, if the log has W on it for another session: the command
// that made it had not been taken note of when the table was asked. Whoever names an inode has
// seen it applied, so its command was under way at that time or had ended before.
func (s *Session) young(v kv.View, ino, settled fabric.Ino, dst []fabric.Ino) []fabric.Ino {
	if ino <= settled {
		return dst
	}
	if owner, ok := namespace.GetW(v, ino); ok && owner != s.id {
		dst = append(dst, ino)
	}
	return dst
}

// grown waits until the commands that are under way now have been taken note of.
func (s *Session) grown(ctx context.Context) error {
	s.n.mu.Lock()
	var waits []chan struct{}
	for _, c := range s.n.creations {
		waits = append(waits, c.done)
	}
	s.n.mu.Unlock()
	for _, w := range waits {
		select {
		case <-w:
		case <-ctx.Done():
			return fabric.Canceled
		}
	}
	return nil
}

// without gives back the rights on what is not there.
func (s *Session) without(grants []rights.Grant, inodes []namespace.Inode) []rights.Grant {
	for i := range grants {
		if inodes[i].Ino != 0 || grants[i].Right == 0 {
			continue
		}
		s.n.mu.Lock()
		if s.code == fabric.OK {
			s.n.apply(rights.Released{Session: s.id, Epoch: s.epoch, Grant: rights.Grant{
				Ino: grants[i].Ino, Right: ^rights.Right(0), Seq: grants[i].Seq}})
		}
		s.n.mu.Unlock()
		grants[i].Right = 0
	}
	return grants
}

// Peek implements spoke.Hub.
func (s *Session) Peek(ctx context.Context, inos []fabric.Ino) ([]namespace.Inode, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(inos) > s.n.cfg.MaxWants {
		return nil, fabric.TooBig
	}
	out := make([]namespace.Inode, len(inos))
	s.n.view(func(v kv.View) {
		for i, ino := range inos {
			out[i], _ = namespace.GetPartial(v, ino)
		}
	})
	return out, nil
}
