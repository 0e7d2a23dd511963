package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
)

// Client is a spoke node's end. Renewals, recalls and acks have a connection of their own, where
// they wait for nothing that is long (A14); so have the other calls, and content has several. Each
// is made when it is needed, and again after a break. Calls may overlap.
type Client struct {
	cfg     Config
	conns   []*grpc.ClientConn // all of them
	control pb.FabricClient    // Renew, Events, Ack
	fabric  pb.FabricClient    // the other calls
	lanes   []*lane            // content
	gates   *gates
	count   counters

	mu    sync.Mutex // guards hello
	hello bool       // the hub speaks our version
}

// counters is what a client counts.
type counters struct {
	sent, received                             atomic.Int64
	rawIn, storedIn, rawOut, storedOut, blobIn atomic.Int64
	blobOut, dials                             atomic.Int64
}

// Stats is what a client has done since it was made. Bytes are as on the sockets, TLS and all;
// Raw and Stored tell what blobs are worth unpacked from what was sent of them.
type Stats struct {
	Dials          int64
	Sent, Received int64
	BlobsIn        int64
	RawIn          int64
	StoredIn       int64
	BlobsOut       int64
	RawOut         int64
	StoredOut      int64
}

// Stats gives the counts.
func (c *Client) Stats() Stats {
	n := &c.count
	return Stats{Dials: n.dials.Load(), Sent: n.sent.Load(), Received: n.received.Load(),
		BlobsIn: n.blobIn.Load(), RawIn: n.rawIn.Load(), StoredIn: n.storedIn.Load(),
		BlobsOut: n.blobOut.Load(), RawOut: n.rawOut.Load(), StoredOut: n.storedOut.Load()}
}

// Dial makes a client of the hub at addr (host:port). It connects nothing yet. tlsConfig is
// identity.ClientTLS's.
func Dial(cfg Config, tlsConfig *tls.Config, addr string) (*Client, error) {
	c := &Client{cfg: cfg.WithDefaults(), gates: newGates()}
	for range 2 + c.cfg.ContentConns {
		cc, err := c.dial(tlsConfig, addr)
		if err != nil {
			c.Close()
			return nil, &fabric.Error{Op: "dial", Code: fabric.Invalid, Err: err}
		}
		c.conns = append(c.conns, cc)
	}
	c.control, c.fabric = pb.NewFabricClient(c.conns[0]), pb.NewFabricClient(c.conns[1])
	for _, cc := range c.conns[2:] {
		c.lanes = append(c.lanes, &lane{conn: cc, chunks: pb.NewChunksClient(cc)})
	}
	return c, nil
}

// lane is a connection for content.
type lane struct {
	conn   *grpc.ClientConn
	chunks pb.ChunksClient
	busy   atomic.Int64 // transfers under way
}

// take chooses the lane with the least under way, the first of equals; who took it leaves it.
func (c *Client) take() *lane {
	best := c.lanes[0]
	for _, l := range c.lanes[1:] {
		if l.busy.Load() < best.busy.Load() {
			best = l
		}
	}
	best.busy.Add(1)
	return best
}

func (l *lane) leave() { l.busy.Add(-1) }

func (c *Client) dial(tlsConfig *tls.Config, addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)),
		grpc.WithContextDialer(c.connect), grpc.WithUnaryInterceptor(compressRequest),
		grpc.WithStaticStreamWindowSize(c.cfg.Window), grpc.WithStaticConnWindowSize(c.cfg.Window),
		grpc.WithReadBufferSize(c.cfg.Buffer), grpc.WithWriteBufferSize(c.cfg.Buffer),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.cfg.Keepalive, Timeout: c.cfg.Keepalive, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 5 * time.Second,
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: c.cfg.MaxBackoff}}),
		grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
	)
}

