package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// site is a network namespace of ours, or (nil) the machine's own. It has no name, so that nothing
// is left of it when we are gone.
type site struct {
	jobs chan func()
	addr string // of its end of the link
	tun  *os.File
}

// newSite makes a namespace with its loopback and the end of a link: a TUN device wan0 with the
// address 10.80.n.1, whose packets come out of tun.
func newSite(n int) (*site, error) {
	s := &site{jobs: make(chan func()), addr: fmt.Sprintf("10.80.%d.1", n)}
	made := make(chan error)
	// A namespace belongs to a thread. This one is never unlocked: it ends with its goroutine.
	go func() {
		runtime.LockOSThread()
		made <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range s.jobs {
			f()
		}
	}()
	if err := <-made; err != nil {
		s.close()
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	if err := s.do(s.open); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) open() (err error) {
	if s.tun, err = os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		return err
	}
	req, err := unix.NewIfreq("wan0")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(int(s.tun.Fd()), unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("TUNSETIFF: %w", err)
	}
	for _, args := range []string{
		"link set lo up",
		"addr add " + s.addr + "/24 dev wan0",
		"link set wan0 up mtu 1500 txqueuelen 10000",
		"route add 10.80.0.0/16 dev wan0",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// do runs f in the namespace: sockets it makes and processes it starts are there.
func (s *site) do(f func() error) error {
	if s == nil {
		return f()
	}
	err := make(chan error)
	s.jobs <- func() { err <- f() }
	return <-err
}

// dial is net.Dialer.DialContext from within.
func (s *site) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = s.do(func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

func (s *site) close() error {
	if s == nil {
		return nil
	}
	close(s.jobs)
	if s.tun != nil {
		return s.tun.Close()
	}
	return nil
}

// linkable says why there can be no link of IP packets here; nil: there can.
func linkable() error {
	if os.Geteuid() != 0 {
		return errors.New("a link of IP packets needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("a link of IP packets: %w", err)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("a link of IP packets: %w", err)
	}
	return nil
}
