package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/identity"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
)

// strange is a client of w's hub that shows no certificate.
func (w *world) strange(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(Config{}, identity.JoinTLS(w.hub.ca.Pin()), w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestStrangersAreFew(t *testing.T) {
	w := newWorld(t, Config{MaxStrangers: 2})
	a, b := w.strange(t), w.strange(t)
	for _, c := range []*Client{a, b} {
		if err := c.greet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := w.strange(t)
	if err := c.greet(t.Context()); !errors.Is(err, fabric.Unavailable) {
		t.Errorf("the third: %v", err)
	}
	w.connect(t) // nodes are not concerned
	a.Close()
	// Its place is free as soon as the server has seen the end: each try is answered.
	for c.greet(t.Context()) != nil {
	}
}

func TestStrangersSendLittle(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.strange(t)
	if err := c.greet(t.Context()); err != nil {
		t.Fatal(err)
	}
	join := func(size int) error {
		_, err := c.fabric.Join(t.Context(), &pb.JoinRequest{Secret: []byte("x"), Spoke: "branch", Node: "n9", Csr: random(size)})
		return fromStatus(t.Context(), "join", err)
	}
	if err := join(4 << 10); !errors.Is(err, fabric.Denied) {
		t.Errorf("a small join: %v", err)
	}
	if err := join(128 << 10); !errors.Is(err, fabric.Unavailable) {
		t.Errorf("a large join: %v", err)
	}
	w.connect(t)
}

// random is n bytes that do not compress.
func random(n int) []byte {
	p, x := make([]byte, n), uint32(1)
	for i := range p {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		p[i] = byte(x)
	}
	return p
}

func TestStrangersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t)
		serverTLS, err := identity.ServerTLS(ca, true)
		if err != nil {
			t.Fatal(err)
		}
		d := newDoorman(credentials.NewTLS(serverTLS), 1)
		near, far := net.Pipe()
		go func() {
			clientTLS := identity.JoinTLS(ca.Pin())
			clientTLS.NextProtos = []string{"h2"}
			c := tls.Client(near, clientTLS)
			if err := c.HandshakeContext(t.Context()); err != nil {
				t.Error(err)
			}
			c.Read(make([]byte, 1))
		}()
		conn, _, err := d.ServerHandshake(far)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(strangerTime - time.Second)
		synctest.Wait()
		if len(d.places) != 1 {
			t.Error("it left early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(d.places) != 0 {
			t.Error("it stays")
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("it may still send")
		}
		conn.Close()
	})
}
