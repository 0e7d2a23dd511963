package rights

import (
	"slices"

	"github.com/spokefs/spokefs/fabric"
)

// This file decides on wants and changes: who waits for whom, and who is asked to give way.

func (t *Table) wanted(now fabric.Instant, e Wanted, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return append(out, GrantEffect{ID: e.ID, Session: e.Session, Grant: Grant{Ino: e.Want.Ino}, Code: fabric.Fenced})
	}
	i := t.inode(e.Want.Ino)
	w := &want{id: e.ID, s: s, i: i, want: e.Want}
	if len(i.queue) >= t.cfg.MaxQueue {
		return append(out, GrantEffect{ID: e.ID, Session: s.id, Grant: Grant{Ino: i.ino}, Code: fabric.Unavailable})
	}
	t.wants[w.id] = w
	i.queue = append(i.queue, w)
	return t.settle(now, i, out)
}

func (t *Table) withdrawn(now fabric.Instant, id uint64, out []Effect) []Effect {
	w := t.wants[id]
	if w == nil {
		return out
	}
	delete(t.wants, id)
	w.i.queue = slices.DeleteFunc(w.i.queue, func(x *want) bool { return x == w })
	return t.settle(now, w.i, out)
}

func (t *Table) changing(now fabric.Instant, e Changing, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return append(out, Proceed{ID: e.ID, Code: fabric.Fenced})
	}
	c := &change{id: e.ID, s: s}
	t.changes[c.id] = c
	for _, m := range e.Marks {
		i := t.inode(m.Ino)
		i.changes = append(i.changes, c)
		c.inodes = append(c.inodes, i)
		n := len(out)
		for _, h := range i.holders {
			if h.s != s && h.right != 0 {
				out = t.recall(now, h, Take, out)
			}
		}
		if m.Dir && len(out) > n {
			t.heat(now, i)
		}
	}
	return t.proceed(now, c, out)
}

// heat counts recalls of a directory's rights; a hot one rests (A18).
func (t *Table) heat(now fabric.Instant, i *inode) {
	if now >= i.window.Add(t.cfg.HotWindow) {
		i.window, i.recalls = now, 0
	}
	if i.recalls++; i.recalls >= t.cfg.HotRecalls {
		i.rest, i.recalls = now.Add(t.cfg.HotRest), 0
	}
	if !i.resting {
		i.resting = true
		t.resting = append(t.resting, i)
	}
}

// proceed lets c go if nobody else holds anything on what it marks.
func (t *Table) proceed(now fabric.Instant, c *change, out []Effect) []Effect {
	if c.proceeded {
		return out
	}
	if t.sessions[c.s.id] != c.s {
		c.proceeded = true
		return append(out, Proceed{ID: c.id, Code: fabric.Fenced})
	}
	var waits *inode
	for _, i := range c.inodes {
		for _, h := range i.holders {
			if h.s != c.s && h.right != 0 {
				// Asked again: one that gave up W when it was asked to share has R now (seed 130).
				out = t.recall(now, h, Take, out)
				if waits == nil {
					waits = i
				}
			}
		}
	}
	if waits != nil {
		return t.tell(c.s, waits, &c.told, out)
	}
	if t.unnamed > 0 && len(c.inodes) > 0 {
		t.stall(c.inodes[0])
		return out
	}
	c.proceeded = true
	return append(out, Proceed{ID: c.id})
}

func (t *Table) unmark(now fabric.Instant, id uint64, out []Effect) []Effect {
	c := t.changes[id]
	if c == nil {
		return out
	}
	delete(t.changes, id)
	for _, i := range c.inodes {
		i.changes = slices.DeleteFunc(i.changes, func(x *change) bool { return x == c })
	}
	for _, i := range c.inodes {
		out = t.settle(now, i, out)
	}
	return out
}

// settle goes on with whatever an event may have made possible on i.
func (t *Table) settle(now fabric.Instant, i *inode, out []Effect) []Effect {
	for _, c := range i.changes {
		out = t.proceed(now, c, out)
	}
	blocked := false // by an earlier want: first come, first served
	kept := i.queue[:0]
	for _, w := range i.queue {
		var done bool
		if done, out = t.try(now, w, blocked, out); done {
			delete(t.wants, w.id)
			continue
		}
		blocked = true
		kept = append(kept, w)
	}
	clear(i.queue[len(kept):])
	i.queue = kept
	t.tidy(i)
	return out
}

