package hub

import (
	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// led is what a new leader reads.
type led struct {
	event    rights.Led
	sessions []namespace.Session
}

// view runs read with a view of the committed state.
func (n *Namespace) view(read func(v kv.View)) {
	v, done := n.deps.State.View()
	defer done()
	read(v)
}

// committed reads sessions and W for a new term.
func (n *Namespace) committed(term fabric.Term) led {
	l := led{event: rights.Led{Term: term}}
	n.view(func(v kv.View) {
		for s := range namespace.Sessions(v) {
			l.sessions = append(l.sessions, s)
			l.event.Sessions = append(l.event.Sessions, rights.Known{Session: s.ID, Epoch: s.Epoch})
		}
		for ino, id := range namespace.WRights(v) {
			l.event.W = append(l.event.W, rights.Owned{Session: id, Ino: ino})
		}
	})
	return l
}

// info reads what nodes must know of the namespace.
func (n *Namespace) info() (i namespace.Info, ok bool) {
	n.view(func(v kv.View) { i, ok = namespace.GetInfo(v) })
	return i, ok
}

// ownW says whether the log has W on ino for the session.
func ownW(v kv.View, ino fabric.Ino, id fabric.SessionID) bool {
	owner, ok := namespace.GetW(v, ino)
	return ok && owner == id
}
