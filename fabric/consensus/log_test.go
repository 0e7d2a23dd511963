package consensus

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/spokefs/spokefs/storage/disk"
)

// tape is a Machine that remembers what it applied, as a store that is flushed at once would.
type tape struct {
	mu      sync.Mutex
	applied uint64
	cmds    []string
	saved   map[string][]string
	answer  func(index uint64, cmd []byte) []byte // nil: its place and the command
}

func (m *tape) Apply(indexes []uint64, cmds [][]byte) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.applied
	out := make([][]byte, len(cmds))
	for i, c := range cmds {
		if indexes[i] <= before {
			continue
		}
		m.cmds = append(m.cmds, string(c))
		if m.answer != nil {
			out[i] = m.answer(indexes[i], c)
		} else {
			out[i] = fmt.Appendf(nil, "%d:%s", len(m.cmds), c)
		}
		m.applied = indexes[i]
	}
	return out
}

func (m *tape) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

func (m *tape) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.cmds)
}

func (m *tape) Checkpoint(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.saved == nil {
		m.saved = map[string][]string{}
	}
	m.saved[name] = slices.Clone(m.cmds)
	return nil
}

func (m *tape) Restore(name string) error { return fmt.Errorf("not expected: %s", name) }

func (m *tape) Forget(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.saved, name)
	return nil
}

// member is one node of a test group.
type member struct {
	log     *Log
	machine *tape
	stop    func()
}

func startMember(t *testing.T, path, node string, voters []Voter, l net.Listener, m *tape) *member {
	t.Helper()
	dir, err := disk.OS(path)
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	mux := NewMux(l, func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { mux.Run(ctx) })
	log, err := New(Config{Group: "g", Node: node, Voters: voters}, m, Deps{
		Disk: dir, Stream: mux.Layer("g"), Slog: slog.New(slog.DiscardHandler),
		Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return &member{log: log, machine: m, stop: func() {
		if err := log.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		wg.Wait()
	}}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// awaitLeader returns a member that leads.
func awaitLeader(t *testing.T, ms ...*member) *member {
	t.Helper()
	found := make(chan *member, len(ms))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, m := range ms {
		go func() {
			for {
				_, ours, changed := m.log.Leading()
				if ours {
					found <- m
					return
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return <-found
}

func TestOneVoterKeepsWhatItAnswered(t *testing.T) {
	path, l := t.TempDir(), listen(t)
	voters := []Voter{{ID: "a", Addr: l.Addr().String()}}
	m := startMember(t, path, "a", voters, l, &tape{})
	awaitLeader(t, m)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			got, err := m.log.Propose(t.Context(), fmt.Appendf(nil, "c%d", i))
			if err != nil || len(got) == 0 {
				t.Errorf("propose: %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if err := m.log.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.log.Propose(t.Context(), []byte("after the snapshot")); err != nil {
		t.Fatal(err)
	}
	if err := m.log.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := m.machine.all()
	if len(before) != 201 {
		t.Fatalf("%d commands applied, want 201", len(before))
	}
	m.stop()

	// A machine that kept no more than its checkpoint gets the rest again, in order.
	kept := &tape{}
	for name, cmds := range m.machine.saved {
		if _, err := fmt.Sscanf(name, "checkpoint-%x", &kept.applied); err != nil {
			t.Fatal(err)
		}
		kept.cmds = slices.Clone(cmds)
	}
	if len(kept.cmds) != 200 {
		t.Fatalf("the checkpoint has %d commands, want 200", len(kept.cmds))
	}
	again := startMember(t, path, "a", voters, listen(t), kept)
	defer again.stop()
	awaitLeader(t, again)
	if err := again.log.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := again.machine.all(); !slices.Equal(got, before) {
		t.Fatalf("after restart %d commands, before %d", len(got), len(before))
	}
}

func TestThreeVotersGoOnWithoutTheirLeader(t *testing.T) {
	var voters []Voter
	var ls []net.Listener
	for i := range 3 {
		l := listen(t)
		ls = append(ls, l)
		voters = append(voters, Voter{ID: fmt.Sprint("n", i), Addr: l.Addr().String()})
	}
	var ms []*member
	for i, l := range ls {
		ms = append(ms, startMember(t, t.TempDir(), voters[i].ID, voters, l, &tape{}))
	}
	first := awaitLeader(t, ms...)
	if _, err := first.log.Propose(t.Context(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	first.stop()
	rest := slices.DeleteFunc(slices.Clone(ms), func(m *member) bool { return m == first })
	second := awaitLeader(t, rest...)
	if err := second.log.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.machine.all(); !slices.Equal(got, []string{"one"}) {
		t.Fatalf("the new leader has %q", got)
	}
	if _, err := second.log.Propose(t.Context(), []byte("two")); err != nil {
		t.Fatal(err)
	}
	for _, m := range rest {
		m.stop()
	}
}