// try answers w, or recalls what is in its way and says that it is not done.
func (t *Table) try(now fabric.Instant, w *want, blocked bool, out []Effect) (bool, []Effect) {
	s, i := w.s, w.i
	if t.sessions[s.id] != s || s.expiring {
		return true, append(out, GrantEffect{ID: w.id, Session: s.id, Grant: Grant{Ino: i.ino}, Code: fabric.Fenced})
	}
	foreign, own := false, (*holder)(nil)
	for _, h := range i.holders {
		if h.s == s {
			own = h
		} else if h.right&W != 0 {
			foreign = true
		}
	}
	if len(i.changes) > 0 {
		// Pending forbids grants, not reads; but what another has under W is not committed yet.
		if !w.want.Wait && !foreign {
			return true, t.answer(w, 0, out)
		}
		return false, t.tell(s, i, &w.told, out)
	}
	if blocked || own != nil && (own.recalled || own.dropping) {
		return false, t.tell(s, i, &w.told, out)
	}
	if clear, more := t.clearFor(now, w, out); !clear {
		return false, t.tell(s, i, &w.told, more)
	}
	if w.want.Right&W != 0 && t.unnamed > 0 {
		t.stall(i)
		return false, out
	}
	right := w.want.Right
	if now < i.rest && right&W == 0 {
		right = 0
	}
	if own == nil || own.right == 0 {
		if s.rights >= t.cfg.MaxRights {
			right = 0
		}
	}
	if s.overdue > 0 {
		right = 0
	}
	return true, t.answer(w, right, out)
}

// clearFor recalls what others hold against w, and says whether there was nothing.
func (t *Table) clearFor(now fabric.Instant, w *want, out []Effect) (bool, []Effect) {
	kind := Shared
	if w.want.Right&W != 0 {
		kind = Take
	}
	ok := true
	for _, h := range w.i.holders {
		if h.s == w.s || h.right == 0 || kind == Shared && h.right&W == 0 {
			continue
		}
		ok = false
		out = t.recall(now, h, kind, out)
	}
	return ok, out
}

// answer gives right (0: none) and takes note of it before anybody hears of it.
func (t *Table) answer(w *want, right Right, out []Effect) []Effect {
	g := Grant{Ino: w.i.ino, Right: right, Epoch: w.s.epoch, Term: t.term}
	if right != 0 {
		h := t.holder(w.i, w.s)
		t.give(h, right)
		if right&W != 0 {
			h.logging++
		}
		g.Seq = h.seq
	}
	return append(out, GrantEffect{ID: w.id, Session: w.s.id, Grant: g})
}

func (t *Table) give(h *holder, right Right) {
	h.s.seq++
	h.seq = h.s.seq
	t.setRight(h, h.right|right)
	t.unlink(h)
	t.link(h)
}

// recall asks h back, unless as much has been asked already.
func (t *Table) recall(now fabric.Instant, h *holder, kind RecallKind, out []Effect) []Effect {
	if h.dropping || h.recalled && (h.kind == Take || kind == h.kind) {
		return out
	}
	if !h.recalled {
		h.recalled, h.since = true, now
	}
	h.kind = kind
	if !h.listed {
		h.listed = true
		t.recalls = append(t.recalls, h)
	}
	return append(out, t.recallOf(h))
}

func (t *Table) recallOf(h *holder) RecallEffect {
	return RecallEffect{Session: h.s.id, Recall: Recall{Ino: h.i.ino, Kind: h.kind, Seq: h.seq, Term: t.term}}
}

// tell says once that something of s waits for other nodes.
func (t *Table) tell(s *session, i *inode, told *bool, out []Effect) []Effect {
	if *told {
		return out
	}
	*told = true
	return append(out, WaitingEffect{Session: s.id, Ino: i.ino})
}

func (t *Table) stall(i *inode) {
	if !i.stalled {
		i.stalled = true
		t.stalled = append(t.stalled, i)
	}
}
