package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// Mem is a file system in memory whose power can be cut. It is a Dir itself, its root, and like any Dir
// it is a file system for Pebble as well. Calls may overlap.
//
// It keeps no more than the package's contract says: bytes not synced and names not synced are there
// for who reads them now, and are left to chance by Crash.
type Mem struct{ memDir }

// memFS is what all directories and files of a Mem share.
type memFS struct {
	mu     sync.Mutex // guards the whole tree and the locks
	root   *memNode
	locked map[*memNode]bool
}

// memNode is a file or a directory. What is as a power loss would leave it at worst is beside what is
// seen now.
type memNode struct {
	isDir bool

	data, synced []byte // of a file
	low, high    int    // of data, the range that may differ from synced

	names, kept map[string]*memNode // of a directory
	changes     []memChange         // that make names of kept, in order
}

// memChange is one step of a directory that was not synced. It happens whole or not at all.
type memChange struct {
	name string
	node *memNode // nil: the name goes
	from string   // of a rename: this name goes; else ""
}

// sector is the piece that a power loss keeps or loses whole, in bytes.
const sector = 512

// NewMem is an empty file system.
func NewMem() *Mem { return newMem(newMemDir()) }

func newMem(root *memNode) *Mem {
	f := &memFS{root: root, locked: map[*memNode]bool{}}
	return &Mem{memDir{f, root, "/"}}
}

func newMemDir() *memNode {
	return &memNode{isDir: true, names: map[string]*memNode{}, kept: map[string]*memNode{}}
}

// Crash is the file system as it may be found after a power loss now: all that was synced, and of what
// was not, each sector, each change of a size and each change of a name with a chance of keep percent,
// drawn from r in an order that depends on the content alone. A rename is one change. m stays as it is,
// and locks of it do not hold in the copy.
func (m *Mem) Crash(r *rand.Rand, keep int) *Mem {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	c := crash{r, keep, map[*memNode]*memNode{}}
	return newMem(c.node(m.fs.root))
}

type crash struct {
	r    *rand.Rand
	keep int
	done map[*memNode]*memNode // a node may have several names
}

func (c crash) luck() bool { return c.keep > 0 && c.r.IntN(100) < c.keep }

func (c crash) node(n *memNode) *memNode {
	if d := c.done[n]; d != nil {
		return d
	}
	if !n.isDir {
		p := c.file(n)
		d := &memNode{data: p, synced: slices.Clone(p)}
		c.done[n] = d
		return d
	}
	d := newMemDir()
	c.done[n] = d
	left := maps.Clone(n.kept)
	for _, ch := range n.changes {
		if c.luck() {
			ch.apply(left)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		d.names[name] = c.node(left[name])
	}
	d.kept = maps.Clone(d.names)
	return d
}

func (c crash) file(n *memNode) []byte {
	size := len(n.synced)
	if len(n.data) != size && c.luck() {
		size = len(n.data)
	} else if len(n.data) > size && c.luck() {
		size += c.r.IntN(len(n.data) - size)
	}
	out := make([]byte, size) // what was never written reads as zeros
	copy(out, n.synced)
	for at := n.low / sector * sector; at < min(n.high, size, len(n.data)); at += sector {
		if c.luck() {
			piece := out[at:min(at+sector, size)]
			clear(piece[copy(piece, n.data[at:]):]) // behind the end there are zeros
		}
	}
	return out
}

func (ch memChange) apply(names map[string]*memNode) {
	if ch.from != "" {
		delete(names, ch.from)
	}
	if ch.node == nil {
		delete(names, ch.name)
	} else {
		names[ch.name] = ch.node
	}
}

// change changes a directory; fs.mu is held.
func (n *memNode) change(ch memChange) {
	ch.apply(n.names)
	n.changes = append(n.changes, ch)
}

// touch says that data[from:to] may differ from synced.
func (n *memNode) touch(from, to int) {
	if n.low >= n.high {
		n.low, n.high = from, to
	}
	n.low, n.high = min(n.low, from), max(n.high, to)
}

// sync makes a node durable; fs.mu is held.
func (n *memNode) sync() {
	if n.isDir {
		n.kept, n.changes = maps.Clone(n.names), nil
		return
	}
	old := len(n.synced)
	if len(n.data) <= old {
		n.synced = n.synced[:len(n.data)]
	} else {
		n.synced = append(n.synced, n.data[old:]...)
	}
	if to := min(n.high, len(n.data)); n.low < to {
		copy(n.synced[n.low:to], n.data[n.low:to])
	}
	n.low, n.high = 0, 0
}

// write puts p at off; fs.mu is held.
func (n *memNode) write(p []byte, off int) {
	from := off
	if end := off + len(p); end > len(n.data) {
		from = min(off, len(n.data))
		n.data = append(n.data, make([]byte, end-len(n.data))...)
	}
	copy(n.data[off:], p)
	n.touch(from, off+len(p))
}

// truncate sets the size; fs.mu is held.
func (n *memNode) truncate(size int) {
	if size <= len(n.data) {
		n.data = n.data[:size]
		return
	}
	n.touch(len(n.data), size)
	n.data = append(n.data, make([]byte, size-len(n.data))...)
}

func memErr(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// memDir is a directory of a Mem.
type memDir struct {
	fs   *memFS
	node *memNode
	path string
}

// get is a name's node; fs.mu is held.
func (d memDir) get(op, name string) (*memNode, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if n := d.node.names[name]; n != nil {
		return n, nil
	}
	return nil, memErr(op, path.Join(d.path, name), fs.ErrNotExist)
}

// Open implements Dir.
func (d memDir) Open(name string, m Mode) (File, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.get("open", name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && m >= Create:
		n = &memNode{}
		d.node.change(memChange{name: name, node: n})
	case err != nil:
		return nil, err
	case m == CreateNew:
		return nil, memErr("open", path.Join(d.path, name), fs.ErrExist)
	case n.isDir:
		return nil, fmt.Errorf("%s is not a regular file", path.Join(d.path, name))
	}
	return &memFile{fs: d.fs, node: n, name: name, readOnly: m == ReadOnly}, nil
}

// Rename implements Dir.
func (d memDir) Rename(old, name string) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.get("rename", old)
	if err == nil {
		err = checkName(name)
	}
	if err != nil {
		return err
	}
	return d.fs.rename(d.node, old, n, d.node, name)
}

// rename moves a name; mu is held.
func (f *memFS) rename(from *memNode, old string, n *memNode, to *memNode, name string) error {
	if there := to.names[name]; there != nil {
		switch {
		case there == n:
			return nil
		case there.isDir && (!n.isDir || len(there.names) > 0):
			return memErr("rename", name, unix.ENOTEMPTY)
		case n.isDir && !there.isDir:
			return memErr("rename", name, unix.ENOTDIR)
		}
	}
	if from == to {
		to.change(memChange{name: name, node: n, from: old})
		return nil
	}
	to.change(memChange{name: name, node: n})
	from.change(memChange{name: old})
	return nil
}

// Link implements Dir.
func (d memDir) Link(old, name string) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.get("link", old)
	if err == nil {
		err = checkName(name)
	}
	if err != nil {
		return err
	}
	return link(n, d.node, name)
}

