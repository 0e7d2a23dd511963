package hub

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"iter"
	"sync"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
)

// Session is one node's session in one term of this leader. Its methods are those of spoke.Hub;
// calls may overlap. After a change of term it answers Unavailable: Resume gives the next one.
type Session struct {
	n        *Namespace
	id       fabric.SessionID
	epoch    uint64
	node     string
	readOnly bool
	secret   [32]byte // hash
	term     fabric.Term
	calls    chan struct{} // one per call under way

	// done is closed when the session or the term ended; code then says which: Fenced or
	// Unavailable. Namespace.mu guards code and what follows.
	done     chan struct{}
	code     fabric.Code
	messages []rights.Message
	ring     chan struct{} // there are messages; room for one
	stream   int           // number of the Events call that gets them
	overflow bool          // messages were lost: the stream must end

	slots slots
}

// newSession is for a session that the log knows; mu is held.
func (n *Namespace) newSession(s namespace.Session) *Session {
	return &Session{n: n, id: s.ID, epoch: s.Epoch, node: s.Node, readOnly: s.ReadOnly, secret: s.SecretHash,
		term: n.term, calls: make(chan struct{}, n.cfg.MaxCalls), done: make(chan struct{}),
		ring: make(chan struct{}, 1), slots: slots{running: map[uint16][]*turn{}}}
}

func sessionName(id fabric.SessionID) string { return hex.EncodeToString(id[:6]) }

// lose and end close the session object; mu is held.
func (s *Session) lose() { s.stop(fabric.Unavailable) }
func (s *Session) end()  { s.stop(fabric.Fenced) }

func (s *Session) stop(code fabric.Code) {
	if s.code == fabric.OK {
		s.code = code
		close(s.done)
	}
}

// over is why the session cannot be used, or nil.
func (s *Session) over() error {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.code != fabric.OK {
		return s.code
	}
	return nil
}

// begin admits a call; it waits while too many are under way.
func (s *Session) begin(ctx context.Context) (end func(), err error) {
	select {
	case <-s.done:
		return nil, s.over()
	default:
	}
	select {
	case s.calls <- struct{}{}:
		return func() { <-s.calls }, nil
	case <-s.done:
		return nil, s.over()
	case <-ctx.Done():
		return nil, fabric.Canceled
	}
}

// leading waits until this node leads, for as long as ctx allows.
func (n *Namespace) leading(ctx context.Context) (fabric.Term, context.Context, error) {
	for {
		n.mu.Lock()
		term, reign, ready := n.term, n.reign, n.ready
		n.mu.Unlock()
		if term != 0 {
			return term, reign, nil
		}
		if _, ours, _ := n.deps.Log.Leading(); !ours {
			return 0, nil, fabric.Unavailable
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return 0, nil, fabric.Unavailable
		}
	}
}

// Open starts a session of a node, whose name is its certificate identity: the caller has checked
// it and the grant. old, if its Epoch is not 0, is closed first (A10); another live session of the
// same node makes Open wait until it has expired (A4), and stops its renewals. Unavailable: not
// the leader, or the other one still lives at the end of ctx; Denied: old is not this node's.
func (n *Namespace) Open(ctx context.Context, node string, readOnly bool, old namespace.Ticket) (*Session, namespace.Ticket, namespace.Info, rights.Lease, error) {
	fail := func(err error) (*Session, namespace.Ticket, namespace.Info, rights.Lease, error) {
		return nil, namespace.Ticket{}, namespace.Info{}, rights.Lease{}, err
	}
	term, reign, err := n.leading(ctx)
	if err != nil {
		return fail(err)
	}
	if err := n.fresh(ctx, term); err != nil {
		return fail(err)
	}
	if err := n.closeOld(ctx, reign, node, old); err != nil {
		return fail(err)
	}
	if err := n.outlive(ctx, node); err != nil {
		return fail(err)
	}
	info, ok := n.info()
	if !ok {
		return fail(&fabric.Error{Op: "open session", Code: fabric.Unavailable})
	}
	info.ReadOnly = info.ReadOnly || readOnly
	s, t, err := n.start(reign, term, node, readOnly)
	if err != nil {
		return fail(err)
	}
	return s, t, info, n.leaseOf(s), nil
}

// closeOld ends the session that the node itself gives up.
func (n *Namespace) closeOld(ctx context.Context, reign context.Context, node string, old namespace.Ticket) error {
	if old.Epoch == 0 {
		return nil
	}
	n.mu.Lock()
	s := n.sessions[old.Session]
	n.mu.Unlock()
	if s == nil || s.epoch != old.Epoch {
		return nil // expired or closed already
	}
	if s.node != node || !s.owns(old) {
		return fabric.Denied
	}
	_ = ctx // a close under way is not given up: its outcome would be unknown
	if _, err := n.own(reign, &namespace.CloseSession{ID: s.id, Epoch: s.epoch}); err != nil {
		return err
	}
	n.ended(s.id, s.epoch)
	return nil
}

