package manifest

import "github.com/spokefs/spokefs/storage"

// Range finds the extents of a part of a file level by level, so that a caller for whom a node is
// a trip fetches all nodes of a level at once:
//
//	for r := NewRange(root, size, off, n); len(r.Need()) > 0; {
//		fetch r.Need() into src, then: err := r.Step(src)
//	}
//	r.Extents()
type Range struct {
	off, end int64
	level    int // of the spans; -1: not known yet
	spans    []span
	need     []storage.Ref
	extents  []Extent
}

// span is a node to load: it covers sum bytes of the file from start on.
type span struct {
	ref        storage.Ref
	start, sum int64
}

// NewRange starts at the root; the arguments are Walk's.
func NewRange(root storage.Ref, size, off, n int64) *Range {
	r := &Range{off: off, end: size, level: -1}
	if off < 0 || n <= 0 || off >= size {
		return r
	}
	if n < size-off {
		r.end = off + n
	}
	if root.IsZero() {
		r.extents = []Extent{{Off: off, Len: r.end - off}}
		return r
	}
	r.spans = []span{{root, 0, size}}
	r.need = []storage.Ref{root}
	return r
}

// Need lists the nodes that the next Step wants, in the order of the file. None: all is known.
// Valid until Step.
func (r *Range) Need() []storage.Ref { return r.need }

// Step goes down one level; src has what Need listed.
func (r *Range) Step(src Source) error {
	spans := r.spans
	r.spans, r.need = nil, r.need[:0]
	level := r.level
	for _, s := range spans {
		n, err := src.get(s.ref, level, s.sum)
		if err != nil {
			return err
		}
		level = n.Level()
		for i := n.find(max(r.off-s.start, 0)); i < n.Len(); i++ {
			from := s.start + n.end(i-1)
			if from >= r.end {
				break
			}
			if it := n.Item(i); level > 0 {
				r.spans = append(r.spans, span{it.Ref, from, it.Len})
				r.need = append(r.need, it.Ref)
			} else {
				r.extents = append(r.extents, clip(it, from, r.off, r.end))
			}
		}
	}
	r.level = level - 1
	return nil
}

// Extents are those of the range, once Need is empty.
func (r *Range) Extents() []Extent { return r.extents }
