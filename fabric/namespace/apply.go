package namespace

import (
	"crypto/subtle"
	"encoding/binary"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
)

// machine is one application of a command.
type machine struct {
	v     kv.View
	index uint64
	c     counters
	from  Origin
	sess  Session // of from; zero for the hub itself
}

// Apply carries out a committed command and gives one result on every replica. A command whose
// session is gone, or whose seq came before, changes nothing but what the first one did.
func Apply(v kv.View, index uint64, c Command) Result {
	m := &machine{v: v, index: index, from: c.From}
	m.c, _ = load(v, []byte{keyCounters}, (*reader).counters)
	m.c.wall = max(m.c.wall, c.Wall)
	mine := c.From.Session != fabric.SessionID{}
	if mine {
		if res, done := m.admit(); done {
			return res
		}
	}
	if raced := m.raced(c.Ops); raced != nil {
		return Result{Verdict: Applied, Index: index, Ops: raced}
	}
	res := Result{Verdict: Applied, Index: index, Ops: make([]OpResult, len(c.Ops))}
	for i, o := range c.Ops {
		res.Ops[i] = m.apply(o, mine)
	}
	save(v, []byte{keyCounters}, func(w *writer) { w.counters(&m.c) })
	if mine {
		m.remember(&res)
	}
	return res
}

// admit checks session, epoch and seq (A33); done means that res is the answer.
func (m *machine) admit() (res Result, done bool) {
	s, ok := GetSession(m.v, m.from.Session)
	if !ok || s.Epoch != m.from.Epoch {
		return Result{Verdict: Dropped, Index: m.index}, true
	}
	m.sess = s
	if m.from.Slot >= Slots || m.from.Seq == 0 {
		return Result{Verdict: Refused, Index: m.index}, true
	}
	var last uint32
	if p, ok := m.v.Get(slotKey(s.ID, m.from.Slot)); ok {
		last = binary.BigEndian.Uint32(p)
	}
	switch {
	case m.from.Seq == last+1:
		return res, false
	case m.from.Seq > last+SlotSeqs:
		return Result{Verdict: Refused, Index: m.index}, true
	case m.from.Seq > last:
		return Result{Verdict: NotYet, Index: m.index}, true
	}
	p, ok := m.v.Get(resultKey(s.ID, m.from.Slot, m.from.Seq))
	if !ok {
		return Result{Verdict: Dropped, Index: m.index}, true
	}
	if len(p) == 0 {
		return Result{Verdict: ReadAgain, Index: m.index}, true
	}
	old, err := DecodeResult(p)
	if err != nil {
		damaged(resultKey(s.ID, m.from.Slot, m.from.Seq))
	}
	return old, true
}

// remember stores the result for retries. The session may have ended with the command.
func (m *machine) remember(res *Result) {
	id := m.sess.ID
	if _, ok := GetSession(m.v, id); !ok {
		return
	}
	m.v.Set(slotKey(id, m.from.Slot), binary.BigEndian.AppendUint32(nil, m.from.Seq))
	p := AppendResult(nil, res)
	if len(p) > MaxResult {
		p = nil
	}
	m.v.Set(resultKey(id, m.from.Slot, m.from.Seq), p)
	if m.from.Seq > SlotSeqs {
		m.v.Delete(resultKey(id, m.from.Slot, m.from.Seq-SlotSeqs))
	}
}

// raced checks the Expects of all ops before any is applied; nil if they hold.
func (m *machine) raced(ops []Op) []OpResult {
	differs := func(dir fabric.Ino, name string, e Expect) bool {
		ino, _, _ := GetDentry(m.v, dir, name)
		return !e.Unchecked && ino != e.Ino
	}
	bad := false
	for _, o := range ops {
		switch o := o.(type) {
		case *Replace:
			bad = bad || differs(o.Dir, o.Name, o.Expect)
		case *Remove:
			bad = bad || differs(o.Dir, o.Name, o.Expect)
		case *Rename:
			bad = bad || differs(o.From, o.Old, o.Src) || differs(o.To, o.Name, o.Dst)
		case *GrantW:
			for _, ino := range o.Inos {
				owner, ok := GetW(m.v, ino)
				bad = bad || ok && owner != o.Session
			}
		}
	}
	if !bad {
		return nil
	}
	out := make([]OpResult, len(ops))
	for i := range out {
		out[i] = OpResult{Code: fabric.Unavailable, Raced: true}
	}
	return out
}

