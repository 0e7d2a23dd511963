package manifest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

var hasher = chunk.New([32]byte{1})

// store keeps nodes and counts what is asked of it.
type store struct {
	nodes map[storage.Ref]Node
	gets  int
}

func newStore() *store { return &store{nodes: map[storage.Ref]Node{}} }

func (s *store) put(t testing.TB, tree Tree) (fresh int) {
	t.Helper()
	for _, b := range tree.Nodes {
		raw, err := hasher.Verify(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n.Len() {
			if _, ok := s.nodes[n.Item(i).Ref]; n.Level() > 0 && !ok {
				t.Fatal("a node comes before its child")
			}
		}
		if _, ok := s.nodes[b.Ref]; !ok {
			fresh++
		}
		s.nodes[b.Ref] = n
	}
	return fresh
}

func (s *store) source(ref storage.Ref) (Node, error) {
	s.gets++
	n, ok := s.nodes[ref]
	if !ok {
		return Node{}, storage.ErrNotExist
	}
	return n, nil
}

// ref is the name of the test's chunk i.
func ref(i, n int) storage.Ref {
	r := hasher.Chunk(fmt.Appendf(nil, "chunk %d", i))
	r.Len = uint32(n)
	return r
}

// cell is one byte of the model: a byte of a chunk, or of a hole if Ref is zero.
type cell struct {
	ref storage.Ref
	at  uint32
}

// model is a file byte by byte.
type model []cell

func (m model) extents() []Extent {
	var out []Extent
	for off, c := range m {
		if n := len(out); n > 0 {
			if e := &out[n-1]; e.Ref == c.ref && (c.ref.IsZero() || int64(e.At)+e.Len == int64(c.at)) {
				e.Len++
				continue
			}
		}
		out = append(out, Extent{Off: int64(off), Len: 1, Ref: c.ref, At: c.at})
	}
	return out
}

func (m model) used() (n int64) {
	for _, c := range m {
		if !c.ref.IsZero() {
			n++
		}
	}
	return n
}

func (m model) splice(size int, changes []Extent) model {
	next := make(model, size)
	copy(next, m)
	for _, c := range changes {
		for i := range c.Len {
			next[c.Off+i] = cell{}
			if !c.Ref.IsZero() {
				next[c.Off+i] = cell{c.Ref, c.At + uint32(i)}
			}
		}
	}
	return next
}

// changes makes up changes of a file of size bytes; chunks are few, so that pieces join.
func changes(r *rand.Rand, size, n, longest int) []Extent {
	var out []Extent
	for off := 0; off < size && len(out) < n; {
		off += r.IntN(1 + 2*size/n)
		if r.IntN(4) == 0 && len(out) > 0 { // touching the last
			off = int(out[len(out)-1].Off + out[len(out)-1].Len)
		}
		if off >= size {
			break
		}
		c := Extent{Off: int64(off), Len: int64(1 + r.IntN(min(longest, size-off)))}
		if r.IntN(3) > 0 {
			c.Ref = ref(r.IntN(50), longest+8)
			c.At = uint32(r.IntN(8))
		}
		out = append(out, c)
		off += int(c.Len)
	}
	return out
}

// check holds a tree to the model: equal to a fresh build, every walk right.
func check(t *testing.T, s *store, tree Tree, m model, r *rand.Rand) {
	t.Helper()
	want := m.extents()
	built, err := Build(hasher, int64(len(m)), want)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Root != built.Root || tree.Size != built.Size || tree.Used != built.Used || tree.Used != m.used() {
		t.Fatalf("got %v %d/%d, a fresh build gives %v %d/%d", tree.Root, tree.Used, tree.Size, built.Root, built.Used, built.Size)
	}
	got, err := Extents(s.source, tree.Root, tree.Size)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("extents: %v\n%v\n%v", err, got, want)
	}
	if len(m) == 0 {
		return
	}
	off, n := int64(r.IntN(len(m))), int64(1+r.IntN(len(m)))
	var part []Extent
	if err := Walk(s.source, tree.Root, tree.Size, off, n, func(e Extent) bool { part = append(part, e); return true }); err != nil {
		t.Fatal(err)
	}
	rg := NewRange(tree.Root, tree.Size, off, n)
	for len(rg.Need()) > 0 {
		if err := rg.Step(s.source); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(part, rg.Extents()) {
		t.Fatalf("Walk %v, Range %v", part, rg.Extents())
	}
	at := off
	for _, e := range part {
		if e.Off != at {
			t.Fatalf("extent at %d after %d", e.Off, at)
		}
		for i := range e.Len {
			want := cell{}
			if !e.Ref.IsZero() {
				want = cell{e.Ref, e.At + uint32(i)}
			}
			if m[at] != want {
				t.Fatalf("byte %d is %v, want %v", at, want, m[at])
			}
			at++
		}
	}
	if at != min(off+n, int64(len(m))) {
		t.Fatalf("walk ends at %d", at)
	}
}

// TestSpliceAgainstBytes changes files at random and compares them with an array of bytes.
func TestSpliceAgainstBytes(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := newStore()
		var m model
		var tree Tree
		longest := []int{1, 3, 20}[seed%3]
		for range 12 {
			size := len(m)
			switch r.IntN(4) {
			case 0:
				size = r.IntN(12_000)
			case 1:
				size += r.IntN(200)
			}
			n := []int{0, 1, 3, 400}[r.IntN(4)]
			var cs []Extent
			if n > 0 {
				cs = changes(r, size, n, longest)
			}
			next, err := Splice(hasher, s.source, tree.Root, int64(len(m)), int64(size), cs)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			s.put(t, next)
			old, oldModel := tree, m
			tree, m = next, m.splice(size, cs)
			check(t, s, tree, m, r)
			checkDiff(t, s, old, oldModel, tree, m)
		}
	}
}

func checkDiff(t *testing.T, s *store, a Tree, am model, b Tree, bm model) {
	t.Helper()
	differs := make([]bool, max(len(am), len(bm)))
	err := Diff(s.source, a.Root, a.Size, b.Root, b.Size, func(off, n int64) bool {
		for i := range n {
			differs[off+i] = true
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range differs {
		if same := i < len(am) && i < len(bm) && am[i] == bm[i]; same == differs[i] {
			t.Fatalf("byte %d: differs %v", i, differs[i])
		}
	}
}

func FuzzSplice(f *testing.F) {
	f.Add(uint64(1), uint16(5000), uint16(4000), uint8(3), uint8(20))
	f.Add(uint64(2), uint16(100), uint16(9000), uint8(200), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, oldSize, size uint16, n, longest uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := model(nil).splice(int(oldSize), changes(r, int(oldSize), 500, int(longest)+1))
		s := newStore()
		tree, err := Build(hasher, int64(oldSize), m.extents())
		if err != nil {
			t.Fatal(err)
		}
		s.put(t, tree)
		cs := changes(r, int(size), int(n)+1, int(longest)+1)
		if tree, err = Splice(hasher, s.source, tree.Root, int64(oldSize), int64(size), cs); err != nil {
			t.Fatal(err)
		}
		s.put(t, tree)
		check(t, s, tree, m.splice(int(size), cs), r)
	})
}
