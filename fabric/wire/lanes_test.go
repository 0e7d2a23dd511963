package wire

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/rights"
	"github.com/spokefs/spokefs/storage"
)

// bog is a dialer whose connections can get stuck: nothing more comes in on those there are.
type bog struct {
	mu    sync.Mutex // guards conns
	conns []*boggy
}

type boggy struct {
	net.Conn
	stuck, closed chan struct{}
	once, end     sync.Once
}

func (b *bog) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &boggy{Conn: conn, stuck: make(chan struct{}), closed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, c)
	return c, nil
}

// sink makes the connections there are get stuck, and says how many they are.
func (b *bog) sink() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.once.Do(func() { close(c.stuck) })
	}
	return len(b.conns)
}

func (c *boggy) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.stuck:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *boggy) Close() error {
	c.end.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestRecallsWaitForNothing: when calls and content are stuck, the lease is renewed and recalls are
// answered all the same.
func TestRecallsWaitForNothing(t *testing.T) {
	w := newWorld(t, Config{})
	var b bog
	w.client = w.dial(t, Config{Dialer: b.dial, ContentConns: 1}, w.id)
	c, s := w.connect(t), w.hub.session
	s.events = []rights.Message{&rights.Waiting{Ino: 7}}
	noise(t, w, c, 1, 100)
	if n := b.sink(); n != 2 {
		t.Fatalf("%d connections for a call and a transfer", n)
	}
	stuck, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if _, err := c.StatFS(stuck); err == nil {
			t.Error("a call was answered: nothing is stuck")
		}
	})
	wg.Go(func() {
		if _, err := c.Blobs().Missing(stuck, []storage.Ref{{Len: 1}}, nil); err == nil {
			t.Error("a transfer was answered: nothing is stuck")
		}
	})
	if _, err := c.Renew(t.Context(), 0, nil); err != nil {
		t.Errorf("Renew: %v", err)
	}
	for m, err := range c.Events(t.Context()) {
		if err != nil || m.(*rights.Waiting).Ino != 7 {
			t.Errorf("%v, %v", m, err)
		}
		break
	}
	if err := c.Ack(t.Context(), []rights.Ack{{Ino: fabric.Ino(7)}}); err != nil {
		t.Errorf("Ack: %v", err)
	}
}

// TestTransfersShareOut: transfers at the same time have different connections, those one after
// the other the same.
func TestTransfersShareOut(t *testing.T) {
	w := newWorld(t, Config{})
	w.client = w.dial(t, Config{ContentConns: 3}, w.id)
	c := w.connect(t)
	refs := noise(t, w, c, 2, 100)
	dials := w.client.Stats().Dials
	fetch := func(then func()) {
		for _, err := range c.Blobs().Fetch(t.Context(), storage.Demand, refs) {
			if err != nil {
				t.Fatal(err)
			}
			if then != nil {
				then()
				return
			}
		}
	}
	fetch(nil)
	fetch(nil)
	if n := w.client.Stats().Dials; n != dials {
		t.Errorf("%d connections more for transfers in a row", n-dials)
	}
	fetch(func() { fetch(func() { fetch(func() { fetch(nil) }) }) })
	if n := w.client.Stats().Dials; n != dials+2 {
		t.Errorf("%d connections more for four transfers at a time", n-dials)
	}
	for i, l := range w.client.lanes {
		if n := l.busy.Load(); n != 0 {
			t.Errorf("connection %d has %d under way", i, n)
		}
	}
}
