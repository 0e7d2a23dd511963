package wire

import (
	"context"
	"net"
	"time"

	"github.com/spokefs/spokefs/storage"
)

// DialFunc makes a TCP connection.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// Config is both ends' settings. Zero fields have defaults.
type Config struct {
	// Window is the flow control window of a stream and of a connection, in bytes, and so the most
	// that a peer can make us keep of either: 16 MiB, as much as gRPC would ever choose itself. With
	// ContentConns it bounds a transfer: connections × Window a round trip, 1.3 Gbit/s each at 100 ms.
	Window int32
	// ContentConns is the number of a client's connections for content: 2. More of them fill a
	// longer link, and a packet that is lost holds only its own.
	ContentConns int
	// Buffer is the size of a connection's read and write buffer, in bytes: 256 KiB, from which on
	// nothing is gained.
	Buffer int
	// Keepalive is the time without traffic after which a connection is probed, and half the time
	// until it is given up: 10 s, the least that gRPC allows.
	Keepalive time.Duration

	// Handshake is the time a server gives a connection's TLS handshake: 10 s.
	Handshake time.Duration
	// MaxConns bounds a server's connections, of which a node has 2 + ContentConns: 4096.
	MaxConns int
	// MaxStrangers bounds those of them that show no certificate: 64. Each lasts 30 s at most.
	MaxStrangers int
	// MaxSessions bounds the sessions a server knows without asking its Deps: 4096.
	MaxSessions int
	// MaxItems bounds the wants, grants, acks, inodes or steps in one call: 65536.
	MaxItems int
	// MaxBatch is the bytes of blobs that a server collects of one Put before it stores them:
	// 16 MiB. It may be exceeded by one blob.
	MaxBatch int

	// MaxPuts bounds the Puts of one session that a server works on at a time; others wait: 4. With
	// MaxBatch it bounds the memory that a node can make a server use.
	MaxPuts int

	// Patience is how long a client waits for a connection to come back before a transfer that
	// was cut fails: 10 s.
	Patience time.Duration
	// Retries is how often in a row, without a blob between, a transfer is taken up again: 3.
	Retries int
	// MaxBackoff bounds the pause between a client's attempts to connect: 2 s.
	MaxBackoff time.Duration
	// Dialer makes a client's connections; net.Dialer's if nil. See Shape.
	Dialer DialFunc
}

// WithDefaults fills the fields that are zero.
func (c Config) WithDefaults() Config {
	set(&c.Window, 16<<20)
	set(&c.ContentConns, 2)
	set(&c.Buffer, 256<<10)
	set(&c.Keepalive, 10*time.Second)
	set(&c.Handshake, 10*time.Second)
	set(&c.MaxConns, 4096)
	set(&c.MaxStrangers, 64)
	set(&c.MaxSessions, 4096)
	set(&c.MaxItems, 65536)
	set(&c.MaxBatch, 16<<20)
	set(&c.MaxPuts, 4)
	set(&c.Patience, 10*time.Second)
	set(&c.Retries, 3)
	set(&c.MaxBackoff, 2*time.Second)
	if c.Dialer == nil {
		c.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	return c
}

func set[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

const (
	// maxMessage bounds one message, in bytes.
	maxMessage = storage.MaxFrame
	// maxPage is where a server cuts a page of a listing, in bytes; what else a reply has fits in
	// the rest.
	maxPage = 3 << 20
	// maxHeader bounds the headers of a call, in bytes.
	maxHeader = 16 << 10
	// maxStreams bounds the calls under way on one connection.
	maxStreams = 256

	// The versions of the protocol that this code speaks.
	minVersion = 2
	maxVersion = 2

	// Keys of the metadata of a session's calls.
	ticketKey    = "spokefs-ticket-bin"
	namespaceKey = "spokefs-namespace-bin"
)
