package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// Who shows no certificate may call Hello and Join, and gets no more of a connection than those
// need: windows and messages of nodes would let anyone have our memory.
const (
	// strangerBytes is what a stranger may send on a connection, TLS not counted: a join takes 2 KiB.
	strangerBytes = 64 << 10
	// strangerTime is how long its connection lasts.
	strangerTime = 30 * time.Second
)

// errCrowd refuses a handshake.
var errCrowd = errors.New("too many connections without a certificate")

// doorman is a server's credentials: TLS, with bounds for strangers.
type doorman struct {
	credentials.TransportCredentials
	places chan struct{} // one per stranger's connection
}

func newDoorman(tls credentials.TransportCredentials, strangers int) *doorman {
	return &doorman{TransportCredentials: tls, places: make(chan struct{}, strangers)}
}

// Clone implements credentials.TransportCredentials. The places are the same.
func (d *doorman) Clone() credentials.TransportCredentials {
	return &doorman{TransportCredentials: d.TransportCredentials.Clone(), places: d.places}
}

// ServerHandshake implements credentials.TransportCredentials.
func (d *doorman) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 {
		return conn, info, nil
	}
	select {
	case d.places <- struct{}{}:
	default:
		conn.Close()
		return nil, nil, errCrowd
	}
	s := &stranger{Conn: conn, left: strangerBytes, leave: sync.OnceFunc(func() { <-d.places })}
	s.timer = time.AfterFunc(strangerTime, func() { s.end() })
	return s, info, nil
}

// stranger is a connection of somebody without a certificate.
type stranger struct {
	net.Conn
	left  int // of strangerBytes; Read's alone
	timer *time.Timer
	leave func() // gives its place back, once
}

// Read ends the connection when the stranger has sent what it may.
func (s *stranger) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func (s *stranger) Close() error {
	s.timer.Stop()
	return s.end()
}

func (s *stranger) end() error {
	s.leave()
	return s.Conn.Close()
}

// ClientHandshake implements credentials.TransportCredentials; a server makes none.
func (d *doorman) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}
