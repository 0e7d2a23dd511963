package manifest

import (
	"github.com/spokefs/spokefs/storage"
)

// Extent is a part of a file: Len bytes at Off are those of the chunk Ref from At on, or a hole if
// Ref is zero.
type Extent struct {
	Off, Len int64
	Ref      storage.Ref
	At       uint32
}

// Source gives the node of a name, its digest checked; the node must not change. Errors come back
// from the call that asked, as they are. The caller's closure carries its context.
type Source func(ref storage.Ref) (Node, error)

// get loads a node and holds it to what its parent (or the caller) says of it; level -1 is any.
func (src Source) get(ref storage.Ref, level int, sum int64) (Node, error) {
	n, err := src(ref)
	if err != nil {
		return Node{}, err
	}
	if n.Len() == 0 {
		return Node{}, bad("node %s is empty", ref)
	}
	if level >= 0 && n.Level() != level {
		return Node{}, bad("node %s is of level %d, not %d", ref, n.Level(), level)
	}
	if n.Sum() != sum {
		return Node{}, bad("node %s covers %d bytes, not %d", ref, n.Sum(), sum)
	}
	return n, nil
}

// Walk yields the extents of n bytes at off of a file of size bytes, in order, cut to that range;
// what is beyond size is left out. It stops without an error when yield returns false. It does
// not allocate if src does not.
func Walk(src Source, root storage.Ref, size, off, n int64, yield func(Extent) bool) error {
	if off < 0 || n <= 0 || off >= size {
		return nil
	}
	end := size
	if n < size-off {
		end = off + n
	}
	if root.IsZero() {
		yield(Extent{Off: off, Len: end - off})
		return nil
	}
	w := walk{src: src, off: off, end: end, yield: yield}
	_, err := w.node(root, -1, 0, size)
	return err
}

type walk struct {
	src      Source
	off, end int64
	yield    func(Extent) bool
}

// node walks the node ref that covers sum bytes of the file from start on.
func (w *walk) node(ref storage.Ref, level int, start, sum int64) (goOn bool, err error) {
	n, err := w.src.get(ref, level, sum)
	if err != nil {
		return false, err
	}
	for i := n.find(max(w.off-start, 0)); i < n.Len(); i++ {
		from := start + n.end(i-1)
		if from >= w.end {
			return true, nil
		}
		it := n.Item(i)
		if n.Level() > 0 {
			goOn, err = w.node(it.Ref, n.Level()-1, from, it.Len)
		} else {
			goOn = w.yield(clip(it, from, w.off, w.end))
		}
		if !goOn || err != nil {
			return false, err
		}
	}
	return true, nil
}

// clip is the part of a leaf's item at from that lies in [off, end).
func clip(it Item, from, off, end int64) Extent {
	lo, hi := max(from, off), min(from+it.Len, end)
	e := Extent{Off: lo, Len: hi - lo, Ref: it.Ref}
	if !it.Ref.IsZero() {
		e.At = it.At + uint32(lo-from)
	}
	return e
}

// Extents gives all extents of a file, which may be many.
func Extents(src Source, root storage.Ref, size int64) ([]Extent, error) {
	var all []Extent
	err := Walk(src, root, size, 0, size, func(e Extent) bool {
		all = append(all, e)
		return true
	})
	return all, err
}
