package namespace

import (
	"encoding/binary"

	"github.com/spokefs/spokefs/fabric"
)

// openSession starts a session under a new epoch. Another session of the same node ends: one node
// identity has one live session (A10). When that may be said is the hub's to know.
func (m *machine) openSession(o *OpenSession) OpResult {
	if o.ID == (fabric.SessionID{}) || o.Node == "" {
		return OpResult{Code: fabric.Invalid}
	}
	if old, ok := GetSession(m.v, o.ID); ok { // the proposal came twice
		if old.SecretHash != o.SecretHash {
			return OpResult{Code: fabric.Exist}
		}
		return OpResult{Epoch: old.Epoch}
	}
	var ended []Session
	for s := range Sessions(m.v) {
		if s.Node == o.Node {
			ended = append(ended, s)
		}
	}
	for _, s := range ended {
		m.endSession(s.ID, s.Epoch)
	}
	m.c.epoch++
	s := Session{Epoch: m.c.epoch, Node: o.Node, SecretHash: o.SecretHash, ReadOnly: o.ReadOnly}
	save(m.v, sessionKey(keySession, o.ID), func(w *writer) { w.sessionRecord(&s) })
	return OpResult{Epoch: s.Epoch}
}

// endSession fences a session: from here on its epoch is refused, and its W, holds, pins and
// results are gone.
func (m *machine) endSession(id fabric.SessionID, epoch uint64) OpResult {
	s, ok := GetSession(m.v, id)
	if !ok || s.Epoch != epoch {
		return OpResult{Code: fabric.NotExist}
	}
	for _, ino := range m.sessionInos(keyOwned, id) {
		m.dropW(id, ino)
	}
	for _, ino := range m.sessionInos(keyHeld, id) {
		m.unhold(id, ino)
	}
	for _, kind := range []byte{keyPin, keySlot, keyResult, keySession} {
		from := sessionKey(kind, id)
		m.v.DeleteRange(from, after(from))
	}
	return OpResult{}
}

// sessionInos lists the inodes under a session's records of a kind.
func (m *machine) sessionInos(kind byte, id fabric.SessionID) []fabric.Ino {
	var out []fabric.Ino
	from := sessionKey(kind, id)
	for k := range m.v.Scan(from, after(from)) {
		out = append(out, fabric.Ino(binary.BigEndian.Uint64(k[17:])))
	}
	return out
}

// grantW logs W rights. An inode that is gone gets none: whoever asked finds out.
func (m *machine) grantW(o *GrantW) OpResult {
	s, ok := GetSession(m.v, o.Session)
	if !ok || s.Epoch != o.Epoch {
		return OpResult{Code: fabric.Fenced}
	}
	if s.ReadOnly {
		return OpResult{Code: fabric.ReadOnly}
	}
	for _, ino := range o.Inos {
		if _, ok := m.v.Get(inoKey(keyInode, ino)); ok {
			m.setW(o.Session, ino)
		}
	}
	return OpResult{W: true}
}

func (m *machine) setW(id fabric.SessionID, ino fabric.Ino) {
	m.v.Set(inoKey(keyW, ino), id[:])
	m.v.Set(sessionInoKey(keyOwned, id, ino), nil)
}

// dropW ends a session's W; another's stays.
func (m *machine) dropW(id fabric.SessionID, ino fabric.Ino) {
	if owner, ok := GetW(m.v, ino); ok && owner == id {
		m.v.Delete(inoKey(keyW, ino))
		m.v.Delete(sessionInoKey(keyOwned, id, ino))
	}
}

// mayWrite says whether this session may change the content of an inode whose version it thinks is
// base: it has W, or nobody has and nothing changed (A22).
func (m *machine) mayWrite(n *node, base uint64) bool {
	if owner, ok := GetW(m.v, n.Ino); ok {
		return owner == m.sess.ID
	}
	return base == n.Iver
}

// hold keeps an inode without a name for a session (A30).
func (m *machine) hold(id fabric.SessionID, ino fabric.Ino) {
	m.v.Set(holdKey(ino, id), nil)
	m.v.Set(sessionInoKey(keyHeld, id, ino), nil)
}

// unhold ends a hold, and the inode with the last one.
func (m *machine) unhold(id fabric.SessionID, ino fabric.Ino) {
	m.v.Delete(holdKey(ino, id))
	m.v.Delete(sessionInoKey(keyHeld, id, ino))
	if n, ok := getNode(m.v, ino); ok && n.Nlink == 0 && !m.isHeld(ino) {
		m.free(n)
	}
}

func (m *machine) isHeld(ino fabric.Ino) bool {
	from := inoKey(keyHold, ino)
	for range m.v.Scan(from, after(from)) {
		return true
	}
	return false
}

// unholdAll ends the holds of an inode that has a name again.
func (m *machine) unholdAll(ino fabric.Ino) {
	var ids []fabric.SessionID
	from := inoKey(keyHold, ino)
	for k := range m.v.Scan(from, after(from)) {
		ids = append(ids, fabric.SessionID(k[9:25]))
	}
	for _, id := range ids {
		m.v.Delete(holdKey(ino, id))
		m.v.Delete(sessionInoKey(keyHeld, id, ino))
	}
}

func (m *machine) dropHold(o *DropHold) OpResult {
	for _, ino := range o.Inos {
		if _, ok := m.v.Get(holdKey(ino, m.sess.ID)); ok {
			m.unhold(m.sess.ID, ino)
		}
	}
	return OpResult{}
}

// free removes an inode that has neither name nor hold.
func (m *machine) free(n *node) {
	for _, kind := range []byte{keyInode, keyInline, keyXattrs} {
		m.v.Delete(inoKey(kind, n.Ino))
	}
	if owner, ok := GetW(m.v, n.Ino); ok {
		m.dropW(owner, n.Ino)
	}
	m.c.inodes--
	m.c.bytes -= n.Used
}
