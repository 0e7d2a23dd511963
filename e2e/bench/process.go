package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spokefs/spokefs/fabric/admin"
)

// process is a spokefs node, or a server it is compared with.
type process struct {
	name      string
	cmd       *exec.Cmd
	done      chan error
	log       string            // file of its standard error
	data      string            // folder
	endpoints map[string]string // protocol to address
	admin     *admin.Client
	at        *site
}

// launch starts a program at a site; its standard error goes to a file in dir.
func launch(dir, name string, at *site, env []string, program string, args ...string) (*process, *bufio.Scanner, error) {
	n := &process{name: name, log: filepath.Join(dir, name+".log"), endpoints: map[string]string{}, at: at, done: make(chan error, 1)}
	log, err := os.Create(n.log)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	n.cmd = exec.Command(program, args...)
	n.cmd.Stderr = log
	n.cmd.Env = append(os.Environ(), env...)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is ours to pass on, in order
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := at.do(n.cmd.Start); err != nil {
		return nil, nil, err
	}
	return n, bufio.NewScanner(out), nil
}

// run starts spokefs with a configuration and waits until it says that it is ready.
func run(ctx context.Context, binary, dir, name string, at *site, config string, args ...string) (*process, error) {
	file := filepath.Join(dir, name+".toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	n, out, err := launch(dir, name, at, nil, binary, append(args, file)...)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { n.cmd.Process.Kill() })
	defer stop()
	for out.Scan() {
		f := strings.Fields(out.Text())
		if len(f) == 1 && f[0] == "ready" {
			go func() { n.done <- n.cmd.Wait() }()
			n.data = filepath.Join(dir, name)
			n.admin = admin.Dial(filepath.Join(n.data, "admin.sock"))
			return n, nil
		}
		if len(f) >= 2 {
			n.endpoints[f[0]] = strings.TrimPrefix(f[1], "http://")
		}
	}
	return nil, errors.Join(fmt.Errorf("the %s ended before it was ready", name), n.cmd.Wait(), n.tail())
}

// stop ends the process and those it has started in order, and kills it if it takes more than a
// minute.
func (n *process) stop() error {
	syscall.Kill(-n.cmd.Process.Pid, syscall.SIGTERM)
	t := time.NewTimer(time.Minute)
	defer t.Stop()
	select {
	case err := <-n.done:
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", n.name, err), n.tail())
		}
		return nil
	case <-t.C:
		syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL)
		return errors.Join(fmt.Errorf("%s did not stop in a minute and was killed", n.name), n.tail())
	}
}

// tail is the end of the log, as an error; nil if there is none.
func (n *process) tail() error {
	p, err := os.ReadFile(n.log)
	if err != nil || len(p) == 0 {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(p)), "\n")
	return fmt.Errorf("%s said: %s", n.name, strings.Join(lines[max(0, len(lines)-10):], "\n"))
}

// cpu is the processor time that the process has used, in seconds.
func (n *process) cpu() (float64, error) {
	p, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(p[strings.LastIndexByte(string(p), ')')+1:]))
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", n.cmd.Process.Pid, p)
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	const ticks = 100 // a second, on every Linux that Go runs on
	return float64(user+system) / ticks, errors.Join(err, err2)
}

// settled waits until nothing is dirty at the node.
func (n *process) settled(ctx context.Context) error {
	for {
		s, err := n.admin.Status(ctx)
		if err != nil {
			return err
		}
		dirty := 0
		for _, ns := range s.Namespaces {
			dirty += ns.Dirty
		}
		if dirty == 0 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wan is the bytes between a spoke and its hub so far, both ways, TLS included, IP not.
func (n *process) wan(ctx context.Context) (int64, error) {
	s, err := n.admin.Status(ctx)
	return s.Wan.Received + s.Wan.Sent, err
}
