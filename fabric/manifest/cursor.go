package manifest

import "github.com/spokefs/spokefs/storage"

// cursor goes through the items of one level of a tree.
type cursor struct {
	src   Source
	root  storage.Ref
	size  int64
	level int
	path  []step // from the root to a node of level
}

type step struct {
	node  Node
	start int64 // of the node in the file
	i     int
}

// seek goes to the item that has the byte at off, 0 ≤ off < size.
func (c *cursor) seek(off int64) error {
	// Go up to a node that has it, then down.
	for len(c.path) > 0 {
		s := &c.path[len(c.path)-1]
		if off >= s.start && off < s.start+s.node.Sum() {
			s.i = s.node.find(off - s.start)
			break
		}
		c.path = c.path[:len(c.path)-1]
	}
	if len(c.path) == 0 {
		n, err := c.src.get(c.root, -1, c.size)
		if err != nil {
			return err
		}
		if n.Level() < c.level {
			return bad("root %s is of level %d", c.root, n.Level())
		}
		c.path = append(c.path, step{node: n, i: n.find(off)})
	}
	return c.down(off)
}

// down goes from the last step to level.
func (c *cursor) down(off int64) error {
	for {
		s := c.path[len(c.path)-1]
		if s.node.Level() == c.level {
			return nil
		}
		it := s.node.Item(s.i)
		start := s.start + s.node.end(s.i-1)
		n, err := c.src.get(it.Ref, s.node.Level()-1, it.Len)
		if err != nil {
			return err
		}
		c.path = append(c.path, step{node: n, start: start, i: n.find(off - start)})
	}
}

// item is the one the cursor is at, and where it starts.
func (c *cursor) item() (it Item, start int64) {
	s := c.path[len(c.path)-1]
	return s.node.Item(s.i), s.start + s.node.end(s.i-1)
}

// node is where the node of the item starts.
func (c *cursor) node() (start int64) { return c.path[len(c.path)-1].start }

// first says whether the item is the first of its node.
func (c *cursor) first() bool { return c.path[len(c.path)-1].i == 0 }