// connect dials and counts.
func (c *Client) connect(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := c.cfg.Dialer(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.count.dials.Add(1)
	return &counted{Conn: conn, n: &c.count}, nil
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	n *counters
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n.sent.Add(int64(n))
	return n, err
}

// Close ends the connections, and so all calls under way; sessions stay open until they expire.
func (c *Client) Close() error {
	var errs []error
	for _, cc := range c.conns {
		errs = append(errs, cc.Close())
	}
	return errors.Join(errs...)
}

// greet agrees on a version, once.
func (c *Client) greet(ctx context.Context) error {
	c.mu.Lock()
	done := c.hello
	c.mu.Unlock()
	if done {
		return nil
	}
	if err := greet(ctx, c.fabric); err != nil {
		return err
	}
	c.mu.Lock()
	c.hello = true
	c.mu.Unlock()
	return nil
}

func greet(ctx context.Context, f pb.FabricClient) error {
	r, err := f.Hello(ctx, &pb.HelloRequest{Min: minVersion, Max: maxVersion})
	if err != nil {
		return fromStatus(ctx, "hello", err)
	}
	if r.Version < minVersion || r.Version > maxVersion {
		return &fabric.Error{Op: "hello", Code: fabric.Unsupported}
	}
	return nil
}

// Site is what this node's spoke may show, as JSON.
func (c *Client) Site(ctx context.Context) ([]byte, error) {
	if err := c.greet(ctx); err != nil {
		return nil, err
	}
	r, err := c.fabric.Site(ctx, &pb.SiteRequest{})
	if err != nil {
		return nil, fromStatus(ctx, "site", err)
	}
	return r.Site, nil
}

// Connect opens a session with a namespace; old is as in spoke.Connector.
func (c *Client) Connect(ctx context.Context, ns string, old namespace.Ticket) (*Conn, namespace.Info, namespace.Ticket, rights.Lease, error) {
	fail := func(err error) (*Conn, namespace.Info, namespace.Ticket, rights.Lease, error) {
		return nil, namespace.Info{}, namespace.Ticket{}, rights.Lease{}, err
	}
	if err := c.greet(ctx); err != nil {
		return fail(err)
	}
	req := &pb.ConnectRequest{Namespace: ns}
	if old.Epoch != 0 {
		req.Old = namespace.AppendTicket(nil, &old)
	}
	r, err := c.fabric.Connect(ctx, req)
	if err != nil {
		return fail(fromStatus(ctx, "connect", err))
	}
	t, err := namespace.DecodeTicket(r.Ticket)
	if err != nil {
		return fail(err)
	}
	info, err := namespace.DecodeInfo(r.Info)
	if err != nil {
		return fail(err)
	}
	return c.conn(ns, t), info, t, getLease(r.Lease), nil
}

// Resume gives the session of a ticket that an earlier process or client had. Fenced: it has ended;
// Denied: it is not this node's.
func (c *Client) Resume(ctx context.Context, ns string, t namespace.Ticket) (*Conn, error) {
	if err := c.greet(ctx); err != nil {
		return nil, err
	}
	conn := c.conn(ns, t)
	if _, err := c.fabric.Resume(conn.with(ctx), &pb.ResumeRequest{}); err != nil {
		return nil, fromStatus(ctx, "resume", err)
	}
	return conn, nil
}

// ready waits until a connection is there again, for as long as Patience.
func (c *Client) ready(ctx context.Context, cc *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	for {
		state := cc.GetState()
		if state == connectivity.Ready {
			return true
		}
		cc.Connect()
		if !cc.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// Join makes node a node of the token's spoke: it asks the hub that the token names, whose
// authority must be the pinned one, for a certificate. The key never leaves this process. Denied:
// the token is not good, or not any more; Unavailable: the hub cannot be reached, or is not the one.
func Join(ctx context.Context, cfg Config, token identity.Token, node string) (*identity.Identity, error) {
	key, csr, err := identity.NewKeyAndCSR()
	if err != nil {
		return nil, err
	}
	c, err := Dial(cfg, identity.JoinTLS(token.Pin), token.Hub)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.greet(ctx); err != nil {
		return nil, err
	}
	r, err := c.fabric.Join(ctx, &pb.JoinRequest{Secret: token.Secret, Spoke: token.Spoke, Node: node, Csr: csr})
	if err != nil {
		return nil, fromStatus(ctx, "join", err)
	}
	id, err := identity.New(key, r.Cert, r.Ca)
	if err != nil {
		return nil, err
	}
	if err := id.Fits(token, node); err != nil {
		return nil, err
	}
	return id, nil
}
