package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"iter"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// drain runs a fetch and gives its last error.
func drain[T any](seq func(func(T, error) bool)) (err error) {
	seq(func(_ T, e error) bool {
		err = e
		return e == nil
	})
	return err
}

// everyCall makes one call of each method with a rule other than anyone.
var everyCall = map[string]func(ctx context.Context, c *Conn) error{
	pb.Fabric_Site_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.c.fabric.Site(ctx, &pb.SiteRequest{})
		return err
	},
	pb.Fabric_Connect_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.c.fabric.Connect(ctx, &pb.ConnectRequest{Namespace: testNamespace})
		return err
	},
	pb.Fabric_Resume_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.c.fabric.Resume(c.with(ctx), &pb.ResumeRequest{})
		return err
	},
	pb.Fabric_Renew_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.Renew(ctx, 0, nil)
		return err
	},
	pb.Fabric_Acquire_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, _, err := c.Acquire(ctx, nil)
		return err
	},
	pb.Fabric_Lookup_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, _, err := c.Lookup(ctx, 1, nil, 0)
		return err
	},
	pb.Fabric_List_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, _, _, err := c.List(ctx, 1, fabric.Pos{}, 1)
		return err
	},
	pb.Fabric_Peek_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.Peek(ctx, nil)
		return err
	},
	pb.Fabric_Release_FullMethodName: func(ctx context.Context, c *Conn) error { return c.Release(ctx, nil) },
	pb.Fabric_Events_FullMethodName: func(ctx context.Context, c *Conn) error {
		return drain[rights.Message](c.Events(ctx))
	},
	pb.Fabric_Ack_FullMethodName: func(ctx context.Context, c *Conn) error { return c.Ack(ctx, nil) },
	pb.Fabric_Apply_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, _, err := c.Apply(ctx, namespace.Command{})
		return err
	},
	pb.Fabric_StatFS_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.StatFS(ctx)
		return err
	},
	pb.Fabric_Close_FullMethodName: func(ctx context.Context, c *Conn) error { return c.Close(ctx) },
	pb.Chunks_Fetch_FullMethodName: func(ctx context.Context, c *Conn) error {
		return drain[storage.Blob](c.Blobs().Fetch(ctx, storage.Demand, []storage.Ref{{Len: 1}}))
	},
	pb.Chunks_FetchRange_FullMethodName: func(ctx context.Context, c *Conn) error {
		return drain[storage.Blob](c.Blobs().FetchRange(ctx, storage.Demand, storage.Ref{Len: 1}, 0, 1))
	},
	pb.Chunks_Put_FullMethodName: func(ctx context.Context, c *Conn) error {
		return c.Blobs().Put(ctx, storage.Upload, []storage.Blob{{Ref: storage.Ref{Len: 1}, Kind: storage.Chunk, Form: storage.Raw, Data: []byte{1}}})
	},
	pb.Chunks_Missing_FullMethodName: func(ctx context.Context, c *Conn) error {
		_, err := c.Blobs().Missing(ctx, []storage.Ref{{Len: 1}}, nil)
		return err
	},
}

// watched is a store that nothing may reach.
type watched struct{ t *testing.T }

func (w watched) touched() iter.Seq2[storage.Blob, error] {
	w.t.Error("a transfer came through")
	return func(func(storage.Blob, error) bool) {}
}

func (w watched) Fetch(context.Context, storage.Class, []storage.Ref) iter.Seq2[storage.Blob, error] {
	return w.touched()
}

func (w watched) FetchRange(context.Context, storage.Class, storage.Ref, int64, int64) iter.Seq2[storage.Blob, error] {
	return w.touched()
}

func (w watched) Put(context.Context, storage.Class, []storage.Blob) error {
	w.touched()
	return nil
}

func (w watched) Missing(_ context.Context, _, dst []storage.Ref) ([]storage.Ref, error) {
	w.touched()
	return dst, nil
}

func TestEveryMethodIsTried(t *testing.T) {
	want := 0
	for m, r := range methods {
		if r != anyone {
			want++
			if everyCall[m] == nil {
				t.Errorf("no call of %s", m)
			}
		}
	}
	if len(everyCall) != want {
		t.Errorf("calls of %v", slices.Sorted(maps.Keys(everyCall)))
	}
}

