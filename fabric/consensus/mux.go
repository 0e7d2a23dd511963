package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Mux shares one listener among the groups of a hub node: a connection starts with the length
// and the name of the group it is for. The listener and dialer bring TLS.
type Mux struct {
	listener net.Listener
	dial     func(ctx context.Context, addr string) (net.Conn, error)

	mu     sync.Mutex // guards layers
	layers map[string]*layer
}

// maxGroup bounds a group's name, in bytes.
const maxGroup = 255

// helloTime is how long a peer may take to say which group it wants.
const helloTime = 5 * time.Second

// NewMux returns a Mux on l; dial reaches other hub nodes.
func NewMux(l net.Listener, dial func(ctx context.Context, addr string) (net.Conn, error)) *Mux {
	return &Mux{listener: l, dial: dial, layers: map[string]*layer{}}
}

// Run accepts connections until ctx ends, and closes the listener.
func (m *Mux) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { m.listener.Close() })
	defer stop()
	for {
		c, err := m.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("consensus: %w", err)
		}
		go m.route(c)
	}
}

// route hands a connection to its group, or closes it.
func (m *Mux) route(c net.Conn) {
	c.SetReadDeadline(time.Now().Add(helloTime))
	var head [1 + maxGroup]byte
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		c.Close()
		return
	}
	name := head[1 : 1+int(head[0])]
	if _, err := io.ReadFull(c, name); err != nil {
		c.Close()
		return
	}
	c.SetReadDeadline(time.Time{})
	m.mu.Lock()
	l := m.layers[string(name)]
	m.mu.Unlock()
	if l == nil {
		c.Close()
		return
	}
	select {
	case l.conns <- c:
	case <-l.closed:
		c.Close()
	}
}

// Layer is the group's share of the Mux, for Deps.Stream.
func (m *Mux) Layer(group string) raft.StreamLayer {
	l := &layer{mux: m, group: group, conns: make(chan net.Conn), closed: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layers[group] = l
	return l
}

// layer implements raft.StreamLayer.
type layer struct {
	mux    *Mux
	group  string
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; the shared listener stays open.
func (l *layer) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.mux.mu.Lock()
		defer l.mux.mu.Unlock()
		if l.mux.layers[l.group] == l {
			delete(l.mux.layers, l.group)
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *layer) Addr() net.Addr { return l.mux.listener.Addr() }

// Dial implements raft.StreamLayer.
func (l *layer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := l.mux.dial(ctx, string(addr))
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(append([]byte{byte(len(l.group))}, l.group...)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