func (s *Session) owns(t namespace.Ticket) bool {
	sum := sha256.Sum256(t.Secret[:])
	return subtle.ConstantTimeCompare(sum[:], s.secret[:]) == 1
}

// outlive waits until no session of node is left; those there are get no more renewals.
func (n *Namespace) outlive(ctx context.Context, node string) error {
	for {
		n.mu.Lock()
		var other *Session
		for _, s := range n.sessions { // any one: all must go
			if s.node == node {
				other = s
			}
		}
		if other != nil {
			n.apply(rights.Retired{Session: other.id, Epoch: other.epoch})
		}
		full := len(n.sessions) >= n.cfg.MaxSessions
		n.mu.Unlock()
		switch {
		case other == nil && full:
			return &fabric.Error{Op: "open session", Code: fabric.Unavailable}
		case other == nil:
			return nil
		}
		select {
		case <-other.done:
			if other.over() == error(fabric.Unavailable) {
				return fabric.Unavailable // the term ended
			}
		case <-ctx.Done():
			return &fabric.Error{Op: "open session", Code: fabric.Unavailable}
		}
	}
}

// start logs a new session.
func (n *Namespace) start(reign context.Context, term fabric.Term, node string, readOnly bool) (*Session, namespace.Ticket, error) {
	var t namespace.Ticket
	if _, err := io.ReadFull(n.deps.Rand, t.Session[:]); err != nil {
		return nil, t, &fabric.Error{Op: "open session", Code: fabric.Internal, Err: err}
	}
	if _, err := io.ReadFull(n.deps.Rand, t.Secret[:]); err != nil {
		return nil, t, &fabric.Error{Op: "open session", Code: fabric.Internal, Err: err}
	}
	hash := sha256.Sum256(t.Secret[:])
	res, err := n.own(reign, &namespace.OpenSession{ID: t.Session, Node: node, SecretHash: hash, ReadOnly: readOnly})
	if err != nil {
		return nil, t, err
	}
	if res[0].Code != fabric.OK {
		return nil, t, &fabric.Error{Op: "open session", Code: res[0].Code}
	}
	t.Epoch = res[0].Epoch
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term != term {
		return nil, t, fabric.Unavailable
	}
	n.apply(rights.Opened{Session: t.Session, Epoch: t.Epoch})
	s := n.newSession(namespace.Session{ID: t.Session, Epoch: t.Epoch, Node: node, SecretHash: hash, ReadOnly: readOnly})
	n.sessions[s.id] = s
	return s, t, nil
}

func (n *Namespace) leaseOf(s *Session) rights.Lease {
	return rights.Lease{Epoch: s.epoch, Term: s.term, Length: n.cfg.Rights.Lease, Wall: fabric.Time(n.deps.Wall().UnixNano())}
}

