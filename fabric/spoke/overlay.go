package spoke

import (
	"sort"

	"github.com/spokefs/spokefs/cache/journal"
)

// piece is a range of a file that was written here and is not published: n bytes of a journal
// record from at on, or a hole. seq is the record's; of two writes the later one shows.
type piece struct {
	off, n int64
	place  journal.Place
	at     int64
	hole   bool
	seq    uint64
}

func (p *piece) end() int64 { return p.off + p.n }

// cut gives the part of p that lies in [lo, hi).
func (p piece) cut(lo, hi int64) piece {
	if d := lo - p.off; d > 0 {
		p.off, p.n, p.at = p.off+d, p.n-d, p.at+d
	}
	if d := p.end() - hi; d > 0 {
		p.n -= d
	}
	return p
}

// overlay is the dirty part of a file: pieces in order, without overlap.
type overlay []piece

// put lays a piece over the others.
func (o *overlay) put(p piece) {
	if p.n <= 0 {
		return
	}
	old := *o
	i := sort.Search(len(old), func(i int) bool { return old[i].end() > p.off })
	j := i
	var head, tail piece
	for ; j < len(old) && old[j].off < p.end(); j++ {
		if old[j].off < p.off {
			head = old[j].cut(old[j].off, p.off)
		}
		if old[j].end() > p.end() {
			tail = old[j].cut(p.end(), old[j].end())
		}
	}
	var with [3]piece
	mid := with[:0]
	if head.n > 0 {
		mid = append(mid, head)
	}
	mid = append(mid, p)
	if tail.n > 0 {
		mid = append(mid, tail)
	}
	grow := len(mid) - (j - i)
	switch {
	case grow > 0:
		old = append(old, mid[:grow]...)
		copy(old[j+grow:], old[j:len(old)-grow])
	case grow < 0:
		copy(old[i+len(mid):], old[j:])
		old = old[:len(old)+grow]
	}
	copy(old[i:], mid)
	*o = old
}

// after drops the pieces up to a seq: they are in the published content.
func (o *overlay) after(seq uint64) {
	kept := (*o)[:0]
	for _, p := range *o {
		if p.seq > seq {
			kept = append(kept, p)
		}
	}
	*o = kept
}

// span is a part of a range: of a piece, or (piece nil) of what is under the overlay.
type span struct {
	off, n int64
	piece  *piece
}

// spans divides [off, end) by what shows there.
func (o overlay) spans(off, end int64, yield func(span) bool) {
	i := sort.Search(len(o), func(i int) bool { return o[i].end() > off })
	for off < end {
		if i == len(o) || o[i].off >= end {
			yield(span{off, end - off, nil})
			return
		}
		if o[i].off > off {
			if !yield(span{off, o[i].off - off, nil}) {
				return
			}
			off = o[i].off
		}
		n := min(o[i].end(), end) - off
		if !yield(span{off, n, &o[i]}) {
			return
		}
		off += n
		i++
	}
}
