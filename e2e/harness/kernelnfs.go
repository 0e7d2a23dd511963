//go:build linux

package harness

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KernelNFS is a Linux kernel in user mode whose NFS client reaches servers of this machine's
// loopback. The guest's root is this machine's, read-only, so every program is there; /tmp, /run,
// /mnt and /var/lib are its own and empty.
type KernelNFS struct {
	// NFS is the port of the server on 127.0.0.1; the guest reaches it by the same number.
	NFS int
	// Portmap is the port of the portmapper on 127.0.0.1; the guest reaches it as 111. 0: none.
	Portmap int
	// Ports are others on 127.0.0.1 that the guest reaches by the same numbers.
	Ports []int
	// Program is a file that the guest finds as /host/program; "": none.
	Program string
	// Memory of the guest, such as "512M" (the default). It is a file in /dev/shm.
	Memory string
}

// The guest's side and ours of the link between them.
const (
	guestAddr = "10.99.7.2"
	hostAddr  = "10.99.7.1"
)

// programs are what a guest is made with.
var programs = []string{"linux.uml", "mount.nfs", "busybox", "ip", "setpriv"}

// Available says what is missing for a guest to be started; nil if nothing is.
func Available() error {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("the kernel's NFS client: %w", err)
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("the kernel's NFS client: only root can make a network namespace and a tap")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("the kernel's NFS client: %w", err)
	}
	if wideRegisters() {
		if _, err := exec.LookPath("cc"); err != nil {
			return fmt.Errorf("the kernel's NFS client on a processor with AMX: %w", err)
		}
	}
	return nil
}

//go:embed testdata/xstate.c
var xstateSource []byte

// wideRegisters says whether the processor has more registers than user-mode Linux 6.1 can keep.
func wideRegisters() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(info, []byte(" amx_tile"))
}

// preload makes the library of testdata/xstate.c in dir and gives the setting that loads it; "" if
// this processor needs none.
func preload(dir string) (string, error) {
	if !wideRegisters() {
		return "", nil
	}
	lib := filepath.Join(dir, "xstate.so")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-O1", "-x", "c", "-o", lib, "-")
	cmd.Stdin = bytes.NewReader(xstateSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w: %s", err, out)
	}
	return "LD_PRELOAD=" + lib, nil
}

// Run boots a guest, runs a shell script in it as root, and gives what the script printed. The
// script finds $SERVER, $PORT (of NFS) and sh's ordinary programs, and mounts for itself. The error
// is an *exec.ExitError-like text if the script failed. ctx ends the guest.
func (k KernelNFS) Run(ctx context.Context, script string) (output string, err error) {
	dir, err := os.MkdirTemp("/tmp", "knfs") // short: a socket's path goes below it
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	n := network{name: filepath.Base(dir)}
	if err := n.open(); err != nil {
		return "", err
	}
	defer n.close()
	for _, port := range append([]int{k.NFS}, k.Ports...) {
		if err := n.relay(port, port); err != nil {
			return "", err
		}
	}
	if k.Portmap != 0 {
		if err := n.relay(111, k.Portmap); err != nil {
			return "", err
		}
	}
	files := map[string]string{
		"first": firstInit, "second": secondInit, "script": script,
		"env": fmt.Sprintf("SERVER=%s PORT=%d OUR=%s\n", hostAddr, k.NFS, guestAddr),
	}
	for name, text := range files {
		text = strings.ReplaceAll(text, "@DIR@", dir)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return "", err
		}
	}
	if k.Program != "" {
		p, err := os.ReadFile(k.Program)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "program"), p, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	console, err := k.boot(ctx, dir, n.name)
	out, _ := os.ReadFile(filepath.Join(dir, "output"))
	code, e := os.ReadFile(filepath.Join(dir, "code"))
	switch {
	case e != nil:
		return string(out), fmt.Errorf("the guest did not finish: %w\n%s", errors.Join(err, ctx.Err()), tail(console, 3000))
	case strings.TrimSpace(string(code)) != "0":
		log, _ := os.ReadFile(filepath.Join(dir, "dmesg"))
		return string(out), fmt.Errorf("the script ended with %s; the guest's kernel said:\n%s", strings.TrimSpace(string(code)), tail(string(log), 2000))
	}
	return string(out), nil
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// boot runs the guest to its end and gives its console.
func (k KernelNFS) boot(ctx context.Context, dir, ns string) (string, error) {
	memory := k.Memory
	if memory == "" {
		memory = "512M"
	}
	cmd := exec.Command("ip", "netns", "exec", ns, "linux.uml",
		"mem="+memory, "umid="+ns, "uml_dir="+dir, "rootfstype=hostfs", "rootflags=/", "ro",
		"init="+filepath.Join(dir, "first"), "quiet",
		"vec0:transport=tap,ifname="+tapName+",depth=256,gro=1,mtu=1500",
		"con=null", "con0=null,fd:1", "ssl=null")
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TMPDIR=") && !strings.HasPrefix(e, "TMP=") && !strings.HasPrefix(e, "TEMP=") {
			cmd.Env = append(cmd.Env, e) // its memory goes to /dev/shm, not to a disk
		}
	}
	lib, err := preload(dir)
	if err != nil {
		return "", err
	}
	if lib != "" {
		cmd.Env = append(cmd.Env, lib)
	}
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		return "", err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	// The guest is many processes; its group is all of them, and ours alone.
	stop := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	err = cmd.Wait()
	text, _ := os.ReadFile(console.Name())
	return string(text), err
}

