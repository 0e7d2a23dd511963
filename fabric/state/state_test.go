package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spokefs/spokefs/fabric/kv"
	"github.com/spokefs/spokefs/storage/disk"
)

// script is a tiny state machine: "set k v", "del k", "clear a b"; the result is what k was.
func script(v kv.View, index uint64, cmd []byte) []byte {
	var verb, a, b string
	fmt.Sscan(string(cmd), &verb, &a, &b)
	old, _ := v.Get([]byte(a))
	switch verb {
	case "set":
		v.Set([]byte(a), []byte(b))
	case "del":
		v.Delete([]byte(a))
	case "clear":
		v.DeleteRange([]byte(a), []byte(b))
	}
	return fmt.Appendf(nil, "%d:%s", index, old)
}

func start(t *testing.T, dir disk.Dir) *Machine {
	t.Helper()
	m, err := Open(Config{Apply: script}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func folder(t *testing.T) disk.Dir {
	t.Helper()
	d, err := disk.OS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func run(m *Machine, from uint64, cmds ...string) []string {
	var idx []uint64
	var in [][]byte
	for i, c := range cmds {
		idx = append(idx, from+uint64(i))
		in = append(in, []byte(c))
	}
	var out []string
	for _, p := range m.Apply(idx, in) {
		out = append(out, string(p))
	}
	return out
}

func content(m *Machine) []string {
	v, done := m.View()
	defer done()
	var out []string
	for k, p := range v.Scan(nil, nil) {
		out = append(out, string(k)+"="+string(p))
	}
	return out
}

func TestCommandsOfABatchSeeEachOther(t *testing.T) {
	m := start(t, folder(t))
	defer m.Close()
	got := run(m, 1, "set a 1", "set a 2", "set b 3", "del a", "clear b c", "set c 4")
	if want := []string{"1:", "2:1", "3:", "4:2", "5:3", "6:"}; !slices.Equal(got, want) {
		t.Errorf("results are %q, want %q", got, want)
	}
	if got := content(m); !slices.Equal(got, []string{"c=4"}) || m.Applied() != 6 {
		t.Errorf("state is %q at %d", got, m.Applied())
	}
}

func TestAppliedIndexesAreSkippedAndMayBeShared(t *testing.T) {
	m := start(t, folder(t))
	defer m.Close()
	m.Apply([]uint64{1, 1, 2}, [][]byte{[]byte("set a 1"), []byte("set b 1"), []byte("set c 1")})
	got := run(m, 1, "set a 9", "set c 9", "set d 9")
	if got[0] != "" || got[1] != "" || got[2] != "3:" {
		t.Errorf("results are %q", got)
	}
	if got := content(m); !slices.Equal(got, []string{"a=1", "b=1", "c=1", "d=9"}) {
		t.Errorf("state is %q", got)
	}
}

func TestViewStaysAsItWas(t *testing.T) {
	m := start(t, folder(t))
	defer m.Close()
	run(m, 1, "set a 1")
	v, done := m.View()
	defer done()
	run(m, 2, "set a 2")
	if p, _ := v.Get([]byte("a")); string(p) != "1" {
		t.Errorf("a view taken before shows %q", p)
	}
}

func TestCheckpointIsDurableAndRestored(t *testing.T) {
	d := folder(t)
	m := start(t, d)
	run(m, 1, "set a 1")
	if err := m.Checkpoint("cp"); err != nil {
		t.Fatal(err)
	}
	at := m.Hash()
	run(m, 2, "set a 2", "set b 2")
	if m.Hash() == at {
		t.Fatal("the hash does not see a change")
	}
	if err := m.Restore("cp"); err != nil {
		t.Fatal(err)
	}
	if m.Hash() != at || m.Applied() != 1 {
		t.Errorf("restored to %q at %d", content(m), m.Applied())
	}
	run(m, 2, "set a 3")
	if err := m.Restore("cp"); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = start(t, d)
	defer m.Close()
	if m.Hash() != at || m.Applied() != 1 {
		t.Errorf("after a restart it is %q at %d", content(m), m.Applied())
	}
	if err := m.Forget("cp"); err != nil {
		t.Fatal(err)
	}
	if err := m.Restore("cp"); err == nil {
		t.Error("a forgotten checkpoint was restored")
	}
}
