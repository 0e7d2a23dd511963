package wire

import (
	"context"
	"iter"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
	"github.com/spokefs/spokefs/storage/disk"
	"github.com/spokefs/spokefs/storage/mem"
)

// fakeSession answers as told and keeps what it was asked.
type fakeSession struct {
	blobs storage.Blobs

	mu     sync.Mutex // guards what follows
	asked  []any
	grants []rights.Grant
	inodes []namespace.Inode
	found  []namespace.Found
	page   []namespace.Dirent
	eof    bool
	lease  rights.Lease
	result namespace.Result
	usage  fabric.Usage
	events []rights.Message
	err    error
	calls  int
}

func (f *fakeSession) ask(args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = args
	f.calls++
	return f.err
}

func (f *fakeSession) Renew(_ context.Context, dropped fabric.Term, open []fabric.Ino) (rights.Lease, error) {
	return f.lease, f.ask("renew", dropped, open)
}

func (f *fakeSession) Acquire(_ context.Context, w []rights.Want) ([]rights.Grant, []namespace.Inode, error) {
	return f.grants, f.inodes, f.ask("acquire", w)
}

func (f *fakeSession) Lookup(_ context.Context, dir fabric.Ino, path []string, want int) ([]rights.Grant, []namespace.Found, error) {
	return f.grants, f.found, f.ask("lookup", dir, path, want)
}

func (f *fakeSession) List(_ context.Context, dir fabric.Ino, from fabric.Pos, n int) ([]rights.Grant, []namespace.Dirent, bool, error) {
	return f.grants, f.page, f.eof, f.ask("list", dir, from, n)
}

func (f *fakeSession) Peek(_ context.Context, inos []fabric.Ino) ([]namespace.Inode, error) {
	return f.inodes, f.ask("peek", inos)
}

func (f *fakeSession) Release(_ context.Context, g []rights.Grant) error { return f.ask("release", g) }

func (f *fakeSession) Events(ctx context.Context) iter.Seq2[rights.Message, error] {
	return func(yield func(rights.Message, error) bool) {
		if err := f.ask("events"); err != nil {
			yield(nil, err)
			return
		}
		for _, m := range f.events {
			if !yield(m, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(nil, fabric.Canceled)
	}
}

func (f *fakeSession) Ack(_ context.Context, a []rights.Ack) error { return f.ask("ack", a) }

func (f *fakeSession) Apply(_ context.Context, c namespace.Command) ([]rights.Grant, namespace.Result, error) {
	return f.grants, f.result, f.ask("apply", c)
}

func (f *fakeSession) StatFS(context.Context) (fabric.Usage, error) {
	return f.usage, f.ask("statfs")
}

func (f *fakeSession) Close(context.Context) error { return f.ask("close") }
func (f *fakeSession) Blobs() storage.Blobs        { return f.blobs }

// fakeHub has one session, of one node.
type fakeHub struct {
	ca      *identity.CA
	token   identity.Token
	ticket  namespace.Ticket
	info    namespace.Info
	session *fakeSession
	other   Session // if not nil: given instead of session

	mu      sync.Mutex // guards what follows
	owner   string
	old     namespace.Ticket
	resumed int
	refuse  error // of Resume
}

const testNamespace = "data"

func (h *fakeHub) Join(_ context.Context, hash [32]byte, spoke, node string, csr []byte) ([]byte, []byte, error) {
	if hash != identity.HashSecret(h.token.Secret) || spoke != h.token.Spoke {
		return nil, nil, fabric.Denied
	}
	cert, err := h.ca.Sign(csr, spoke, node)
	return cert, h.ca.Cert(), err
}

func (h *fakeHub) Site(_ context.Context, p identity.Peer) ([]byte, error) {
	return []byte(`{"spoke":"` + p.Spoke + `"}`), nil
}

func (h *fakeHub) Open(_ context.Context, p identity.Peer, ns string, old namespace.Ticket) (Session, namespace.Ticket, namespace.Info, rights.Lease, error) {
	if ns != testNamespace {
		return nil, namespace.Ticket{}, namespace.Info{}, rights.Lease{}, fabric.Denied
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owner, h.old = p.String(), old
	if h.other != nil {
		return h.other, h.ticket, h.info, h.session.lease, nil
	}
	return h.session, h.ticket, h.info, h.session.lease, nil
}

func (h *fakeHub) Resume(_ context.Context, p identity.Peer, ns string, t namespace.Ticket) (Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resumed++
	switch {
	case h.refuse != nil:
		return nil, h.refuse
	case t.Session != h.ticket.Session || t.Epoch != h.ticket.Epoch:
		return nil, fabric.Fenced
	case ns != testNamespace || t != h.ticket || p.String() != h.owner:
		return nil, fabric.Denied
	}
	return h.session, nil
}

// world is a hub on a loopback port and a node that has joined.
type world struct {
	hub    *fakeHub
	hasher *chunk.Hasher
	addr   string
	id     *identity.Identity
	client *Client
}

func newCA(t testing.TB) *identity.CA {
	t.Helper()
	dir, err := disk.OS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := identity.OpenCA(dir, "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// serve starts a server at addr, and gives where it is and how to stop it.
func serve(t testing.TB, cfg Config, hub *fakeHub, addr string) (at string, stop func()) {
	t.Helper()
	tlsConfig, err := identity.ServerTLS(hub.ca, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(cfg, tlsConfig, hub)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func newHub(t testing.TB) (*fakeHub, *chunk.Hasher) {
	hasher := chunk.New([32]byte{42})
	hub := &fakeHub{ca: newCA(t), session: &fakeSession{blobs: mem.New(hasher)},
		ticket: namespace.Ticket{Session: fabric.SessionID{1, 2}, Epoch: 7, Secret: [32]byte{9}},
		info:   namespace.Info{ID: 5, Name: testNamespace, History: 6, DigestKey: [32]byte{42}, Chunking: namespace.Chunking{Algorithm: 1, Min: 1, Mean: 2, Max: 3}}}
	hub.session.lease = rights.Lease{Epoch: 7, Term: 3, Length: 12 * time.Second, Wall: 99}
	return hub, hasher
}

func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	hub, hasher := newHub(t)
	w := &world{hub: hub, hasher: hasher}
	w.addr, _ = serve(t, cfg, hub, "127.0.0.1:0")
	var err error
	if hub.token, err = identity.NewToken(w.addr, "branch", hub.ca.Pin()); err != nil {
		t.Fatal(err)
	}
	if w.id, err = Join(t.Context(), cfg, hub.token, "n1"); err != nil {
		t.Fatal(err)
	}
	w.client = w.dial(t, cfg, w.id)
	return w
}

func (w *world) dial(t testing.TB, cfg Config, id *identity.Identity) *Client {
	t.Helper()
	c, err := Dial(cfg, identity.ClientTLS(id), w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) connect(t testing.TB) *Conn {
	t.Helper()
	conn, _, _, _, err := w.client.Connect(t.Context(), testNamespace, namespace.Ticket{})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
