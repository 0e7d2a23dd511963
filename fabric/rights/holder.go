package rights

import (
	"slices"

	"github.com/spokefs/spokefs/fabric"
)

// This file follows what nodes give back, and keeps the lists of who has what.

func (t *Table) acked(now fabric.Instant, e Acked, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil || e.Ack.Left > 0 {
		return out // progress does not extend the deadline yet (A13, stage 2)
	}
	h := t.find(e.Ack.Ino, s)
	if h == nil || !h.recalled || e.Ack.Seq < h.seq {
		// An answer to an older recall; what it said about open files may be old too. An open
		// file is remembered all the same: too many holders are harmless.
		if h != nil && e.Ack.Open {
			h.open = true
		}
		return out
	}
	h.open = e.Ack.Open
	return t.reduce(now, h, e.Ack.Kept, out)
}

func (t *Table) released(now fabric.Instant, e Released, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return out
	}
	h := t.find(e.Grant.Ino, s)
	if h == nil {
		return out
	}
	if e.Grant.Right == 0 {
		h.open = false
		t.forget(h)
		t.tidy(h.i)
		return out
	}
	if e.Grant.Seq < h.seq {
		return out // a newer grant is on its way to the node, or there
	}
	return t.reduce(now, h, ^e.Grant.Right, out)
}

// reduce cuts h down to kept, W through the log first.
func (t *Table) reduce(now fabric.Instant, h *holder, kept Right, out []Effect) []Effect {
	have := h.right
	if have&W != 0 {
		have |= R
	}
	kept &= have
	if h.right&W == 0 || kept&W != 0 {
		t.setRight(h, kept)
		return t.gaveWay(now, h, out)
	}
	h.kept = kept
	if h.dropping {
		return out
	}
	h.dropping = true
	if h.logging > 0 {
		return out // the DropW must come after the GrantW: Logged sends it
	}
	return append(out, DropWEffect{Session: h.s.id, Ino: h.i.ino})
}

// gaveWay ends h's recall if it has given what was asked, and goes on with who waited.
func (t *Table) gaveWay(now fabric.Instant, h *holder, out []Effect) []Effect {
	i := h.i
	if h.right == 0 || h.kind == Shared && h.right&W == 0 {
		t.unrecall(h)
	}
	t.forget(h)
	return t.settle(now, i, out)
}

func (t *Table) unrecall(h *holder) {
	h.recalled = false
	if h.overdue {
		h.overdue = false
		h.s.overdue--
	}
}

func (t *Table) logged(e Logged, out []Effect) []Effect {
	s := t.sessions[e.Session]
	if s == nil {
		return out
	}
	h := t.find(e.Ino, s)
	if h == nil || h.logging == 0 {
		return out
	}
	h.logging--
	h.logged = true
	if h.dropping && h.logging == 0 {
		out = append(out, DropWEffect{Session: s.id, Ino: e.Ino})
	}
	return out
}

// undone takes one grant of W back; what another one has logged, or may yet, stays.
func (t *Table) undone(now fabric.Instant, e Undone, out []Effect) []Effect {
	s := t.sessions[e.Session]
	if s == nil {
		return out
	}
	h := t.find(e.Ino, s)
	if h == nil || h.logging == 0 {
		return out
	}
	h.logging--
	switch {
	case h.logging > 0:
		return out
	case h.logged && h.dropping:
		return append(out, DropWEffect{Session: s.id, Ino: e.Ino})
	case h.logged:
		return out
	}
	right := h.right &^ W
	if h.dropping {
		right = h.kept
	}
	h.dropping = false
	t.setRight(h, right)
	return t.gaveWay(now, h, out)
}

func (t *Table) created(_ fabric.Instant, e Created, out []Effect) []Effect {
	s := t.session(e.Session, e.Epoch)
	if s == nil {
		return append(out, GrantEffect{ID: e.ID, Session: e.Session, Grant: Grant{Ino: e.Ino}, Code: fabric.Fenced})
	}
	h := t.holder(t.inode(e.Ino), s)
	t.give(h, W)
	h.logged = true
	return append(out, GrantEffect{ID: e.ID, Session: s.id,
		Grant: Grant{Ino: e.Ino, Right: W, Seq: h.seq, Epoch: s.epoch, Term: t.term}})
}

// dropped: what was W is R until the node says otherwise, or what it said it keeps.
func (t *Table) dropped(now fabric.Instant, e Dropped, out []Effect) []Effect {
	s := t.sessions[e.Session]
	if s == nil {
		return out
	}
	h := t.find(e.Ino, s)
	if h == nil || h.right&W == 0 {
		return out
	}
	h.logged = false
	if h.logging > 0 {
		return out // it is on its way back into the log
	}
	if h.dropping {
		h.dropping = false
		t.setRight(h, h.kept)
		return t.gaveWay(now, h, out)
	}
	t.setRight(h, h.right&^W|R)
	if !h.recalled {
		return t.settle(now, h.i, out)
	}
	return out // the Ack ends the recall: until then the node may still serve reads
}

func (t *Table) inode(ino fabric.Ino) *inode {
	i := t.inodes[ino]
	if i == nil {
		i = &inode{ino: ino}
		t.inodes[ino] = i
	}
	return i
}

func (t *Table) find(ino fabric.Ino, s *session) *holder {
	i := t.inodes[ino]
	if i == nil {
		return nil
	}
	for _, h := range i.holders {
		if h.s == s {
			return h
		}
	}
	return nil
}

func (t *Table) holder(i *inode, s *session) *holder {
	for _, h := range i.holders {
		if h.s == s {
			return h
		}
	}
	h := &holder{s: s, i: i}
	i.holders = append(i.holders, h)
	t.link(h)
	return h
}

// setRight keeps the counts.
func (t *Table) setRight(h *holder, r Right) {
	switch {
	case h.right == 0 && r != 0:
		h.s.rights++
		t.granted++
	case h.right != 0 && r == 0:
		h.s.rights--
		t.granted--
	}
	h.right = r
}

// link appends h to its session's list, as the newest.
func (t *Table) link(h *holder) {
	h.prev, h.next = h.s.newest, nil
	if h.prev != nil {
		h.prev.next = h
	} else {
		h.s.oldest = h
	}
	h.s.newest = h
}

func (t *Table) unlink(h *holder) {
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		h.s.oldest = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		h.s.newest = h.prev
	}
	h.prev, h.next = nil, nil
}

// forget drops h if it says nothing any more.
func (t *Table) forget(h *holder) {
	if h.right != 0 || h.open || h.recalled || h.dropping || h.logging > 0 {
		return
	}
	h.i.holders = slices.DeleteFunc(h.i.holders, func(x *holder) bool { return x == h })
	t.unlink(h)
}

// tidy drops i if nothing is known of it.
func (t *Table) tidy(i *inode) {
	if len(i.holders) == 0 && len(i.changes) == 0 && len(i.queue) == 0 && !i.stalled && !i.resting &&
		t.inodes[i.ino] == i {
		delete(t.inodes, i.ino)
	}
}
