package hub

import (
	"cmp"
	"context"
	"slices"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// Apply implements spoke.Hub (A12, A33). It fills Expect, Holders and Wall of c's ops.
func (s *Session) Apply(ctx context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error) {
	var none namespace.Result
	end, err := s.begin(ctx)
	if err != nil {
		return nil, none, err
	}
	defer end()
	if err := s.admit(&c); err != nil {
		return nil, none, err
	}
	leave, err := s.turn(ctx, c.From)
	if err != nil {
		return nil, none, err
	}
	defer leave()
	select {
	case s.n.changes <- struct{}{}:
		defer func() { <-s.n.changes }()
	case <-s.done:
		return nil, none, s.over()
	case <-ctx.Done():
		return nil, none, fabric.Canceled
	}
	for range s.n.cfg.Races {
		grants, res, raced, err := s.attempt(ctx, &c)
		if err != nil || !raced {
			return grants, res, err
		}
	}
	return nil, none, &fabric.Error{Op: "apply", Code: fabric.Unavailable}
}

// admit refuses what a node may not send.
func (s *Session) admit(c *namespace.Command) error {
	f := c.From
	if f.Session != s.id || f.Epoch != s.epoch {
		return fabric.Fenced
	}
	if f.Slot >= namespace.Slots || f.Seq == 0 || len(c.Ops) == 0 || len(c.Ops) > namespace.MaxOps {
		return fabric.Invalid
	}
	for _, op := range c.Ops {
		switch op.(type) {
		case *namespace.Make, *namespace.Link, *namespace.Replace, *namespace.Rename, *namespace.Remove,
			*namespace.SetAttr, *namespace.SetXattr, *namespace.RemoveXattr, *namespace.Publish, *namespace.Clone:
			if s.readOnly {
				return fabric.ReadOnly
			}
		case *namespace.DropHold:
		default:
			return fabric.Invalid
		}
	}
	return nil
}

// turn waits until no earlier command of the slot is under way here.
func (s *Session) turn(ctx context.Context, f namespace.Origin) (leave func(), err error) {
	mine, leave, ok := s.slots.enter(f.Slot, f.Seq)
	if !ok {
		return nil, &fabric.Error{Op: "apply", Code: fabric.Unavailable}
	}
	for {
		t := s.slots.before(f.Slot, mine)
		if t == nil {
			return leave, nil
		}
		select {
		case <-t.done:
		case <-s.done:
			leave()
			return nil, s.over()
		case <-ctx.Done():
			leave()
			return nil, fabric.Canceled
		}
	}
}

// attempt takes the marks, proposes, and takes note of the result. raced: nothing was changed, a
// name meant another inode by then.
func (s *Session) attempt(ctx context.Context, c *namespace.Command) ([]rights.Grant, namespace.Result, bool, error) {
	n := s.n
	marks, victims := s.resolve(c.Ops)
	id, err := s.mark(ctx, marks)
	if err != nil {
		return nil, namespace.Result{}, false, err
	}
	reign, creation, err := s.prepare(c, id, victims)
	if err != nil {
		return nil, namespace.Result{}, false, err
	}
	// Not under the caller's ctx: marks stay until the outcome is known.
	res, err := commit(reign, n.deps.Log, c)
	if err == nil {
		err = verdict(res)
	}
	raced := err == nil && slices.ContainsFunc(res.Ops, func(r namespace.OpResult) bool { return r.Raced })
	if err != nil || raced {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.endCreation(creation)
		if raced {
			n.counts.Raced++
		}
		if n.term == s.term {
			n.apply(rights.Failed{ID: id})
		}
		return nil, namespace.Result{}, raced, err
	}
	grants, err := s.took(c, id, creation, res)
	return grants, res, false, err
}

// verdict is what a node hears of a command that was not carried out.
func verdict(r namespace.Result) error {
	switch r.Verdict {
	case namespace.Applied, namespace.ReadAgain:
		return nil
	case namespace.NotYet:
		return fabric.Unavailable // the earlier one has not come here: it will come again, and this too
	case namespace.Dropped:
		return fabric.Fenced
	}
	return fabric.Invalid
}

// mark takes all marks at once and waits until nobody else uses what they name. Without marks
// there is nothing to wait for, and id is 0.
func (s *Session) mark(ctx context.Context, marks []rights.Mark) (id uint64, err error) {
	if len(marks) == 0 {
		return 0, nil
	}
	n := s.n
	w := newWait(1)
	n.mu.Lock()
	if s.code != fabric.OK {
		defer n.mu.Unlock()
		return 0, s.code
	}
	id = n.expect(w, 0)
	n.apply(rights.Changing{ID: id, Session: s.id, Epoch: s.epoch, Marks: marks})
	n.mu.Unlock()
	select {
	case <-w.done:
		if w.code != fabric.OK {
			s.unmark(id)
			return 0, w.code
		}
		return id, nil
	case <-s.done:
		s.unmark(id)
		return 0, s.over()
	case <-ctx.Done():
		s.unmark(id)
		return 0, fabric.Canceled
	}
}

func (s *Session) unmark(id uint64) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	delete(s.n.waits, id)
	if s.n.term == s.term {
		s.n.apply(rights.Failed{ID: id})
	}
}

// prepare stamps the command, and fills who may have open what loses a name (A30): by now the
// table knows, since all others have answered.
func (s *Session) prepare(c *namespace.Command, id uint64, victims []victim) (context.Context, *creation, error) {
	n := s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.code != fabric.OK {
		if n.term == s.term {
			n.apply(rights.Failed{ID: id})
		}
		return nil, nil, s.code
	}
	for _, v := range victims {
		*v.holders = n.table.Holders(v.ino)
	}
	c.Wall = fabric.Time(n.deps.Wall().UnixNano())
	var cr *creation
	for _, op := range c.Ops {
		if m, ok := op.(*namespace.Make); ok && m.WantW {
			cr = n.startCreation()
			break
		}
	}
	return n.reign, cr, nil
}

