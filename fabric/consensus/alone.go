package consensus

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// alone is the raft network of a hub with one voter: there is nobody to listen to, and so no port
// that a stranger could reach.
type alone struct {
	once   sync.Once
	closed chan struct{}
}

// Alone is the stream layer of a group with one voter.
func Alone() raft.StreamLayer { return &alone{closed: make(chan struct{})} }

// Accept implements net.Listener.
func (a *alone) Accept() (net.Conn, error) {
	<-a.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (a *alone) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}

type aloneAddr struct{}

// Network implements net.Addr.
func (aloneAddr) Network() string { return "none" }

// String implements net.Addr.
func (aloneAddr) String() string { return "alone" }

// Addr implements net.Listener.
func (a *alone) Addr() net.Addr { return aloneAddr{} }

// Dial implements raft.StreamLayer.
func (a *alone) Dial(addr raft.ServerAddress, _ time.Duration) (net.Conn, error) {
	return nil, fmt.Errorf("this hub has one node; %s is not it", addr)
}
