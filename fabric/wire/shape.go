package wire

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spokefs/spokefs/fabric"
)

// Shape makes a link as slow as a distant one, for trials on one machine. The zero Shape changes
// nothing.
type Shape struct {
	RTT           time.Duration // half of it is added to each way
	BitsPerSecond int64         // of each way, for all connections together; 0: no limit
}

// ParseShape reads "40ms,200mbit": a round trip time, a rate in kbit, mbit or gbit, or both. Invalid
// for anything else; "" is the zero Shape.
func ParseShape(s string) (Shape, error) {
	var sh Shape
	if s == "" {
		return sh, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		ok := false
		if digits, unit, found := rate(part); found {
			n, err := strconv.ParseInt(digits, 10, 64)
			ok = err == nil && n > 0 && n <= 1e12/unit && sh.BitsPerSecond == 0
			sh.BitsPerSecond = n * unit
		} else {
			d, err := time.ParseDuration(part)
			ok = err == nil && d > 0 && d <= 10*time.Second && sh.RTT == 0
			sh.RTT = d
		}
		if !ok {
			return Shape{}, &fabric.Error{Op: "shape", Code: fabric.Invalid, Err: fmt.Errorf("%q is not like 40ms,200mbit", s)}
		}
	}
	return sh, nil
}

func rate(s string) (digits string, unit int64, ok bool) {
	for i, suffix := range []string{"kbit", "mbit", "gbit"} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			return digits, [...]int64{1e3, 1e6, 1e9}[i], true
		}
	}
	return "", 0, false
}

// String is what ParseShape reads.
func (s Shape) String() string {
	var parts []string
	if s.RTT > 0 {
		parts = append(parts, s.RTT.String())
	}
	switch r := s.BitsPerSecond; {
	case r > 0 && r%1e9 == 0:
		parts = append(parts, strconv.FormatInt(r/1e9, 10)+"gbit")
	case r > 0 && r%1e6 == 0:
		parts = append(parts, strconv.FormatInt(r/1e6, 10)+"mbit")
	case r > 0:
		parts = append(parts, strconv.FormatInt(r/1e3, 10)+"kbit")
	}
	return strings.Join(parts, ",")
}

// Dialer shapes the connections that dial makes: they share one link. Making one takes an RTT more,
// as it would.
func (s Shape) Dialer(dial DialFunc) DialFunc {
	if s == (Shape{}) {
		return dial
	}
	up, down := &line{shape: s}, &line{shape: s}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		t := time.NewTimer(s.RTT)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn, up, down), nil
	}
}

// piece is the most that one step of a shaped connection moves, in bytes.
const piece = 16 << 10

// shaped is our end of a pipe whose other end is pumped to and from the real connection. Deadlines
// are the pipe's.
type shaped struct {
	net.Conn
	real net.Conn
}

func (c *shaped) LocalAddr() net.Addr  { return c.real.LocalAddr() }
func (c *shaped) RemoteAddr() net.Addr { return c.real.RemoteAddr() }

func wrap(real net.Conn, up, down *line) net.Conn {
	near, far := net.Pipe()
	up.pump(real, far) // what we write, once it has been under way
	down.pump(far, real)
	return &shaped{Conn: near, real: real}
}

// line is one way of a link. Its connections take turns.
type line struct {
	shape Shape
	mu    sync.Mutex // guards free
	free  time.Time  // when it has taken what came before
}

// turn is how far ahead of the line one connection puts its bytes: enough that the line is never
// idle between two timers, and little for another connection to wait for.
const turn = 5 * time.Millisecond

// take puts n bytes on the line and says when it will have taken them.
func (l *line) take(n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	if l.shape.BitsPerSecond > 0 {
		l.free = l.free.Add(time.Duration(int64(n) * 8 * int64(time.Second) / l.shape.BitsPerSecond))
	}
	return l.free
}

// parcel is bytes under way.
type parcel struct {
	data []byte
	due  time.Time
}

// pump moves bytes from one connection to another, late and in order. When either end closes, the
// rest is delivered and both are closed.
func (l *line) pump(to, from net.Conn) {
	queue := make(chan parcel, l.shape.depth())
	dead := make(chan struct{}) // nobody takes from the queue any more
	go func() {
		defer close(queue)
		for {
			p := make([]byte, piece)
			n, err := from.Read(p)
			if n > 0 {
				taken := l.take(n)
				select {
				case queue <- parcel{p[:n], taken.Add(l.shape.RTT / 2)}:
				case <-dead:
					return
				}
				time.Sleep(time.Until(taken) - turn)
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(dead)
		defer from.Close()
		defer to.Close()
		for p := range queue {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	}()
}

// depth is the room of a connection's queue, in pieces: twice what the line holds, and something
// for small ones.
func (s Shape) depth() int {
	const least, most = 256, 4096
	line := int64(float64(s.BitsPerSecond) / 8 * s.RTT.Seconds() / piece)
	return int(min(least+2*line, most))
}
