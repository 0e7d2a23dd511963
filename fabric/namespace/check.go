package namespace

import (
	"encoding/binary"
	"fmt"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/kv"
)

// Problem is one thing that Check found wrong.
type Problem struct {
	Ino  fabric.Ino // 0 if it is no inode's
	What string
}

// checker collects what Check knows; memory grows with the number of inodes.
type checker struct {
	v     kv.View
	out   []Problem
	names map[fabric.Ino]uint32     // dentries of an inode
	subs  map[fabric.Ino]uint32     // subdirectories of a directory
	up    map[fabric.Ino]fabric.Ino // where a directory's dentry is
}

// Check is fsck: nlink is names, directories have one parent and reach the root, dentry records
// come in pairs, nameless inodes are held, roots are stored and as long as their files, counters
// are true (I7). It reads all records of the namespace.
func Check(v kv.View) []Problem {
	c := &checker{v: v, names: map[fabric.Ino]uint32{}, subs: map[fabric.Ino]uint32{}, up: map[fabric.Ino]fabric.Ino{}}
	c.dentries()
	c.cookies()
	c.inodes()
	c.holds()
	return c.out
}

func (c *checker) report(ino fabric.Ino, format string, args ...any) {
	c.out = append(c.out, Problem{ino, fmt.Sprintf(format, args...)})
}

func (c *checker) dentries() {
	from := []byte{keyDentry}
	for k, p := range c.v.Scan(from, after(from)) {
		dir, name := fabric.Ino(binary.BigEndian.Uint64(k[1:])), string(k[9:])
		if len(p) != 16 {
			c.report(dir, "entry %q does not decode", name)
			continue
		}
		ino, cookie := fabric.Ino(binary.BigEndian.Uint64(p)), fabric.Cookie(binary.BigEndian.Uint64(p[8:]))
		if back, ok := c.v.Get(cookieKey(dir, cookie)); !ok || string(back) != name {
			c.report(dir, "entry %q has cookie %d, which is %q", name, cookie, back)
		}
		a, ok := GetAttr(c.v, ino)
		if !ok {
			c.report(dir, "entry %q is inode %#x, which is not there", name, uint64(ino))
			continue
		}
		c.names[ino]++
		if a.Type == fabric.TypeDir {
			c.subs[dir]++
			c.up[ino] = dir
		}
	}
}

func (c *checker) cookies() {
	from := []byte{keyCookie}
	for k, name := range c.v.Scan(from, after(from)) {
		dir, cookie := fabric.Ino(binary.BigEndian.Uint64(k[1:])), fabric.Cookie(binary.BigEndian.Uint64(k[9:]))
		if _, back, ok := GetDentry(c.v, dir, string(name)); !ok || back != cookie {
			c.report(dir, "cookie %d is %q, whose entry says %d", cookie, name, back)
		}
	}
}

func (c *checker) inodes() {
	var count, bytes int64
	from := []byte{keyInode}
	for k := range c.v.Scan(from, after(from)) {
		ino := fabric.Ino(binary.BigEndian.Uint64(k[1:]))
		n, _ := getNode(c.v, ino)
		count++
		bytes += n.Used
		c.links(n)
		switch n.Type {
		case fabric.TypeDir:
			c.parent(n)
		case fabric.TypeFile:
			c.content(n)
		}
	}
	counted, _ := load(c.v, []byte{keyCounters}, (*reader).counters)
	if counted.inodes != count || counted.bytes != bytes {
		c.report(0, "counted %d inodes and %d bytes, there are %d and %d", counted.inodes, counted.bytes, count, bytes)
	}
}

func (c *checker) links(n *node) {
	want := c.names[n.Ino]
	if n.Type == fabric.TypeDir && (want > 0 || n.Ino == fabric.RootIno) {
		if want > 1 {
			c.report(n.Ino, "directory has %d names", want)
		}
		want = 2 + c.subs[n.Ino]
	}
	if n.Nlink != want {
		c.report(n.Ino, "nlink is %d, names say %d", n.Nlink, want)
	}
	if n.Nlink == 0 {
		from := inoKey(keyHold, n.Ino)
		for range c.v.Scan(from, after(from)) {
			return
		}
		c.report(n.Ino, "has neither name nor hold")
	}
}

// parent walks up to the root; c.up has every directory's dentry by now.
func (c *checker) parent(n *node) {
	if n.Ino == fabric.RootIno {
		return
	}
	if up, ok := c.up[n.Ino]; ok && up != n.Parent {
		c.report(n.Ino, "parent is %#x, its entry is in %#x", uint64(n.Parent), uint64(up))
	}
	ino := n.Ino
	for range fabric.MaxDepth + 1 {
		up, ok := c.up[ino]
		if !ok {
			c.report(n.Ino, "does not reach the root")
			return
		}
		if up == fabric.RootIno {
			return
		}
		ino = up
	}
	c.report(n.Ino, "is in a cycle, or too deep")
}

func (c *checker) content(n *node) {
	if n.Content.Inline != nil {
		if p, ok := c.v.Get(inoKey(keyInline, n.Ino)); !ok || int64(len(p)) != n.Size {
			c.report(n.Ino, "size is %d, its inline content has %d bytes", n.Size, len(p))
		}
		return
	}
	if n.Content.Root.IsZero() {
		return
	}
	if l, ok := Locate(c.v, n.Content.Root); !ok || l.Sum != uint64(n.Size) {
		c.report(n.Ino, "root %v is not stored, or covers %d bytes of %d", n.Content.Root, l.Sum, n.Size)
	}
}

func (c *checker) holds() {
	from := []byte{keyHold}
	for k := range c.v.Scan(from, after(from)) {
		ino, id := fabric.Ino(binary.BigEndian.Uint64(k[1:])), fabric.SessionID(k[9:25])
		a, ok := GetAttr(c.v, ino)
		if !ok || a.Nlink != 0 {
			c.report(ino, "is held, but gone or named")
		}
		if _, live := GetSession(c.v, id); !live {
			c.report(ino, "is held by a session that is gone")
		}
	}
}
