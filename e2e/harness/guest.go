//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"strings"
	"syscall"
	"time"
)

// Guest is a kernel in user mode with NFS mounts, whose files are used from here.
type Guest struct {
	conn *rpc.Client
	done chan struct{} // closed when the guest is down
	out  string
	err  error // why it is down; both are read after done
}

// OpenGuest boots a kernel that mounts the portal "main" of the servers on these ports of
// 127.0.0.1, each with the options given besides the needed ones. The test's TestMain must be
// Main. It ends with the test.
func OpenGuest(t TB, options string, ports ...int) *Guest {
	t.Helper()
	if err := Available(); err != nil {
		Lacking(t, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	control := l.Addr().(*net.TCPAddr).Port
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for i, port := range ports {
		fmt.Fprintf(&script, "mkdir /tmp/m%d\nmount.nfs $SERVER:/main /tmp/m%d -o vers=3,proto=tcp,nolock,nosharecache,port=%d,mountport=%d,%s\n", i, i, port, port, options)
	}
	fmt.Fprintf(&script, "/host/program %s$SERVER:%d\n", guestArg, control)
	for i := range ports {
		fmt.Fprintf(&script, "umount.nfs /tmp/m%d\n", i)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Guest{done: make(chan struct{})}
	k := KernelNFS{NFS: ports[0], Ports: append([]int{control}, ports[1:]...), Program: self}
	go func() {
		g.out, g.err = k.Run(ctx, script.String())
		close(g.done)
		l.Close() // whoever waits for the guest
	}()
	t.Cleanup(func() {
		if g.conn != nil {
			g.conn.Close() // its program ends, and the guest
		}
		slow := time.AfterFunc(stopTime, cancel)
		<-g.done
		slow.Stop()
		cancel()
		if g.err != nil {
			t.Error(g.err, g.out)
		}
	})
	c, err := l.Accept()
	if err != nil {
		<-g.done
		t.Fatal("the guest did not come up: ", errors.Join(g.err, err), g.out)
	}
	g.conn = rpc.NewClient(c)
	return g
}

// Do carries out an operation below a mount, by its place among the ports. Operations may overlap.
func (g *Guest) Do(mount int, op FileOp) FileResult {
	var r FileResult
	if err := g.conn.Call("Files.Do", &GuestCall{Mount: mount, Op: op}, &r); err != nil {
		return FileResult{Errno: syscall.EIO, Error: "the guest: " + err.Error()}
	}
	return r
}
