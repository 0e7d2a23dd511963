package harness

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// script is a process of a shell script.
func script(t *testing.T, text string) *Process {
	return &Process{name: "it", log: filepath.Join(t.TempDir(), "log"), args: []string{"sh", "-c", text}}
}

// A program that ends instead of getting ready is noticed at once, with what it said.
func TestEndsBeforeReady(t *testing.T) {
	p := script(t, "echo oh dear >&2; exit 3")
	if err := p.start(func(string) {}); err != nil {
		t.Fatal(err)
	}
	err := p.await(t.Context(), make(chan struct{}))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "oh dear") {
		t.Errorf("error %v", err)
	}
	m := &MinIO{Process: *script(t, "echo no port >&2; exit 1"), Endpoint: "http://127.0.0.1:1"}
	if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no port") {
		t.Errorf("MinIO: error %v", err)
	}
}

// A program that never gets ready is killed when its time is over.
func TestNeverReady(t *testing.T) {
	p := script(t, "exec sleep 1000")
	if err := p.start(func(string) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.await(ctx, make(chan struct{})); err == nil {
		t.Error("it is ready")
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stopped after its end: %v", err)
	}
}

// Stop lets a program tidy up, Kill does not; both can be followed by another start.
func TestStopAndKill(t *testing.T) {
	p := script(t, "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	for _, kill := range []bool{false, true} {
		ready := make(chan struct{})
		var after []string
		err := p.start(func(line string) {
			if line == "ready" {
				close(ready)
				return
			}
			after = append(after, line)
		})
		if err == nil {
			err = p.await(t.Context(), ready)
		}
		if err != nil {
			t.Fatal(err)
		}
		if kill {
			p.Kill()
		} else if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if len(after) == 1 == kill {
			t.Errorf("kill=%v: it said %q", kill, after)
		}
	}
}