// link gives a file another name; mu is held.
func link(n, dir *memNode, name string) error {
	if n.isDir {
		return memErr("link", name, unix.EPERM)
	}
	if dir.names[name] != nil {
		return memErr("link", name, fs.ErrExist)
	}
	dir.change(memChange{name: name, node: n})
	return nil
}

// Remove implements Dir.
func (d memDir) Remove(name string) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.get("remove", name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 {
		return memErr("remove", path.Join(d.path, name), unix.ENOTEMPTY)
	}
	d.node.change(memChange{name: name})
	return nil
}

// RemoveAll implements Dir.
func (d memDir) RemoveAll(name string) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.get("remove", name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	removeAll(n)
	d.node.change(memChange{name: name})
	return nil
}

// removeAll empties a directory, as far down as it goes: each name is a change of its own.
func removeAll(n *memNode) {
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		removeAll(n.names[name])
		n.change(memChange{name: name})
	}
}

func (n *memNode) info(name string) Info {
	return Info{Name: name, Size: int64(len(n.data)), IsDir: n.isDir, Plain: !n.isDir}
}

// List implements Dir.
func (d memDir) List() ([]Info, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	out := make([]Info, 0, len(d.node.names))
	for _, name := range slices.Sorted(maps.Keys(d.node.names)) {
		out = append(out, d.node.names[name].info(name))
	}
	return out, nil
}

// Stat implements Dir.
func (d memDir) Stat(name string) (Info, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.get("stat", name)
	if err != nil {
		return Info{}, err
	}
	return n.info(name), nil
}

// Sync implements Dir.
func (d memDir) Sync() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.node.sync()
	return nil
}

// Dir implements Dir.
func (d memDir) Dir(name string) (Dir, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	at := path.Join(d.path, name)
	n, err := d.get("mkdir", name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n = newMemDir()
		d.node.change(memChange{name: name, node: n})
		d.node.sync()
	case err != nil:
		return nil, err
	case !n.isDir:
		return nil, fmt.Errorf("%s is not a directory", at)
	}
	return memDir{d.fs, n, at}, nil
}

// Lock implements Dir.
func (d memDir) Lock(name string) (io.Closer, error) {
	f, err := d.Open(name, Create)
	if err != nil {
		return nil, err
	}
	return d.fs.lock(f.(*memFile).node, path.Join(d.path, name))
}

// memLock is a lock that is held.
type memLock struct {
	fs   *memFS
	node *memNode
}

func (f *memFS) lock(n *memNode, name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locked[n] {
		return nil, fmt.Errorf("%w: %s", ErrLocked, name)
	}
	f.locked[n] = true
	return memLock{f, n}, nil
}

// Close ends the lock.
func (l memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.node)
	return nil
}

// memSize is what a Mem says of its room, in bytes; nothing holds it to that.
const memSize = 1 << 40

// Usage implements Dir.
func (d memDir) Usage() (total, free int64, err error) { return memSize, memSize, nil }

// VFS implements Dir.
func (d memDir) VFS() (vfs.FS, string) { return memVFS{d.fs}, d.path }

// Path implements Dir.
func (d memDir) Path() string { return "" }