// tapName is the tap's name in its namespace.
const tapName = "tap0"

// network is a namespace with a tap, and relays from it to this machine's loopback.
type network struct {
	name      string
	listeners []net.Listener
	done      sync.WaitGroup
}

func (n *network) open() error {
	steps := [][]string{
		{"netns", "add", n.name},
		{"-n", n.name, "link", "set", "lo", "up"},
		{"-n", n.name, "tuntap", "add", "dev", tapName, "mode", "tap", "vnet_hdr"},
		{"-n", n.name, "addr", "add", hostAddr + "/30", "dev", tapName},
		{"-n", n.name, "link", "set", tapName, "up", "mtu", "1500"},
	}
	for _, s := range steps {
		if out, err := exec.Command("ip", s...).CombinedOutput(); err != nil {
			n.close()
			return fmt.Errorf("ip %s: %w: %s", strings.Join(s, " "), err, out)
		}
	}
	return nil
}

func (n *network) close() {
	for _, l := range n.listeners {
		l.Close()
	}
	n.done.Wait()
	exec.Command("ip", "netns", "del", n.name).Run()
}

// relay joins a port of the namespace to one of this machine's loopback.
func (n *network) relay(from, to int) error {
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result)
	// A socket belongs to the namespace of the thread that makes it. The thread is never unlocked,
	// so it dies with its goroutine and nobody else is left in the namespace.
	go func() {
		runtime.LockOSThread()
		l, err := n.listen(from)
		made <- result{l, err}
	}()
	r := <-made
	if r.err != nil {
		return r.err
	}
	n.listeners = append(n.listeners, r.l)
	n.done.Go(func() {
		for {
			c, err := r.l.Accept()
			if err != nil {
				return
			}
			n.done.Go(func() { splice(c, to) })
		}
	})
	return nil
}

func (n *network) listen(port int) (net.Listener, error) {
	ns, err := os.Open(filepath.Join("/run/netns", n.name))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("setns: %w", err)
	}
	return net.Listen("tcp4", net.JoinHostPort(hostAddr, strconv.Itoa(port)))
}

// splice copies both ways until either side ends.
func splice(a net.Conn, port int) {
	defer a.Close()
	b, err := net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 10*time.Second)
	if err != nil {
		return
	}
	defer b.Close()
	ended := make(chan struct{}, 2)
	one := func(dst, src net.Conn) {
		io.Copy(dst, src)
		ended <- struct{}{}
	}
	go one(a, b)
	go one(b, a)
	<-ended
}

// firstInit makes a writable root out of this machine's and goes on in it.
const firstInit = `#!/bin/busybox sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
# By its path: an applet run by name goes by /proc/self/exe, which is still the host's.
b=/bin/busybox
$b mount -t proc none /proc
$b mount -t sysfs none /sys
$b mount -t tmpfs -o mode=755 none /mnt
for top in /*; do
	new=/mnt$top
	case $top in
	/tmp|/run|/mnt|/proc|/sys|/dev|/var) $b mkdir -p $new ;;
	*) if [ -h $top ]; then $b cp -d $top $new
	   elif [ -d $top ]; then $b mkdir $new; $b mount --bind $top $new; fi ;;
	esac
done
for top in proc sys dev; do $b mount --bind /$top /mnt/$top; done
$b mkdir -p /mnt/dev/shm
$b mount -t tmpfs -o mode=1777 none /mnt/dev/shm
$b mount -t tmpfs -o mode=1777 none /mnt/tmp
$b mkdir -p /mnt/var/lib/nfs /mnt/var/tmp /mnt/host
$b mount -t hostfs -o @DIR@ none /mnt/host
exec $b chroot /mnt /host/second
`

// secondInit loads the client, brings up the network and runs the script.
const secondInit = `#!/bin/busybox sh
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=dumb
b=/bin/busybox
modules=/usr/lib/uml/modules/$($b uname -r)
for want in sunrpc nfs nfsv3; do
	# modules.dep names what a module needs, the nearest first: load from the far end.
	order=
	for m in $($b sed -n "s,:, ,; /\/$want\.ko /p" $modules/modules.dep); do order="$m $order"; done
	for m in $order; do $b insmod $modules/$m 2>/dev/null; done
done
set -a
. /host/env
set +a
$b ip link set lo up
$b ip link set vec0 up
$b ip addr add $OUR/30 dev vec0
cd /tmp
if [ -x /bin/bash ]; then shell=/bin/bash; else shell="$b sh"; fi
$shell /host/script >/host/output 2>&1 </dev/null
code=$?
$b dmesg | $b tail -n 40 >/host/dmesg
echo $code >/host/code
$b sync
$b poweroff -f -n
`
