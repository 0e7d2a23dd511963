package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/spokefs/spokefs/storage"
)

// Limits of nodes. Values are part of the format.
const (
	MinItems = 32  // in every node but the last of its level
	MaxItems = 256 // in any
	MaxLevel = 12  // of the root

	version   = 1
	headLen   = 8
	leafItem  = 48
	innerItem = 52

	// MaxNode is the length of the longest node in bytes.
	MaxNode = headLen + MaxItems*innerItem
)

// Item is one entry of a node. In a leaf it is Len bytes of the chunk Ref from At on, or a hole if
// Ref is zero. Above it is a child node that covers Len bytes of file, Used of them data.
type Item struct {
	Len  int64
	Used int64 // bytes that are no hole; of a leaf's item 0 or Len
	Ref  storage.Ref
	At   uint32 // leaf: offset in the chunk
}

// Node is a checked view of a node's bytes. The zero Node has no items.
type Node struct{ raw []byte }

// Level is 0 for a leaf.
func (n Node) Level() int { return int(n.raw[2]) }

// Len is the number of items.
func (n Node) Len() int {
	if n.raw == nil {
		return 0
	}
	return int(binary.LittleEndian.Uint16(n.raw[4:]))
}

// Bytes is the node as it is stored.
func (n Node) Bytes() []byte { return n.raw }

// Sum is the bytes of file that the node covers.
func (n Node) Sum() int64 { return n.end(n.Len() - 1) }

// Used is how many of them are data.
func (n Node) Used() int64 {
	if n.Level() > 0 {
		return n.used(n.Len() - 1)
	}
	var used int64
	for i := range n.Len() {
		used += n.Item(i).Used
	}
	return used
}

func (n Node) width() int {
	if n.raw[2] == 0 {
		return leafItem
	}
	return innerItem
}

// end is the offset in the node of the first byte after item i; of -1 it is 0.
func (n Node) end(i int) int64 {
	if i < 0 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(n.raw[headLen+i*n.width():]))
}

// used is the data in items 0 to i of an inner node.
func (n Node) used(i int) int64 {
	if i < 0 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(n.raw[headLen+i*innerItem+44:]))
}

// Item gives item i.
func (n Node) Item(i int) Item {
	p := n.raw[headLen+i*n.width():]
	it := Item{Len: n.end(i) - n.end(i-1)}
	it.Ref, _ = storage.DecodeRef(p[8:])
	switch {
	case n.raw[2] > 0:
		it.Used = n.used(i) - n.used(i-1)
	case !it.Ref.IsZero():
		it.Used = it.Len
		it.At = binary.LittleEndian.Uint32(p[44:])
	}
	return it
}

// find gives the item that has the byte at off of the node, 0 ≤ off < Sum.
func (n Node) find(off int64) int {
	lo, hi := 0, n.Len()-1
	for lo < hi {
		if mid := (lo + hi) / 2; n.end(mid) > off {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// appendItem adds an item whose node had sum and used bytes before it.
func appendItem(raw []byte, level int, it Item, sum, used int64) []byte {
	raw = binary.LittleEndian.AppendUint64(raw, uint64(sum+it.Len))
	raw = it.Ref.Append(raw)
	if level > 0 {
		return binary.LittleEndian.AppendUint64(raw, uint64(used+it.Used))
	}
	return binary.LittleEndian.AppendUint32(raw, it.At)
}

// Decode checks raw, whose digest the caller has checked, and gives a view of it; raw must not
// change after. What is no node is ErrCorrupt.
func Decode(raw []byte) (Node, error) {
	if len(raw) < headLen+leafItem || raw[0] != 'M' || raw[1] != version {
		return Node{}, bad("no node of version %d", version)
	}
	if raw[2] > MaxLevel || raw[3] != 0 || raw[6] != 0 || raw[7] != 0 {
		return Node{}, bad("level or reserved bytes")
	}
	n := Node{raw}
	if n.Len() == 0 || n.Len() > MaxItems || len(raw) != headLen+n.Len()*n.width() {
		return Node{}, bad("%d items in %d bytes", n.Len(), len(raw))
	}
	var last Item
	for i := range n.Len() {
		if n.end(i) <= n.end(i-1) {
			return Node{}, bad("item %d ends before it starts", i)
		}
		it := n.Item(i)
		if err := n.check(i, it); err != nil {
			return Node{}, err
		}
		if i > 0 && n.Level() == 0 && joins(last, it) {
			return Node{}, bad("items %d and %d are one", i-1, i)
		}
		if i+1 < n.Len() && i+1 >= MinItems && ends(it) {
			return Node{}, bad("item %d ends a node", i)
		}
		last = it
	}
	return n, nil
}

// check looks at one item by itself.
func (n Node) check(i int, it Item) error {
	switch {
	case n.Level() > 0:
		if it.Ref.Len < headLen+leafItem || it.Ref.Len > MaxNode {
			return bad("child %d is no node", i)
		}
		if it.Used < 0 || it.Used > it.Len {
			return bad("child %d has %d of %d bytes", i, it.Used, it.Len)
		}
	case it.Ref.IsZero():
		if binary.LittleEndian.Uint32(n.raw[headLen+i*leafItem+44:]) != 0 {
			return bad("hole %d has a place in a chunk", i)
		}
	default:
		if it.Ref.Len > storage.MaxRaw || int64(it.At)+it.Len > int64(it.Ref.Len) {
			return bad("item %d is not in its chunk", i)
		}
	}
	return nil
}

// joins says whether b continues a, so that the two are one item.
func joins(a, b Item) bool {
	if a.Ref.IsZero() || b.Ref.IsZero() {
		return a.Ref == b.Ref
	}
	return a.Ref == b.Ref && int64(a.At)+a.Len == int64(b.At)
}

// oneIn is how many items end a node: one in so many, after MinItems.
const oneIn = 64

// ends says whether a node with enough items ends after it. It looks at what the item is, not at
// where it is.
func ends(it Item) bool {
	z := binary.LittleEndian.Uint64(it.Ref.Sum[:])
	z += uint64(it.Len)*0x9e3779b97f4a7c15 + uint64(it.At)*0xd1b54a32d192ed03
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z < math.MaxUint64/oneIn
}

func bad(format string, args ...any) error {
	return fmt.Errorf("manifest: %s: %w", fmt.Sprintf(format, args...), storage.ErrCorrupt)
}

// Summary is what an index keeps of a node.
type Summary struct {
	Level    int
	Sum      int64         // bytes of file it covers
	Used     int64         // of them data
	Children []storage.Ref // each once, in order of first use
}

// Summarize checks raw as Decode does and says what it covers and names (A48). Kinds and sums of
// the children are the caller's to check: chunks if Level is 0, else nodes of Level−1.
func Summarize(raw []byte) (Summary, error) {
	n, err := Decode(raw)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{Level: n.Level(), Sum: n.Sum(), Used: n.Used()}
	seen := make(map[storage.Ref]bool, n.Len())
	for i := range n.Len() {
		if ref := n.Item(i).Ref; !ref.IsZero() && !seen[ref] {
			seen[ref] = true
			s.Children = append(s.Children, ref)
		}
	}
	return s, nil
}
