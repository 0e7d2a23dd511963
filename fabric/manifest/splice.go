package manifest

import (
	"fmt"

	"github.com/spokefs/spokefs/storage"
	"github.com/spokefs/spokefs/storage/chunk"
)

// Splice gives the tree of a file after changes: extents of the new file, in order and without
// overlap, that lie over what it had. The file had oldSize bytes under root and has size after:
// what is beyond is cut off, what is new and not covered is a hole. It reads and makes only the
// nodes near the changes and above; the result is that of Build of all items. Nodes may have some
// that exist already. ErrInvalid as for Build.
func Splice(h *chunk.Hasher, src Source, root storage.Ref, oldSize, size int64, changes []Extent) (Tree, error) {
	edits, err := toEdits(oldSize, size, changes)
	if err != nil {
		return Tree{}, err
	}
	if root.IsZero() || oldSize == 0 || size == 0 {
		return Build(h, size, changes)
	}
	top, err := src.get(root, -1, oldSize)
	if err != nil {
		return Tree{}, err
	}
	if len(edits) == 0 {
		return Tree{Root: root, Size: size, Used: top.Used()}, nil
	}
	s := splicer{h: h, src: src, root: root, size: oldSize}
	if edits, err = s.align(edits); err != nil {
		return Tree{}, err
	}
	for level := range top.Level() + 1 {
		if edits, err = s.pass(level, edits); err != nil {
			return Tree{}, err
		}
	}
	return s.crown(top.Level(), edits[0].with, size)
}

// edit puts items in the place of the bytes [lo, hi) of the old file.
type edit struct {
	lo, hi int64
	with   []Item
}

// toEdits checks changes and says in terms of the old file what they do.
func toEdits(oldSize, size int64, changes []Extent) ([]edit, error) {
	if size < 0 || oldSize < 0 {
		return nil, fmt.Errorf("manifest: size %d after %d: %w", size, oldSize, storage.ErrInvalid)
	}
	var edits []edit
	at := int64(0) // of the new file, up to where all is known
	put := func(lo, hi int64, it Item) {
		edits = append(edits, edit{min(lo, oldSize), min(hi, oldSize), []Item{it}})
	}
	fill := func(to int64) { // a hole where the old file has nothing
		if from := max(at, oldSize); from < to {
			put(from, to, Item{Len: to - from})
		}
	}
	for _, c := range changes {
		if c.Off < at || c.Len < 0 || c.Len > size-c.Off {
			return nil, fmt.Errorf("manifest: change at %d after %d: %w", c.Off, at, storage.ErrInvalid)
		}
		it, err := leaf(c.Ref, c.At, c.Len)
		if err != nil {
			return nil, err
		}
		if c.Len == 0 {
			continue
		}
		fill(c.Off)
		put(c.Off, c.Off+c.Len, it)
		at = c.Off + c.Len
	}
	fill(size)
	if size < oldSize {
		edits = append(edits, edit{lo: size, hi: oldSize})
	}
	return edits, nil
}

type splicer struct {
	h     *chunk.Hasher
	src   Source
	root  storage.Ref
	size  int64 // of the old file
	nodes []storage.Blob
}

func (s *splicer) cursor(level int) *cursor {
	return &cursor{src: s.src, root: s.root, size: s.size, level: level}
}

