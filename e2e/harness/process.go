package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// built is the folder of the binary, "" before it is built.
var built string

// Binary gives the path of spokefs, built from this work tree at the first call in this process.
// Main removes it.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spokefs-bin-")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "spokefs")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/spokefs/spokefs/cmd/spokefs").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return bin, nil
})

// Main is what TestMain of a package that uses Binary or a Guest exits with.
func Main(m interface{ Run() int }) int {
	if addr, ok := strings.CutPrefix(os.Args[len(os.Args)-1], guestArg); ok {
		if err := serveGuest(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	return code
}

// Process is a program that runs until it is killed or stopped, and can be started again. Its calls
// must not overlap.
type Process struct {
	name string
	log  string // file of its standard error; it grows over starts
	env  []string
	args []string

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended and been waited for
	err   error         // how it ended; read after ended
}

// start starts the program. line is called with each line of its standard output, in order.
func (p *Process) start(line func(string)) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is ours to pass on, in order
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			line(s.Text())
		}
		p.err = cmd.Wait()
		close(ended)
	}()
	return nil
}

// await waits until ready is closed. It fails at once if the program ends before, and kills it if
// ctx does.
func (p *Process) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-p.ended:
		return p.Explain(fmt.Errorf("%s ended before it was ready: %w", p.name, p.err))
	case <-ctx.Done():
		p.Kill()
		return p.Explain(fmt.Errorf("%s was not ready in time: %w", p.name, ctx.Err()))
	}
}

// Kill ends the program without a chance to tidy up (SIGKILL), and waits for its end.
func (p *Process) Kill() {
	if p.cmd != nil {
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// stopTime is how long Stop waits: more than a spokefs takes to give up publishing.
const stopTime = 90 * time.Second

// Stop asks the program to end (SIGTERM) and waits for it. The error says that it ended with a
// failure, or had to be killed; nil if it does not run.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.ended: // killed, and not started again
		return nil
	default:
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("%s: %w", p.name, p.err)
		}
		return nil
	case <-time.After(stopTime):
		p.Kill()
		return fmt.Errorf("%s did not stop in %v and was killed", p.name, stopTime)
	}
}

// Explain adds the end of the program's log to an error.
func (p *Process) Explain(err error) error {
	log, e := os.ReadFile(p.log)
	if e != nil || len(log) == 0 {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return fmt.Errorf("%w\n%s: %s", err, p.name, strings.Join(lines[max(0, len(lines)-15):], "\n"+p.name+": "))
}

// Require is the setting that makes a missing tool a failure; CI sets it.
const Require = "SPOKEFS_REQUIRE_TOOLS"

// TB is what this package needs of a testing.TB: it is linked into spokefs for the demo, where
// package testing has no place.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Failed() bool
	Log(...any)
	Error(...any)
	Fatal(...any)
	Skip(...any)
}

// Lacking ends a test for want of something: it is skipped, or fails where that must be there.
func Lacking(t TB, why error) {
	t.Helper()
	if os.Getenv(Require) == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Root ends a test that must change its user, unless this user may.
func Root(t TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Lacking(t, errors.New("changing the user needs root"))
	}
}
