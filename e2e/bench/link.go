package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// shape is what a link does to packets, each way alike.
type shape struct {
	rtt   time.Duration
	mbit  int64 // per second, IP headers included; 0: no limit
	queue int64 // bytes that wait for the transmitter; more are dropped
}

func (s shape) String() string { return fmt.Sprintf("%v, %d Mbit/s", s.rtt, s.mbit) }

// of gives the shape of a link whose queue holds twice what is under way.
func shaped(rtt time.Duration, mbit int64) shape {
	return shape{rtt, mbit, max(2*int64(rtt.Seconds()*float64(mbit)*1e6/8), 256<<10)}
}

// traffic is what a link has carried.
type traffic struct {
	down, up int64 // bytes of IP to the far site, and from it
	dropped  int64 // packets
}

// link is the router between two sites: a process of its own, for it must not wait behind readers.
type link struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	pipe sync.Mutex // one question at a time
}

// routerEnv makes a process that calls Main a router.
const routerEnv = "SPOKEFS_BENCH_ROUTER"

// connect starts the router between near and far.
func connect(near, far *site) (*link, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &link{cmd: exec.Command(self)}
	l.cmd.Env = append(os.Environ(), routerEnv+"=1")
	l.cmd.ExtraFiles = []*os.File{near.tun, far.tun}
	l.cmd.Stderr = os.Stderr
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out = bufio.NewReader(out)
	return l, l.cmd.Start()
}

// set changes the shape, and gives what was carried so far.
func (l *link) set(s shape) (traffic, error) {
	return l.ask("%d %d %d\n", s.rtt.Nanoseconds(), s.mbit*1e6/8, s.queue)
}

// carried gives what was carried so far.
func (l *link) carried() (traffic, error) { return l.ask("-1 0 0\n") }

func (l *link) ask(format string, args ...any) (t traffic, err error) {
	l.pipe.Lock()
	defer l.pipe.Unlock()
	if _, err := fmt.Fprintf(l.in, format, args...); err != nil {
		return t, fmt.Errorf("router: %w", err)
	}
	line, err := l.out.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &t.down, &t.up, &t.dropped)
	}
	if err != nil {
		return t, fmt.Errorf("router: %w", err)
	}
	return t, nil
}

func (l *link) close() error {
	l.in.Close()
	return l.cmd.Wait()
}

// router is the process behind a link: it moves packets between two TUN devices, and takes a line
// of settings at a time, until its input ends.
func router() error {
	near, far := os.NewFile(3, "near"), os.NewFile(4, "far")
	down, up := newLane(), newLane()
	go down.take(near)
	go down.give(far)
	go up.take(far)
	go up.give(near)
	for {
		var rtt, rate, queue int64
		if _, err := fmt.Scanln(&rtt, &rate, &queue); err != nil {
			return nil
		}
		if rtt >= 0 {
			down.set(rtt/2, rate, queue)
			up.set(rtt/2, rate, queue)
		}
		fmt.Println(down.bytes.Load(), up.bytes.Load(), down.dropped.Load()+up.dropped.Load())
	}
}

// lane is one way of a link: a queue before a transmitter, and the way itself.
type lane struct {
	mu    sync.Mutex // guards what follows
	delay time.Duration
	rate  int64 // bytes per second; 0: no limit
	queue int64 // bytes
	free  time.Time

	packets        chan packet
	bytes, dropped atomic.Int64
}

// packet is one under way.
type packet struct {
	data []byte
	due  time.Time
}

// onTheWay is the most packets a lane holds, whatever its shape: 250 Mbit/s for a second.
const onTheWay = 1 << 15

func newLane() *lane { return &lane{packets: make(chan packet, onTheWay)} }

func (l *lane) set(delay, rate, queue int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.rate, l.queue = time.Duration(delay), rate, queue
}

// admit says when a packet of n bytes arrives at the other end; false: the queue is full.
func (l *lane) admit(now time.Time, n int) (due time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	if l.rate > 0 {
		if waiting := int64(l.free.Sub(now).Seconds() * float64(l.rate)); waiting+int64(n) > l.queue {
			return due, false
		}
		l.free = l.free.Add(time.Duration(int64(n) * int64(time.Second) / l.rate))
	}
	return l.free.Add(l.delay), true
}

// take reads packets from a device and puts them on the way.
func (l *lane) take(dev *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := dev.Read(buf)
		if err != nil {
			return
		}
		if n == 0 || buf[0]>>4 != 4 {
			continue // the kernel's own IPv6 chatter
		}
		due, ok := l.admit(time.Now(), n)
		if !ok {
			l.dropped.Add(1)
			continue
		}
		l.packets <- packet{append([]byte(nil), buf[:n]...), due}
		l.bytes.Add(int64(n))
	}
}

// give delivers packets when they are due.
func (l *lane) give(dev *os.File) {
	for p := range l.packets {
		time.Sleep(time.Until(p.due))
		if _, err := dev.Write(p.data); err != nil {
			return
		}
	}
}