// align widens edits to whole items of the old leaves: what they cut off is put back beside what
// they bring. The result is in order; edits may touch, not overlap.
func (s *splicer) align(edits []edit) ([]edit, error) {
	var out []edit
	cur := s.cursor(0)
	for i := 0; i < len(edits); {
		e := edit{lo: edits[i].lo}
		if e.lo < s.size {
			if err := cur.seek(e.lo); err != nil {
				return nil, err
			}
			if it, start := cur.item(); start < e.lo {
				e.with = append(e.with, part(it, 0, e.lo-start))
				e.lo = start
			}
		}
		for {
			e.with = append(e.with, edits[i].with...)
			e.hi = edits[i].hi
			if i++; e.hi >= s.size {
				break
			}
			if err := cur.seek(e.hi); err != nil {
				return nil, err
			}
			it, start := cur.item()
			if start == e.hi {
				break
			}
			if i < len(edits) && edits[i].lo < start+it.Len { // within the same item
				if edits[i].lo > e.hi {
					e.with = append(e.with, part(it, e.hi-start, edits[i].lo-start))
				}
				continue
			}
			e.with = append(e.with, part(it, e.hi-start, it.Len))
			e.hi = start + it.Len
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// part is the bytes [from, to) of a leaf's item.
func part(it Item, from, to int64) Item {
	it.Len = to - from
	if !it.Ref.IsZero() {
		it.At += uint32(from)
		it.Used = it.Len
	}
	return it
}

// pass carries out edits of one level's items and gives the edits of the level above: which of its
// items, the nodes of this level, go, and what comes. It makes nodes anew from where an edit
// starts until a node ends where an old one did.
func (s *splicer) pass(level int, edits []edit) ([]edit, error) {
	var out []edit
	cur := s.cursor(level)
	for i := 0; i < len(edits); {
		from := edits[i].lo
		if from == s.size || level == 0 && from > 0 {
			from-- // the item before may join the first new one, so its node is made anew too
		}
		if err := cur.seek(from); err != nil {
			return nil, err
		}
		e := edit{lo: cur.node()}
		r := row{h: s.h, level: level, nodes: &s.nodes}
		for e.hi = e.lo; ; {
			if i < len(edits) && edits[i].lo == e.hi {
				for _, it := range edits[i].with {
					r.add(it)
				}
				e.hi = edits[i].hi
				i++
				continue
			}
			if e.hi == s.size {
				r.end()
				break
			}
			if err := cur.seek(e.hi); err != nil {
				return nil, err
			}
			it, _ := cur.item()
			if cur.first() && e.hi > e.lo && !(level == 0 && r.has && joins(r.held, it)) && r.settle() {
				break
			}
			r.add(it)
			e.hi += it.Len
		}
		e.with = r.out
		out = append(out, e)
	}
	return out, nil
}

// crown makes the levels above a root that became several nodes, or finds the root beneath one
// that has a single child left.
func (s *splicer) crown(level int, items []Item, size int64) (Tree, error) {
	for len(items) > 1 {
		level++
		r := row{h: s.h, level: level, nodes: &s.nodes}
		for _, it := range items {
			r.add(it)
		}
		r.end()
		items = r.out
	}
	t := Tree{Size: size}
	if len(items) == 0 || items[0].Used == 0 {
		return t, nil // a hole, or nothing
	}
	t.Root, t.Used = items[0].Ref, items[0].Used
	if items[0].Len != size {
		return Tree{}, bad("spliced to %d bytes, not %d", items[0].Len, size)
	}
	made, err := s.made()
	if err != nil {
		return Tree{}, err
	}
	for {
		n, isNew := made[t.Root]
		if !isNew {
			if n, err = s.src.get(t.Root, -1, size); err != nil {
				return Tree{}, err
			}
		}
		if n.Level() == 0 || n.Len() > 1 {
			break
		}
		delete(made, t.Root)
		t.Root = n.Item(0).Ref
	}
	for _, b := range s.nodes {
		if _, ok := made[b.Ref]; ok {
			delete(made, b.Ref)
			t.Nodes = append(t.Nodes, b)
		}
	}
	return t, nil
}

// made decodes the new nodes, by name.
func (s *splicer) made() (map[storage.Ref]Node, error) {
	made := make(map[storage.Ref]Node, len(s.nodes))
	for _, b := range s.nodes {
		raw, err := s.h.Verify(b, nil)
		if err != nil {
			return nil, err
		}
		n, err := Decode(raw)
		if err != nil {
			return nil, err
		}
		made[b.Ref] = n
	}
	return made, nil
}
