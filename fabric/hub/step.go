package hub

import (
	"context"
	"slices"
	"strings"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// wait is one caller that waits for answers of the table. mu of the Namespace guards it until
// done is closed.
type wait struct {
	left    int
	grants  []rights.Grant // by index of the want
	code    fabric.Code    // the first that is not OK
	pending map[uint64]int // id of the want or change -> index
	done    chan struct{}
	settled fabric.Ino // inodes up to it are known to the table, W and all
}

func newWait(count int) *wait {
	return &wait{left: count, grants: make([]rights.Grant, count), pending: make(map[uint64]int, count), done: make(chan struct{}),
		settled: ^fabric.Ino(0)}
}

func (w *wait) fail(code fabric.Code) {
	if w.left > 0 {
		w.left, w.code = 0, code
		close(w.done)
	}
}

// answer takes one answer; mu is held.
func (w *wait) answer(id uint64, g rights.Grant, code fabric.Code) {
	at, ok := w.pending[id]
	if !ok || w.left == 0 {
		return
	}
	delete(w.pending, id)
	w.grants[at] = g
	if w.code == fabric.OK {
		w.code = code
	}
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// expect registers the next answer of w; mu is held.
func (n *Namespace) expect(w *wait, at int) (id uint64) {
	n.next++
	w.pending[n.next] = at
	n.waits[n.next] = w
	return n.next
}

// step takes mu for one event.
func (n *Namespace) step(e rights.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apply(e)
}

// apply makes one step of the table and delivers its effects; mu is held.
func (n *Namespace) apply(e rights.Event) {
	out := n.table.Step(n.deps.Boot(), e, n.effects[:0])
	for _, e := range out {
		switch e := e.(type) {
		case rights.LeaseEffect:
			n.lease = e
		case rights.GrantEffect:
			if e.Grant.Right != 0 {
				n.counts.Granted++
			} else {
				n.counts.Refused++
			}
			n.deliver(e.ID, e.Grant, e.Code)
		case rights.Proceed:
			n.deliver(e.ID, rights.Grant{}, e.Code)
		case rights.RecallEffect:
			n.counts.Recalls++
			n.send(e.Session, &e.Recall)
		case rights.WaitingEffect:
			n.send(e.Session, &rights.Waiting{Ino: e.Ino})
		case rights.Expire:
			if !n.chores.expiring[e.Session] {
				n.chores.expiring[e.Session] = true
				n.chores.expire = append(n.chores.expire, e)
				n.alarm()
			}
		case rights.DropWEffect:
			n.chores.drops = append(n.chores.drops, e)
			n.alarm()
		}
	}
	clear(out)
	n.effects = out[:0]
}

func (n *Namespace) deliver(id uint64, g rights.Grant, code fabric.Code) {
	if w := n.waits[id]; w != nil {
		delete(n.waits, id)
		w.answer(id, g, code)
	}
}

func (n *Namespace) send(id fabric.SessionID, m rights.Message) {
	if s := n.sessions[id]; s != nil {
		s.send(m)
	}
}

// alarm wakes the clerk.
func (n *Namespace) alarm() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// clerk logs what the table asks for: returned W in batches, and the end of silent sessions.
func (n *Namespace) clerk(reign context.Context) {
	for {
		select {
		case <-reign.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		drops, expire := n.chores.drops, n.chores.expire
		n.chores.drops, n.chores.expire = nil, nil
		n.mu.Unlock()
		for chunk := range slices.Chunk(drops, namespace.MaxOps) {
			n.logDrops(reign, chunk)
		}
		for _, e := range expire {
			n.expire(reign, e)
		}
	}
}

// logDrops makes one command of many returned W.
func (n *Namespace) logDrops(reign context.Context, drops []rights.DropWEffect) {
	var ops []namespace.Op
	bySession := map[fabric.SessionID]*namespace.DropW{}
	for _, d := range drops {
		op := bySession[d.Session]
		if op == nil {
			op = &namespace.DropW{Session: d.Session}
			bySession[d.Session] = op
			ops = append(ops, op)
		}
		op.Inos = append(op.Inos, d.Ino)
	}
	if _, err := n.own(reign, ops...); err != nil {
		n.again(err, drops, nil)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range drops {
		n.apply(rights.Dropped(d))
	}
}

// again keeps chores that could not be logged for the next tick, which wakes the clerk.
func (n *Namespace) again(err error, drops []rights.DropWEffect, expire []rights.Expire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term == 0 {
		return
	}
	n.deps.Slog.Warn("cannot log", "drops", len(drops), "expiries", len(expire), "err", err)
	n.chores.drops = append(drops, n.chores.drops...)
	for _, e := range expire {
		delete(n.chores.expiring, e.Session) // the table asks again
	}
}

func (n *Namespace) expire(reign context.Context, e rights.Expire) {
	if _, err := n.own(reign, &namespace.ExpireSession{ID: e.Session, Epoch: e.Epoch}); err != nil {
		n.again(err, nil, []rights.Expire{e})
		return
	}
	n.mu.Lock()
	n.counts.Expired++
	n.mu.Unlock()
	n.deps.Slog.Warn("session expired", "session", sessionName(e.Session), "epoch", e.Epoch)
	n.ended(e.Session, e.Epoch)
}

// ended takes a session whose end was applied out of the table.
func (n *Namespace) ended(id fabric.SessionID, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.sessions[id]
	if s == nil || s.epoch != epoch {
		return
	}
	delete(n.sessions, id)
	delete(n.chores.expiring, id)
	n.apply(rights.Expired{Session: id, Epoch: epoch})
	s.end()
}

// creation is a command under way that may make inodes with W, whose numbers are over base.
type creation struct {
	base fabric.Ino
	done chan struct{}
}

func (n *Namespace) startCreation() *creation {
	c := &creation{base: n.highest, done: make(chan struct{})}
	n.creations = append(n.creations, c)
	return c
}

func (n *Namespace) endCreation(c *creation) {
	if at := slices.Index(n.creations, c); at >= 0 {
		n.creations = slices.Delete(n.creations, at, at+1)
		close(c.done)
	}
}

func sortStatus(s []SessionStatus) {
	slices.SortFunc(s, func(a, b SessionStatus) int {
		if c := strings.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return int(int64(a.Epoch) - int64(b.Epoch))
	})
}
