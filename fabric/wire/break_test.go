package wire

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/storage"
)

// cable is a dialer whose connections can be cut.
type cable struct {
	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// noise is n blobs of size bytes that do not compress, stored.
func noise(t testing.TB, w *world, c *Conn, n, size int) (refs []storage.Ref) {
	t.Helper()
	raw := random(n * size)
	for i := range n {
		b := w.hasher.Seal(storage.Chunk, raw[i*size:][:size], nil)
		if err := c.Blobs().Put(t.Context(), storage.Upload, []storage.Blob{b}); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, b.Ref)
	}
	return refs
}

func TestFetchGoesOnAfterACut(t *testing.T) {
	w := newWorld(t, Config{})
	var line cable
	w.client = w.dial(t, Config{Window: 128 << 10, Dialer: line.dial}, w.id)
	c := w.connect(t)
	refs := noise(t, w, c, 24, 512<<10)
	asked := &asking{Blobs: w.hub.session.blobs}
	w.hub.session.blobs = asked
	dials := w.client.Stats().Dials
	got := map[storage.Ref]int{}
	for b, err := range c.Blobs().Fetch(t.Context(), storage.Demand, refs) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.hasher.Verify(b, nil); err != nil {
			t.Fatal(err)
		}
		if got[b.Ref]++; len(got) == 2 || len(got) == 9 {
			line.cut()
		}
	}
	for _, r := range refs {
		if got[r] != 1 {
			t.Errorf("%v came %d times", r, got[r])
		}
	}
	if n := w.client.Stats().Dials; n < dials+2 {
		t.Errorf("%d connections: it was not cut", n)
	}
	asked.mu.Lock()
	defer asked.mu.Unlock()
	if len(asked.lists) < 3 || len(asked.lists[0]) != len(refs) || len(asked.lists[1]) > len(refs)-2 || len(asked.lists[2]) > len(refs)-9 {
		t.Errorf("%d times, %d, then %d, then %d asked for", len(asked.lists), len(asked.lists[0]), len(asked.lists[1]), len(asked.lists[2]))
	}
}

// asking keeps what fetches ask for.
type asking struct {
	storage.Blobs
	mu    sync.Mutex // guards lists
	lists [][]storage.Ref
}

func (a *asking) Fetch(ctx context.Context, c storage.Class, refs []storage.Ref) iter.Seq2[storage.Blob, error] {
	a.mu.Lock()
	a.lists = append(a.lists, refs)
	a.mu.Unlock()
	return a.Blobs.Fetch(ctx, c, refs)
}

func TestAFetchGivesUp(t *testing.T) {
	w := newWorld(t, Config{})
	var line cable
	w.client = w.dial(t, Config{Window: 128 << 10, Dialer: line.dial, Patience: 1, Retries: 1}, w.id)
	c := w.connect(t)
	refs := noise(t, w, c, 12, 512<<10)
	var last error
	for _, err := range c.Blobs().Fetch(t.Context(), storage.Demand, refs) {
		line.cut()
		last = err
	}
	if !errors.Is(last, storage.ErrUnavailable) {
		t.Errorf("%v", last)
	}
}

func TestSessionsOutliveServers(t *testing.T) {
	hub, hasher := newHub(t)
	addr, stop := serve(t, Config{}, hub, "127.0.0.1:0")
	w := &world{hub: hub, hasher: hasher, addr: addr}
	var err error
	if hub.token, err = identity.NewToken(addr, "branch", hub.ca.Pin()); err != nil {
		t.Fatal(err)
	}
	if w.id, err = Join(t.Context(), Config{}, hub.token, "n1"); err != nil {
		t.Fatal(err)
	}
	w.client = w.dial(t, Config{}, w.id)
	c := w.connect(t)
	events := make(chan error)
	started := make(chan struct{})
	go func() {
		close(started)
		events <- drain(c.Events(t.Context()))
	}()
	<-started
	stop()
	if err := <-events; !errors.Is(err, fabric.Unavailable) {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := c.StatFS(t.Context()); !errors.Is(err, fabric.Unavailable) {
		t.Errorf("no server, and %v", err)
	}
	serve(t, Config{}, hub, addr)
	for _, cc := range w.client.conns {
		if !w.client.ready(t.Context(), cc) {
			t.Fatal("no connection")
		}
	}
	if _, err := c.StatFS(t.Context()); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	noise(t, w, c, 1, 100)
	if hub.resumed != 1 {
		t.Errorf("resumed %d times", hub.resumed)
	}
}

func TestWhatHasEndedIsAskedForAgain(t *testing.T) {
	w := newWorld(t, Config{})
	c, s := w.connect(t), w.hub.session
	s.err = fabric.Unavailable // the term has ended
	if _, err := c.StatFS(t.Context()); !errors.Is(err, fabric.Unavailable) {
		t.Error(err)
	}
	s.err = nil
	if _, err := c.StatFS(t.Context()); err != nil || w.hub.resumed != 1 {
		t.Errorf("%v, resumed %d times", err, w.hub.resumed)
	}
	if _, err := c.Renew(t.Context(), 0, nil); err != nil || w.hub.resumed != 2 {
		t.Errorf("%v, resumed %d times", err, w.hub.resumed)
	}
	w.hub.refuse = fabric.Denied // the grant was taken back
	if _, err := c.Renew(t.Context(), 0, nil); !errors.Is(err, fabric.Denied) {
		t.Error(err)
	}
	if _, err := c.StatFS(t.Context()); !errors.Is(err, fabric.Denied) {
		t.Error(err)
	}
}

func TestKnownSessionsAreBounded(t *testing.T) {
	w := newWorld(t, Config{MaxSessions: 1})
	c := w.connect(t)
	w.hub.ticket.Session[0]++
	d := w.connect(t)
	if _, err := d.StatFS(t.Context()); err != nil || w.hub.resumed != 0 {
		t.Errorf("%v, resumed %d times", err, w.hub.resumed)
	}
	w.hub.ticket.Session[0]--
	if _, err := c.StatFS(t.Context()); err != nil || w.hub.resumed != 1 {
		t.Errorf("%v, resumed %d times", err, w.hub.resumed)
	}
}

func TestResumeOfAnEarlierProcess(t *testing.T) {
	w := newWorld(t, Config{})
	w.connect(t)
	other := w.dial(t, Config{}, w.id)
	if _, err := other.Resume(t.Context(), testNamespace, w.hub.ticket); err != nil {
		t.Error(err)
	}
	if _, err := other.Resume(t.Context(), testNamespace, namespace.Ticket{Epoch: 99}); !errors.Is(err, fabric.Fenced) {
		t.Error(err)
	}
}