// cert is a certificate that ca makes at a time.
func cert(t *testing.T, ca *identity.CA, at time.Time, spoke, node string) tls.Certificate {
	t.Helper()
	key, csr, err := identity.NewKeyAndCSR()
	if err != nil {
		t.Fatal(err)
	}
	ca.Now = func() time.Time { return at }
	defer func() { ca.Now = nil }()
	der, err := ca.Sign(csr, spoke, node)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestCertificatesAreRefused(t *testing.T) {
	w := newWorld(t, Config{})
	w.connect(t)
	w.hub.session.blobs = watched{t: t}
	calls := w.hub.session.calls
	hubCert, err := w.hub.ca.Server("h2")
	if err != nil {
		t.Fatal(err)
	}
	for name, certs := range map[string][]tls.Certificate{
		"absent":    nil,
		"foreign":   {cert(t, newCA(t), time.Now(), "branch", "n1")},
		"expired":   {cert(t, w.hub.ca, time.Now().Add(-2*identity.CertLife), "branch", "n1")},
		"not yet":   {cert(t, w.hub.ca, time.Now().Add(identity.CertLife), "branch", "n1")},
		"a hub's":   {hubCert},
		"other":     {cert(t, w.hub.ca, time.Now(), "branch", "n2")},
		"its twin":  {cert(t, w.hub.ca, time.Now(), "branch2", "n1")},
		"malformed": {{Certificate: [][]byte{{1, 2, 3}}, PrivateKey: hubCert.PrivateKey}},
	} {
		t.Run(name, func(t *testing.T) {
			tlsConfig := identity.ClientTLS(w.id)
			tlsConfig.Certificates = certs
			c, err := Dial(Config{Retries: 1, Patience: time.Millisecond}, tlsConfig, w.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conn := c.conn(testNamespace, w.hub.ticket)
			stranger := name == "other" || name == "its twin"
			for m, call := range everyCall {
				if stranger && methods[m] == node {
					continue // they are nodes, though not this one
				}
				if err := call(t.Context(), conn); err == nil {
					t.Errorf("%s was allowed", m)
				}
			}
		})
	}
	if w.hub.session.calls != calls {
		t.Errorf("the session was asked %v", w.hub.session.asked)
	}
}

func TestTicketsAreChecked(t *testing.T) {
	for _, fresh := range []bool{false, true} { // the server knows the session, or asks for it
		w := newWorld(t, Config{})
		w.connect(t)
		w.hub.session.blobs = watched{t: t}
		calls := w.hub.session.calls
		for name, forge := range map[string]func(t *namespace.Ticket, ns *string){
			"session":   func(t *namespace.Ticket, _ *string) { t.Session[0]++ },
			"epoch":     func(t *namespace.Ticket, _ *string) { t.Epoch++ },
			"secret":    func(t *namespace.Ticket, _ *string) { t.Secret[31]++ },
			"namespace": func(_ *namespace.Ticket, ns *string) { *ns = "other" },
		} {
			ticket, ns := w.hub.ticket, testNamespace
			forge(&ticket, &ns)
			if fresh {
				w = restarted(t, w)
			}
			conn := w.client.conn(ns, ticket)
			torn := w.client.conn(ns, ticket)
			torn.ticket = torn.ticket[1:]
			for m, call := range everyCall {
				if methods[m] != owner {
					continue
				}
				if err := call(t.Context(), conn); err == nil {
					t.Errorf("%s with another %s was allowed", m, name)
				}
				if err := call(t.Context(), torn); err == nil {
					t.Errorf("%s without a ticket was allowed", m)
				}
			}
		}
		if w.hub.session.calls != calls {
			t.Errorf("the session was asked %v", w.hub.session.asked)
		}
	}
}

// restarted is w with another server for the same hub, which knows no session.
func restarted(t *testing.T, w *world) *world {
	n := *w
	n.addr, _ = serve(t, Config{}, w.hub, "127.0.0.1:0")
	n.client = n.dial(t, Config{}, w.id)
	return &n
}

func TestJoinIsRefused(t *testing.T) {
	w := newWorld(t, Config{})
	token := w.hub.token
	try := func(name string, want fabric.Code, node string, change func(t *identity.Token)) {
		tok := token
		tok.Secret = slices.Clone(token.Secret)
		change(&tok)
		if id, err := Join(t.Context(), Config{}, tok, node); !errors.Is(err, want) || id != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	try("another secret", fabric.Denied, "n2", func(t *identity.Token) { t.Secret[0]++ })
	try("another spoke", fabric.Denied, "n2", func(t *identity.Token) { t.Spoke = "hq" })
	try("another pin", fabric.Unavailable, "n2", func(t *identity.Token) { t.Pin[0]++ })
	try("a bad name", fabric.Invalid, "n/2", func(*identity.Token) {})
}

func TestGarbage(t *testing.T) {
	w := newWorld(t, Config{})
	conn := w.connect(t)
	for _, p := range [][]byte{nil, []byte("GET / HTTP/1.1\r\n\r\n"), make([]byte, 4096), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), {22, 3, 1, 255, 255, 1}} {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(p) // the server may have closed already
		c.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Logf("%q: %v", p, err) // a reset is as good as an end
		}
		c.Close()
	}
	// After a good handshake.
	tlsConfig := identity.ClientTLS(w.id)
	tlsConfig.NextProtos = []string{"h2"}
	c, err := tls.Dial("tcp", w.addr, tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	c.Write(make([]byte, 64<<10))
	c.CloseWrite()
	io.Copy(io.Discard, c)
	c.Close()
	if _, err := conn.StatFS(t.Context()); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
}

func TestOtherHubsAreRefused(t *testing.T) {
	w := newWorld(t, Config{})
	// A server of another authority, and a node that plays the hub.
	other, _ := newHub(t)
	at, _ := serve(t, Config{}, other, "127.0.0.1:0")
	c, err := Dial(Config{}, identity.ClientTLS(w.id), at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Site(t.Context()); !errors.Is(err, fabric.Unavailable) {
		t.Errorf("a foreign hub: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(w.id.CA)
	s, err := NewServer(Config{}, &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		Certificates: []tls.Certificate{cert(t, w.hub.ca, time.Now(), "branch", "n1")}}, w.hub)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	c2, err := Dial(Config{}, identity.ClientTLS(w.id), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if _, err := c2.Site(t.Context()); !errors.Is(err, fabric.Unavailable) {
		t.Errorf("a node as hub: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
