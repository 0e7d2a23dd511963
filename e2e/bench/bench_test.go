package bench

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/spokefs/spokefs/protocols/fuse"
)

// TestMain lets the test binary be the router of a link.
func TestMain(m *testing.M) {
	if os.Getenv(routerEnv) != "" {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

var form = regexp.MustCompile(`^figure F[0-9]+ (-|[0-9.]+) [a-z/]+ target(<=|>=)[0-9.]+ (ok|short|unmeasured: .+)( [a-z]+=[0-9]+)*( peer absent)?$`)

// The whole benchmark on a tiny data set: all lines are there and well formed; what is read is held
// against its hash within.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and takes a while")
	}
	if err := errors.Join(fuse.Available(), linkable()); err != nil {
		if os.Getenv("SPOKEFS_REQUIRE_TOOLS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	bin := filepath.Join(t.TempDir(), "spokefs")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/spokefs/spokefs/cmd/spokefs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := Run(t.Context(), Config{Binary: bin, Scale: 0.002, Mbit: 500, Spokes: 1, Least: 20 * time.Millisecond, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F10"}
	var got []string
	for _, l := range r.Lines() {
		if !form.MatchString(l) {
			t.Errorf("not a figure: %s", l)
		}
		got = append(got, strings.Fields(l)[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("figures %v, want %v", got, want)
	}
	for _, f := range r.figures {
		for _, c := range f.conditions {
			if c.absent == "" && c.value <= 0 && f.id != "F1" {
				t.Errorf("%s, %s: %v", f.id, c.what, c.value)
			}
		}
	}
}

func TestLines(t *testing.T) {
	for want, f := range map[string]figure{
		"figure F3 1.27 ratio target>=1 ok": {id: "F3", conditions: []condition{{value: 1.27, unit: "ratio", target: 1}}},
		// The condition that misses most speaks, whichever way its target lies.
		"figure F6 0.50 busy target>=0.95 short": {id: "F6", conditions: []condition{
			{value: 1.2, unit: "ratio", target: 1.03, most: true}, {value: 0.5, unit: "busy", target: 0.95}}},
		"figure F4 0.80 ratio target>=0.70 ok peer absent": {id: "F4", conditions: []condition{
			{value: 0.8, unit: "ratio", target: 0.7}, {unit: "ratio", target: 3, peer: true, absent: noPeer}}},
		"figure F10 9000 creates/s target>=8000 short voters=1": {id: "F10", note: "voters=1", conditions: []condition{{value: 9000, unit: "creates/s", target: 8000}}},
		"figure F8 - ms target<=55 unmeasured: not root":        {id: "F8", conditions: []condition{{unit: "ms", target: 55, most: true, absent: "not root"}}},
		"figure F6 1.0341 ratio target<=1.03 short":             {id: "F6", conditions: []condition{{value: 1.0341, unit: "ratio", target: 1.03, most: true}}},
		"figure F1 3 allocs target<=0 short":                    {id: "F1", conditions: []condition{{value: 3, unit: "allocs", most: true}}},
	} {
		if got := f.line(); got != want || !form.MatchString(got) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The data set is the same on every machine.
func TestDataIsDeterministic(t *testing.T) {
	d := newData(0.002, 1)
	h := xxh3.New()
	for _, f := range d.all() {
		h.WriteString(f.path)
		h.Write(f.content())
	}
	sum := h.Sum128().Bytes()
	if got := hex.EncodeToString(sum[:]); got != wantData {
		t.Errorf("the data set is %s now: figures are not comparable with those before", got)
	}
}

const wantData = "80de9b0811d6639f405fe02e3bb31838"

// What it looks like: a mean of 110 KB, and as much to compress and to find again as image folders
// have.
func TestDataIsLikeAnImageFolder(t *testing.T) {
	d := newData(0.02, 1)
	dir := t.TempDir()
	small := refs(d.small)
	if err := write(dir, small); err != nil {
		t.Fatal(err)
	}
	unique, err := newBound().add(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	all := bytesOf(small)
	if mean := all / int64(len(small)); mean < 90_000 || mean > 130_000 {
		t.Errorf("files have %d bytes in the mean", mean)
	}
	if left := float64(unique) / float64(all); left < 0.75 || left > 0.92 {
		t.Errorf("of %d bytes %.2f are unique after compression", all, left)
	}
}

// A second version has new chunks for what was changed and added, and for nothing else.
func TestEditedVersion(t *testing.T) {
	d := newData(0.02, 1)
	dir := t.TempDir()
	part := d.part()
	if err := write(dir, part); err != nil {
		t.Fatal(err)
	}
	b := newBound()
	first, err := b.add(dir, part)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := edit(dir, part, 2)
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.add(dir, v2)
	if err != nil {
		t.Fatal(err)
	}
	if share := float64(second) / float64(first); share < 0.02 || share > 0.25 {
		t.Errorf("the second version has %.2f of the first one's bytes anew", share)
	}
	if len(v2) <= len(part) {
		t.Errorf("%d files became %d", len(part), len(v2))
	}
}

// One wrong byte anywhere is an error of the pass.
func TestWrongBytesAreFound(t *testing.T) {
	dir := t.TempDir()
	fs := refs(newData(0.002, 1).small)
	if err := write(dir, fs); err != nil {
		t.Fatal(err)
	}
	r := mounted{dir: dir, size: 1 << 20}
	if _, err := readAll(t.Context(), r, fs, 4); err != nil {
		t.Fatal(err)
	}
	name := r.at(fs[7])
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, wrong := range map[string][]byte{"a bit": append([]byte{p[0] ^ 1}, p[1:]...), "shorter": p[:len(p)-1], "longer": append(bytes.Clone(p), 0)} {
		if err := os.WriteFile(name, wrong, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(t.Context(), r, fs, 4); err == nil {
			t.Errorf("%s: read as if nothing were wrong", what)
		}
	}
}

// A lane takes its time for every byte, and drops what its queue does not hold.
func TestLane(t *testing.T) {
	l := newLane()
	l.set(int64(20*time.Millisecond), 1_000_000, 10_000)
	now := time.Unix(0, 0)
	for i := range 10 {
		due, ok := l.admit(now, 1000)
		if want := now.Add(time.Duration(i+1)*time.Millisecond + 20*time.Millisecond); !ok || !due.Equal(want) {
			t.Fatalf("packet %d: due %v (%v), want %v", i, due.Sub(now), ok, want.Sub(now))
		}
	}
	if _, ok := l.admit(now, 1000); ok {
		t.Error("a full queue took a packet")
	}
	if _, ok := l.admit(now.Add(time.Millisecond), 1000); !ok {
		t.Error("a queue with room dropped a packet")
	}
}

// A page keeps what is around its marks.
func TestReplace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replace(page, &Report{machine: "a machine", data: "data"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(got); !strings.HasPrefix(s, "before\n"+beginMark+"a machine") || !strings.HasSuffix(s, endMark+"after\n") || strings.Contains(s, "old") {
		t.Errorf("the page is %q", s)
	}
}
