package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/spokefs/spokefs/storage"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// long is a file of n chunks of size bytes each.
func long(n int, size int64) []Extent {
	out := make([]Extent, n)
	for i := range out {
		out[i] = Extent{Off: int64(i) * size, Len: size, Ref: ref(i, int(size))}
	}
	return out
}

func build(t testing.TB, s *store, size int64, e []Extent) Tree {
	t.Helper()
	tree, err := Build(hasher, size, e)
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, tree)
	return tree
}

func TestChangeTouchesOnlyItsPath(t *testing.T) {
	s := newStore()
	const n, size = 100_000, 1000
	tree := build(t, s, n*size, long(n, size))
	top := s.nodes[tree.Root]
	if top.Level() != 2 {
		t.Fatalf("level %d", top.Level())
	}
	s.gets = 0
	next, err := Splice(hasher, s.source, tree.Root, tree.Size, tree.Size, []Extent{{Off: 50_000 * size, Len: size, Ref: ref(n, size)}})
	if err != nil {
		t.Fatal(err)
	}
	if fresh := s.put(t, next); fresh > 8 || s.gets > 30 {
		t.Errorf("one change: %d new nodes, %d read", fresh, s.gets)
	}
	// One more item in the middle, all others moved.
	e := long(n, size)
	for i := range e[n/2:] {
		e[n/2+i].Off += size
	}
	e = append(e[:n/2:n/2], append([]Extent{{Off: n / 2 * size, Len: size, Ref: ref(n, size)}}, e[n/2:]...)...)
	shifted, err := Build(hasher, (n+1)*size, e)
	if err != nil {
		t.Fatal(err)
	}
	if fresh := s.put(t, shifted); fresh > 8 {
		t.Errorf("one insertion: %d new nodes", fresh)
	}
}

func TestManyHolesAndHugeFiles(t *testing.T) {
	s := newStore()
	var e []Extent
	for i := range int64(100_000) {
		e = append(e, Extent{Off: i * 10, Len: 1, Ref: ref(int(i%7), 1)})
	}
	tree := build(t, s, 1<<62, e)
	if tree.Used != 100_000 {
		t.Fatal(tree.Used)
	}
	if tree := build(t, s, 1<<62, nil); !tree.Root.IsZero() || len(tree.Nodes) != 0 {
		t.Fatal("a hole has nodes")
	}
	cut, err := Splice(hasher, s.source, tree.Root, 1<<62, 5, nil)
	if err != nil || cut.Used != 1 {
		t.Fatal(cut, err)
	}
}

func TestBuildAndSpliceRefuse(t *testing.T) {
	good := ref(1, 100)
	for name, c := range map[string]struct {
		size int64
		e    []Extent
	}{
		"overlap":        {100, []Extent{{0, 10, good, 0}, {9, 10, good, 0}}},
		"beyond":         {100, []Extent{{95, 10, good, 0}}},
		"negative":       {100, []Extent{{0, -1, good, 0}}},
		"before":         {100, []Extent{{-1, 5, good, 0}}},
		"not in chunk":   {200, []Extent{{0, 101, good, 0}}},
		"past chunk end": {200, []Extent{{0, 51, good, 50}}},
		"hole with at":   {200, []Extent{{0, 51, storage.Ref{}, 50}}},
		"overflow":       {1<<63 - 1, []Extent{{1<<63 - 2, 100, good, 0}}},
	} {
		if _, err := Build(hasher, c.size, c.e); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Build, %s: %v", name, err)
		}
		if _, err := Splice(hasher, nil, storage.Ref{}, 0, c.size, c.e); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Splice, %s: %v", name, err)
		}
	}
}

func nodeBytes(t testing.TB, n int) []byte {
	s := newStore()
	return s.nodes[build(t, s, int64(n)*1000, long(n, 1000)).Root].Bytes()
}