// Resume gives the session of a ticket to a node that connects again, maybe after a change of
// leader. Fenced: it has ended; Denied: the ticket is not node's.
func (n *Namespace) Resume(ctx context.Context, node string, t namespace.Ticket) (*Session, error) {
	if _, _, err := n.leading(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	s := n.sessions[t.Session]
	leads := n.term != 0
	n.mu.Unlock()
	switch {
	case !leads:
		return nil, fabric.Unavailable
	case s == nil || s.epoch != t.Epoch:
		return nil, fabric.Fenced
	case s.node != node || !s.owns(t):
		return nil, fabric.Denied
	}
	return s, nil
}

// Renew implements spoke.Hub.
func (s *Session) Renew(ctx context.Context, dropped fabric.Term, open []fabric.Ino) (rights.Lease, error) {
	if len(open) > s.n.cfg.MaxOpen {
		return rights.Lease{}, fabric.Invalid
	}
	n := s.n
	n.mu.Lock()
	if s.code != fabric.OK {
		n.mu.Unlock()
		return rights.Lease{}, s.code
	}
	// Before the barrier, so that no expiry starts while the answer is on its way.
	n.apply(rights.Renewed{Session: s.id, Epoch: s.epoch, Dropped: dropped, Open: open})
	e := n.lease
	n.mu.Unlock()
	if e.Code != fabric.OK {
		return rights.Lease{}, e.Code
	}
	if err := n.fresh(ctx, s.term); err != nil {
		return rights.Lease{}, err
	}
	e.Lease.Wall = fabric.Time(n.deps.Wall().UnixNano())
	return e.Lease, nil
}

// Release implements spoke.Hub.
func (s *Session) Release(_ context.Context, g []rights.Grant) error {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.code != fabric.OK {
		return s.code
	}
	for _, g := range g {
		s.n.apply(rights.Released{Session: s.id, Epoch: s.epoch, Grant: g})
	}
	return nil
}

// Ack implements spoke.Hub.
func (s *Session) Ack(_ context.Context, a []rights.Ack) error {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.code != fabric.OK {
		return s.code
	}
	for _, a := range a {
		s.n.apply(rights.Acked{Session: s.id, Epoch: s.epoch, Ack: a})
	}
	return nil
}

// StatFS implements spoke.Hub.
func (s *Session) StatFS(ctx context.Context) (u fabric.Usage, err error) {
	if err := s.n.fresh(ctx, s.term); err != nil {
		return u, err
	}
	s.n.view(func(v kv.View) { u = namespace.Usage(v) })
	return u, nil
}

// Close implements spoke.Hub.
func (s *Session) Close(context.Context) error {
	s.n.mu.Lock()
	reign, code := s.n.reign, s.code
	s.n.mu.Unlock()
	switch code {
	case fabric.OK:
	case fabric.Fenced:
		return nil
	default:
		return code
	}
	if _, err := s.n.own(reign, &namespace.CloseSession{ID: s.id, Epoch: s.epoch}); err != nil {
		return err
	}
	s.n.ended(s.id, s.epoch)
	return nil
}

// send queues a message for the stream; mu is held. A notice is left out where there are many: a
// recall must not be lost for it.
func (s *Session) send(m rights.Message) {
	if _, notice := m.(*rights.Waiting); notice && len(s.messages) >= s.n.cfg.MaxMessages/2 {
		return
	}
	if len(s.messages) >= s.n.cfg.MaxMessages {
		s.overflow, s.messages = true, nil
	}
	s.messages = append(s.messages, m)
	select {
	case s.ring <- struct{}{}:
	default:
	}
}

// Events implements spoke.Hub. A new call ends the one before it.
func (s *Session) Events(ctx context.Context) iter.Seq2[rights.Message, error] {
	return func(yield func(rights.Message, error) bool) {
		number, err := s.connect()
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			batch, err := s.take(number)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range batch {
				if !yield(m, nil) {
					return
				}
			}
			select {
			case <-s.ring:
			case <-s.done:
				yield(nil, s.over())
				return
			case <-ctx.Done():
				yield(nil, fabric.Canceled)
				return
			}
		}
	}
}

// connect starts a stream with the recalls that were not acknowledged.
func (s *Session) connect() (int, error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.code != fabric.OK {
		return 0, s.code
	}
	s.stream++
	s.messages, s.overflow = nil, false
	s.n.apply(rights.Reconnected{Session: s.id, Epoch: s.epoch})
	select {
	case s.ring <- struct{}{}: // an older stream finds that it is over
	default:
	}
	return s.stream, nil
}

// take gives what waits for stream number.
func (s *Session) take(number int) ([]rights.Message, error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if number != s.stream {
		select {
		case s.ring <- struct{}{}: // it may have been meant for the newer one
		default:
		}
		return nil, fabric.Unavailable
	}
	if s.overflow {
		return nil, fabric.Unavailable
	}
	m := s.messages
	s.messages = nil
	return m, nil
}

// slots keeps the commands of a slot in order of seq (A33).
type slots struct {
	mu      sync.Mutex // guards running; nothing is called under it
	running map[uint16][]*turn
}

// turn is one command under way in a slot.
type turn struct {
	seq  uint32
	done chan struct{}
}

// enter takes a place in a slot. before is the nearest earlier command under way, or nil.
func (s *slots) enter(slot uint16, seq uint32) (mine *turn, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running[slot]) >= namespace.SlotSeqs {
		return nil, nil, false
	}
	t := &turn{seq: seq, done: make(chan struct{})}
	s.running[slot] = append(s.running[slot], t)
	return t, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		list := s.running[slot]
		for i, x := range list {
			if x == t {
				list[i] = list[len(list)-1]
				list = list[:len(list)-1]
				break
			}
		}
		if len(list) == 0 {
			delete(s.running, slot)
		} else {
			s.running[slot] = list
		}
		close(t.done)
	}, true
}

// before is the nearest earlier command of t's slot that is under way, or nil.
func (s *slots) before(slot uint16, t *turn) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *turn
	for _, x := range s.running[slot] {
		if x.seq < t.seq && (best == nil || x.seq > best.seq) {
			best = x
		}
	}
	return best
}