// apply carries out one op. Ops of callers need a session; the hub's own must not have one.
func (m *machine) apply(o Op, mine bool) OpResult {
	if o.opcode() >= opOpenSession {
		if mine {
			return OpResult{Code: fabric.Denied}
		}
		return m.applyOwn(o)
	}
	if !mine {
		return OpResult{Code: fabric.Invalid}
	}
	if _, ok := o.(*DropHold); m.sess.ReadOnly && !ok {
		return OpResult{Code: fabric.ReadOnly}
	}
	switch o := o.(type) {
	case *Make:
		return m.make(o)
	case *Link:
		return m.link(o)
	case *Replace:
		return m.replace(o)
	case *Rename:
		return m.rename(o)
	case *Remove:
		return m.remove(o)
	case *SetAttr:
		return m.setAttr(o)
	case *SetXattr:
		return m.setXattr(o)
	case *RemoveXattr:
		return m.removeXattr(o)
	case *Publish:
		return m.publish(o)
	case *Clone:
		return m.clone(o)
	case *DropHold:
		return m.dropHold(o)
	}
	return OpResult{Code: fabric.Unsupported}
}

func (m *machine) applyOwn(o Op) OpResult {
	switch o := o.(type) {
	case *Init:
		return m.init(o)
	case *OpenSession:
		return m.openSession(o)
	case *CloseSession:
		return m.endSession(o.ID, o.Epoch)
	case *ExpireSession:
		return m.endSession(o.ID, o.Epoch)
	case *GrantW:
		return m.grantW(o)
	case *DropW:
		for _, ino := range o.Inos {
			m.dropW(o.Session, ino)
		}
		return OpResult{}
	case *PackBegin:
		return m.packBegin(o)
	case *PackEnd:
		return m.packEnd(o)
	case *Pin:
		return m.pin(o)
	case *Unpin:
		for _, r := range o.Refs {
			m.v.Delete(pinKey(o.Session, r))
		}
		return OpResult{}
	}
	return OpResult{Code: fabric.Unsupported}
}

// init makes the namespace: its Info and an empty root.
func (m *machine) init(o *Init) OpResult {
	if _, ok := GetInfo(m.v); ok {
		return OpResult{Code: fabric.Exist}
	}
	if o.Info.ReadOnly || o.Info.Name == "" {
		return OpResult{Code: fabric.Invalid}
	}
	save(m.v, []byte{keyInfo}, func(w *writer) { w.info(&o.Info) })
	m.c.nextIno = uint64(fabric.RootIno) + 1
	m.c.inodes = 1
	root := &node{next: fabric.FirstCookie}
	root.Attr = fabric.Attr{
		Ino: fabric.RootIno, Type: fabric.TypeDir, Mode: o.Mode & fabric.ModeAll, UID: o.UID, GID: o.GID, Nlink: 2,
		Atime: m.c.wall, Mtime: m.c.wall, Ctime: m.c.wall, Btime: m.c.wall, Iver: 1, Parent: fabric.RootIno,
	}
	m.put(root)
	return OpResult{Attr: root.Attr}
}

// put stores a node's record.
func (m *machine) put(n *node) { save(m.v, inoKey(keyInode, n.Ino), func(w *writer) { w.node(n) }) }

// touch moves what every change of an inode moves (A37): iver, and ctime by at least 1 ns.
func (m *machine) touch(n *node) {
	n.Iver++
	n.Ctime = max(m.c.wall, n.Ctime+1)
}

// SameSecret compares a ticket's secret with a session's hash of it, in constant time.
func (s *Session) SameSecret(hash [32]byte) bool {
	return subtle.ConstantTimeCompare(s.SecretHash[:], hash[:]) == 1
}