// D63, what one node shows.
func TestDecodeRefusesBadNodes(t *testing.T) {
	inner := nodeBytes(t, 1000)
	leaf := nodeBytes(t, 20)
	if inner[2] != 1 || leaf[2] != 0 {
		t.Fatal("levels")
	}
	mod := func(raw []byte, f func(p []byte)) []byte {
		p := bytes.Clone(raw)
		f(p)
		return p
	}
	put := binary.LittleEndian.PutUint64
	bad := map[string][]byte{
		"empty":            {},
		"head only":        leaf[:headLen],
		"cut":              leaf[:len(leaf)-1],
		"longer":           append(bytes.Clone(leaf), 0),
		"magic":            mod(leaf, func(p []byte) { p[0] = 'N' }),
		"version":          mod(leaf, func(p []byte) { p[1] = 2 }),
		"level":            mod(leaf, func(p []byte) { p[2] = 1 }),
		"level over limit": mod(inner, func(p []byte) { p[2] = MaxLevel + 1 }),
		"reserved":         mod(leaf, func(p []byte) { p[3] = 1 }),
		"count":            mod(leaf, func(p []byte) { p[4]++ }),
		"no items":         mod(leaf, func(p []byte) { p[4] = 0 }),
		"unsorted":         mod(leaf, func(p []byte) { put(p[headLen+leafItem:], 1) }),
		"overflow":         mod(leaf, func(p []byte) { put(p[len(p)-leafItem:], 1<<63) }),
		"not in chunk":     mod(leaf, func(p []byte) { put(p[headLen:], 1001) }),
		"at":               mod(leaf, func(p []byte) { p[headLen+44] = 1 }),
		"hole with at":     mod(leaf, func(p []byte) { clear(p[headLen+8 : headLen+44]); p[headLen+44] = 1 }),
		"two holes": mod(leaf, func(p []byte) {
			clear(p[headLen+8 : headLen+44])
			clear(p[headLen+leafItem+8 : headLen+leafItem+44])
		}),
		"child is a hole": mod(inner, func(p []byte) { clear(p[headLen+8 : headLen+44]) }),
		"child too long":  mod(inner, func(p []byte) { p[headLen+43] = 1 }),
		"used over sum":   mod(inner, func(p []byte) { put(p[headLen+44:], 1<<40) }),
		"used negative":   mod(inner, func(p []byte) { put(p[headLen+innerItem+44:], 0) }),
	}
	var wide []byte
	wide = append(wide, leaf[:headLen]...)
	for i := range int64(MaxItems + 1) {
		wide = appendItem(wide, 0, Item{Len: 1, Ref: ref(1, 2)}, i, 0)
	}
	binary.LittleEndian.PutUint16(wide[4:], MaxItems+1)
	bad["fan-out"] = wide
	for name, raw := range bad {
		if _, err := Decode(raw); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sum, err := Summarize(inner)
	if err != nil || sum.Sum != 1_000_000 || sum.Level != 1 || len(sum.Children) == 0 {
		t.Fatal(sum, err)
	}
}

// D63, what only shows on the way down: a parent that lies about its child.
func TestWalkRefusesLies(t *testing.T) {
	s := newStore()
	tree := build(t, s, 1_000_000, long(1000, 1000))
	root := s.nodes[tree.Root]
	child := root.Item(0).Ref
	for name, lie := range map[string]Node{
		"sum": s.nodes[root.Item(1).Ref], "level": root, "zero": {},
	} {
		src := func(r storage.Ref) (Node, error) {
			if r == child {
				return lie, nil
			}
			return s.source(r)
		}
		if _, err := Extents(src, tree.Root, tree.Size); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Extents(s.source, tree.Root, tree.Size+1); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("size: %v", err)
	}
	delete(s.nodes, child)
	if _, err := Extents(s.source, tree.Root, tree.Size); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("absent child: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(nodeBytes(f, 1000))
	f.Add(nodeBytes(f, 3))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := Decode(raw)
		if err != nil {
			return
		}
		src := func(storage.Ref) (Node, error) { return n, nil }
		_ = Walk(src, ref(1, 1), n.Sum(), 0, n.Sum(), func(Extent) bool { return true })
		if s, err := Summarize(raw); err != nil || s.Used > s.Sum || s.Sum <= 0 {
			t.Fatal(s, err)
		}
		if n.Level() == 0 {
			_, _ = Splice(hasher, src, ref(1, 1), n.Sum(), n.Sum()+5, []Extent{{Off: n.Sum() / 2, Len: 1}})
		}
	})
}

func TestWalkDoesNotAllocate(t *testing.T) {
	s := newStore()
	tree := build(t, s, 10_000_000, long(10_000, 1000))
	src := Source(s.source)
	var n int64
	yield := func(e Extent) bool { n += e.Len; return true }
	if got := testing.AllocsPerRun(100, func() {
		if err := Walk(src, tree.Root, tree.Size, 5_000_500, 100_000, yield); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// TestGolden holds docs/formats/manifest.md: nodes are made as they were.
func TestGolden(t *testing.T) {
	s := newStore()
	e := long(700, 1000)
	e[3].Ref = storage.Ref{}
	e[5].At, e[5].Len = 200, 300
	tree := build(t, s, 800_000, e)
	var out bytes.Buffer
	fmt.Fprintf(&out, "root %x %d size %d used %d\n", tree.Root.Sum, tree.Root.Len, tree.Size, tree.Used)
	for _, b := range tree.Nodes {
		n := s.nodes[b.Ref]
		fmt.Fprintf(&out, "node level %d items %d sum %d used %d\n", n.Level(), n.Len(), n.Sum(), n.Used())
	}
	fmt.Fprintf(&out, "%x\n", s.nodes[tree.Root].Bytes())
	small := build(t, s, 2500, long(2, 1000))
	fmt.Fprintf(&out, "%x\n", s.nodes[small.Root].Bytes())
	const name = "testdata/golden.txt"
	if *rewrite {
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, out.Bytes()) {
		t.Errorf("%s differs; if the format changed on purpose, it needs a new version:\n%s", name, out.Bytes())
	}
}