// took tells the table what an applied command did, and unmarks. A repeated command is answered
// with its old result: what the log says now counts.
func (s *Session) took(c *namespace.Command, id uint64, cr *creation, res namespace.Result) ([]rights.Grant, error) {
	n := s.n
	owns, dropped := s.ownership(c, res)
	w := newWait(len(owns))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts.Applied++
	for _, r := range res.Ops {
		n.highest = max(n.highest, r.Attr.Ino)
	}
	if n.term != s.term {
		n.endCreation(cr)
		return nil, nil // done all the same; the grants are lost, and W is in the log
	}
	for i, ino := range owns {
		n.apply(rights.Created{ID: n.expect(w, i), Session: s.id, Epoch: s.epoch, Ino: ino})
	}
	n.endCreation(cr)
	for _, ino := range dropped {
		n.apply(rights.Dropped{Session: s.id, Ino: ino})
	}
	n.apply(rights.Applied{ID: id})
	var grants []rights.Grant
	for _, g := range w.grants {
		if g.Right != 0 {
			grants = append(grants, g)
		}
	}
	return grants, nil
}

// ownership is which inodes the command gave this session W on, and of which it gave W back, if
// the log says so still.
func (s *Session) ownership(c *namespace.Command, res namespace.Result) (owns, dropped []fabric.Ino) {
	for i, r := range res.Ops {
		if r.W {
			owns = append(owns, r.Attr.Ino)
		}
		if i >= len(c.Ops) || r.Code != fabric.OK {
			continue
		}
		if p, ok := c.Ops[i].(*namespace.Publish); ok && p.DropW {
			dropped = append(dropped, p.Ino)
		}
	}
	if len(owns)+len(dropped) == 0 {
		return nil, nil
	}
	s.n.view(func(v kv.View) {
		owns = slices.DeleteFunc(owns, func(ino fabric.Ino) bool { return !ownW(v, ino, s.id) })
		dropped = slices.DeleteFunc(dropped, func(ino fabric.Ino) bool { return ownW(v, ino, s.id) })
	})
	return owns, dropped
}

// victim is an inode that an op takes a name from, and where its holders go.
type victim struct {
	ino     fabric.Ino
	holders *[]fabric.SessionID
}

// marks collects the inodes that ops touch.
type marks struct {
	s       *Session
	v       kv.View
	list    []rights.Mark
	victims []victim
}

// resolve finds the inodes that ops touch, in order, and fills what the ops expect their names to be.
func (s *Session) resolve(ops []namespace.Op) ([]rights.Mark, []victim) {
	m := marks{s: s}
	s.n.view(func(v kv.View) {
		m.v = v
		for _, op := range ops {
			m.op(op)
		}
	})
	slices.SortFunc(m.list, func(a, b rights.Mark) int { return cmp.Compare(a.Ino, b.Ino) })
	out := m.list[:0]
	for _, x := range m.list {
		if k := len(out); k > 0 && out[k-1].Ino == x.Ino {
			out[k-1].Dir = out[k-1].Dir || x.Dir
			continue
		}
		out = append(out, x)
	}
	return out, m.victims
}

func (m *marks) op(op namespace.Op) {
	switch op := op.(type) {
	case *namespace.Make:
		if op.Name != "" {
			m.dir(op.Dir)
		}
	case *namespace.Link:
		m.dir(op.Dir)
		m.ino(op.Ino)
	case *namespace.Replace:
		m.dir(op.Dir)
		m.ino(op.Ino)
		op.Expect = m.name(op.Dir, op.Name)
		m.loses(op.Expect.Ino, &op.Holders)
	case *namespace.Rename:
		m.dir(op.From)
		m.dir(op.To)
		op.Src, op.Dst = m.name(op.From, op.Old), m.name(op.To, op.Name)
		m.ino(op.Src.Ino)
		m.loses(op.Dst.Ino, &op.Holders)
	case *namespace.Remove:
		m.dir(op.Dir)
		op.Expect = m.name(op.Dir, op.Name)
		m.loses(op.Expect.Ino, &op.Holders)
	case *namespace.SetAttr:
		m.ino(op.Ino)
	case *namespace.SetXattr:
		m.ino(op.Ino)
	case *namespace.RemoveXattr:
		m.ino(op.Ino)
	case *namespace.Publish:
		m.content(op.Ino)
	case *namespace.Clone:
		m.content(op.Dst)
	}
}

func (m *marks) dir(ino fabric.Ino) { m.list = append(m.list, rights.Mark{Ino: ino, Dir: true}) }

func (m *marks) ino(ino fabric.Ino) {
	if ino != 0 {
		m.list = append(m.list, rights.Mark{Ino: ino})
	}
}

// content marks a file unless it is under this session's W: then nobody else has a right (A12).
func (m *marks) content(ino fabric.Ino) {
	if !ownW(m.v, ino, m.s.id) {
		m.ino(ino)
	}
}

func (m *marks) name(dir fabric.Ino, name string) namespace.Expect {
	ino, _, _ := namespace.GetDentry(m.v, dir, name)
	return namespace.Expect{Ino: ino}
}

func (m *marks) loses(ino fabric.Ino, holders *[]fabric.SessionID) {
	*holders = nil
	if ino != 0 {
		m.ino(ino)
		m.victims = append(m.victims, victim{ino, holders})
	}
}
