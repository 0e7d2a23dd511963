package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// Tree is a new content: its root and the nodes that may not be stored yet, children first.
type Tree struct {
	Root  storage.Ref // zero: one hole of Size bytes
	Size  int64
	Used  int64 // bytes that are no hole
	Nodes []storage.Blob
}

// Builder makes a tree of items that come in order. One goroutine. The memory it needs is that of
// the nodes, which Take hands out on the way.
type Builder struct {
	h      *chunk.Hasher
	levels []*row
	nodes  []storage.Blob
	size   int64
	used   int64
}

// NewBuilder gives an empty one.
func NewBuilder(h *chunk.Hasher) *Builder { return &Builder{h: h} }

// Add appends n bytes of the file: of the chunk ref from at on, or a hole if ref is zero. Nothing
// is added for n = 0. ErrInvalid: not in the chunk, or the file would have 2⁶³ bytes.
func (b *Builder) Add(ref storage.Ref, at uint32, n int64) error {
	it, err := leaf(ref, at, n)
	if err != nil || n == 0 {
		return err
	}
	if n > math.MaxInt64-b.size {
		return fmt.Errorf("manifest: more than 2^63 bytes: %w", storage.ErrInvalid)
	}
	b.size += n
	b.used += it.Used
	b.row(0).add(it)
	b.rise(0)
	return nil
}

// Take gives the finished nodes not taken yet, children first.
func (b *Builder) Take() []storage.Blob {
	nodes := b.nodes
	b.nodes = nil
	return nodes
}

// Done ends the file. Nodes are those not taken. The Builder is spent.
func (b *Builder) Done() Tree {
	t := Tree{Size: b.size, Used: b.used}
	if b.used == 0 {
		return t // at most one hole, and no node is full
	}
	for level := 0; ; level++ {
		r := b.row(level)
		r.end()
		if r.made == 1 && len(b.levels) == level+1 {
			t.Root = r.out[0].Ref
			break
		}
		b.rise(level)
	}
	t.Nodes = b.Take()
	return t
}

func (b *Builder) row(level int) *row {
	if level == len(b.levels) {
		b.levels = append(b.levels, &row{h: b.h, level: level, nodes: &b.nodes})
	}
	return b.levels[level]
}

// rise hands the finished nodes of a level to the one above, once there are two of them: a single
// one may be the root.
func (b *Builder) rise(level int) {
	r := b.row(level)
	if r.made < 2 {
		return
	}
	up := b.row(level + 1)
	for _, it := range r.out {
		up.add(it)
	}
	r.out = r.out[:0]
	b.rise(level + 1)
}

// leaf makes and checks a leaf's item.
func leaf(ref storage.Ref, at uint32, n int64) (Item, error) {
	if n < 0 || ref.IsZero() && at != 0 ||
		!ref.IsZero() && (ref.Len > storage.MaxRaw || n > int64(ref.Len) || int64(at)+n > int64(ref.Len)) {
		return Item{}, fmt.Errorf("manifest: %d bytes at %d of chunk %s: %w", n, at, ref, storage.ErrInvalid)
	}
	it := Item{Len: n, Ref: ref, At: at}
	if !ref.IsZero() {
		it.Used = n
	}
	return it, nil
}

// row cuts the items of one level into nodes.
type row struct {
	h     *chunk.Hasher
	level int
	nodes *[]storage.Blob // where finished ones go

	held Item // the last item: at level 0 the next may join it
	has  bool

	raw       []byte // the node being made
	n         int
	sum, used int64

	out  []Item // finished nodes, as items of the level above
	made int    // how many there were ever
}

func (r *row) add(it Item) {
	if r.has && r.level == 0 && joins(r.held, it) {
		r.held.Len += it.Len
		r.held.Used += it.Used
		return
	}
	r.settle()
	r.held, r.has = it, true
}

// settle puts the held item into the node, which may end with it. It says whether no node is open.
func (r *row) settle() bool {
	if r.has {
		r.put(r.held)
		r.has = false
	}
	return r.n == 0
}

func (r *row) put(it Item) {
	if r.n == 0 {
		r.raw = append(r.raw[:0], 'M', version, byte(r.level), 0, 0, 0, 0, 0)
	}
	r.raw = appendItem(r.raw, r.level, it, r.sum, r.used)
	r.n++
	r.sum += it.Len
	r.used += it.Used
	if r.n == MaxItems || r.n >= MinItems && ends(it) {
		r.cut()
	}
}

// end finishes the last node of the level.
func (r *row) end() {
	if !r.settle() {
		r.cut()
	}
}

func (r *row) cut() {
	binary.LittleEndian.PutUint16(r.raw[4:], uint16(r.n))
	raw := append([]byte(nil), r.raw...)
	blob := r.h.Seal(storage.Node, raw, nil)
	*r.nodes = append(*r.nodes, blob)
	r.out = append(r.out, Item{Len: r.sum, Used: r.used, Ref: blob.Ref})
	r.made++
	r.n, r.sum, r.used = 0, 0, 0
}

// Build makes the tree of a file of size bytes from extents in order; what none covers is a hole.
// ErrInvalid: overlapping, out of order or range, or not in their chunks.
func Build(h *chunk.Hasher, size int64, extents []Extent) (Tree, error) {
	b := NewBuilder(h)
	for _, e := range extents {
		if e.Off < b.size || e.Len < 0 || e.Len > size-e.Off {
			return Tree{}, fmt.Errorf("manifest: extent at %d after %d: %w", e.Off, b.size, storage.ErrInvalid)
		}
		if err := b.Add(storage.Ref{}, 0, e.Off-b.size); err != nil {
			return Tree{}, err
		}
		if err := b.Add(e.Ref, e.At, e.Len); err != nil {
			return Tree{}, err
		}
	}
	if err := b.Add(storage.Ref{}, 0, size-b.size); err != nil {
		return Tree{}, err
	}
	return b.Done(), nil
}
