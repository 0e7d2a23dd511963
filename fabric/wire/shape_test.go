package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

func TestParseShape(t *testing.T) {
	for s, want := range map[string]Shape{
		"":               {},
		"40ms":           {RTT: 40 * time.Millisecond},
		"200mbit":        {BitsPerSecond: 200e6},
		"40ms,200mbit":   {RTT: 40 * time.Millisecond, BitsPerSecond: 200e6},
		"10gbit, 1.5ms":  {RTT: 1500 * time.Microsecond, BitsPerSecond: 10e9},
		"500kbit,100ms ": {RTT: 100 * time.Millisecond, BitsPerSecond: 500e3},
	} {
		got, err := ParseShape(s)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
		if again, err := ParseShape(got.String()); err != nil || again != got {
			t.Errorf("%q, then %q: %+v, %v", s, got, again, err)
		}
	}
	for _, s := range []string{",", "40", "40ms,", "40ms,40ms", "1mbit,2mbit", "-1ms", "0ms", "-3mbit", "mbit", "1h", "99999999999gbit", "9223372036854775807kbit"} {
		if sh, err := ParseShape(s); !errors.Is(err, fabric.Invalid) {
			t.Errorf("%q: %+v, %v", s, sh, err)
		}
	}
}

// In a bubble: all goroutines of the connection must have ended at the end.
func TestShapeDelaysAndLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := Shape{RTT: 100 * time.Millisecond, BitsPerSecond: 8e6} // 1 MB/s
		real, peer := net.Pipe()
		dial := sh.Dialer(func(context.Context, string) (net.Conn, error) { return real, nil })
		start := time.Now()
		took := func(what string, want time.Duration) {
			t.Helper()
			if d := time.Since(start) - want; d < 0 || d > time.Millisecond {
				t.Errorf("%s after %v, want %v", what, time.Since(start), want)
			}
			start = time.Now()
		}
		c, err := dial(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		took("connected", 100*time.Millisecond)

		data := bytes.Repeat([]byte("0123456789"), 50000) // 0.5 s
		for _, way := range []struct{ from, to net.Conn }{{c, peer}, {peer, c}} {
			go way.from.Write(data)
			got := make([]byte, len(data))
			if _, err := io.ReadFull(way.to, got); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%v, or other bytes", err)
			}
			took("500 kB", 550*time.Millisecond)
		}

		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
			if ne := net.Error(nil); !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("no timeout: %v", err)
			}
		}
		go func() {
			c.Write([]byte("last words"))
			c.Close()
		}()
		if p, err := io.ReadAll(peer); err != nil || string(p) != "last words" {
			t.Errorf("%q, %v", p, err)
		}
		peer.Close()
	})
}

// Connections share the rate, and a small message does not wait for all that another connection has.
func TestShapedConnectionsShareALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := Shape{RTT: 100 * time.Millisecond, BitsPerSecond: 8e6} // 1 MB/s
		var peers []net.Conn
		dial := sh.Dialer(func(context.Context, string) (net.Conn, error) {
			real, peer := net.Pipe()
			peers = append(peers, peer)
			return real, nil
		})
		var conns []net.Conn
		for range 3 {
			c, err := dial(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 2 {
			go conns[i].Write(make([]byte, 500_000))
			wg.Go(func() {
				if _, err := io.ReadFull(peers[i], make([]byte, 500_000)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		go conns[2].Write([]byte("small"))
		if _, err := io.ReadFull(peers[2], make([]byte, 5)); err != nil {
			t.Error(err)
		}
		// Half the RTT, and at the most a turn and a piece of each of the others.
		least, most := 250*time.Millisecond, 250*time.Millisecond+2*(turn+17*time.Millisecond)
		if d := time.Since(start); d < least || d > most {
			t.Errorf("the small message came after %v, want %v to %v", d, least, most)
		}
		wg.Wait()
		if d := time.Since(start) - 1050*time.Millisecond; d < 0 || d > time.Millisecond {
			t.Errorf("2 times 500 kB took %v, want 1.05 s", time.Since(start))
		}
		for i := range conns {
			conns[i].Close()
			peers[i].Close()
		}
	})
}

func TestShapedCalls(t *testing.T) {
	w := newWorld(t, Config{})
	sh := Shape{RTT: 10 * time.Millisecond, BitsPerSecond: 1e9}
	w.client = w.dial(t, Config{Dialer: sh.Dialer(Config{}.WithDefaults().Dialer)}, w.id)
	c := w.connect(t)
	start := time.Now()
	if _, err := c.StatFS(t.Context()); err != nil || time.Since(start) < sh.RTT {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	noise(t, w, c, 2, 100<<10)
}
