package manifest

import "github.com/spokefs/spokefs/storage"

// Diff yields the ranges in which two files map to different places, in order, passing over what
// is shared without loading it. Where one file is longer, what it has more is a difference. Equal
// content that is cut differently differs (A48). Adjacent ranges are not joined.
func Diff(src Source, a storage.Ref, aSize int64, b storage.Ref, bSize int64, yield func(off, n int64) bool) error {
	var x, y front
	x.start(a, aSize)
	y.start(b, bSize)
	for {
		p, okP := x.head()
		q, okQ := y.head()
		switch {
		case !okP && !okQ:
			return nil
		case !okP || !okQ:
			rest := p
			if okQ {
				rest = q
			}
			yield(rest.off, max(aSize, bSize)-rest.off)
			return nil
		case p.off == q.off && p.Item == q.Item && (p.node == q.node):
			x.skip(p.Len)
			y.skip(q.Len)
		case p.node && (!q.node || p.Len >= q.Len):
			if err := x.open(src); err != nil {
				return err
			}
		case q.node:
			if err := y.open(src); err != nil {
				return err
			}
		default:
			n := min(p.Len, q.Len)
			if !(p.Ref == q.Ref && p.At == q.At) && !yield(p.off, n) {
				return nil
			}
			x.skip(n)
			y.skip(n)
		}
	}
}

// front is what is left of a file: items still to compare, the next last. Nodes are not opened
// before they must be.
type front struct{ stack []piece }

type piece struct {
	Item
	off  int64
	node bool
	// level of the node; -1 not known
	level int
}

func (f *front) start(root storage.Ref, size int64) {
	if size > 0 {
		f.stack = append(f.stack, piece{Item: Item{Len: size, Ref: root}, node: !root.IsZero(), level: -1})
	}
}

func (f *front) head() (piece, bool) {
	if len(f.stack) == 0 {
		return piece{}, false
	}
	return f.stack[len(f.stack)-1], true
}

// skip drops n bytes of the first piece.
func (f *front) skip(n int64) {
	p := &f.stack[len(f.stack)-1]
	if n == p.Len {
		f.stack = f.stack[:len(f.stack)-1]
		return
	}
	p.off += n
	p.Item = part(p.Item, n, p.Len)
}

// open puts a node's items in its place.
func (f *front) open(src Source) error {
	p := f.stack[len(f.stack)-1]
	n, err := src.get(p.Ref, p.level, p.Len)
	if err != nil {
		return err
	}
	f.stack = f.stack[:len(f.stack)-1]
	for i := n.Len() - 1; i >= 0; i-- {
		f.stack = append(f.stack, piece{Item: n.Item(i), off: p.off + n.end(i-1), node: n.Level() > 0, level: n.Level() - 1})
	}
	return nil
}
