package memfs

import (
	"context"
	"maps"
	"slices"

	"github.com/spokefs/spokefs/fabric"
)

// blockSize is how finely holes are kept, in bytes.
const blockSize = 4096

// content is the bytes of a file by block; a block that is not there is a hole. Bytes of a block
// beyond the end of the file are zero.
type content map[int64]*[blockSize]byte

// each calls f with the parts of [off, off+n) that lie in one block each.
func each(off, n int64, f func(block int64, from, to int)) {
	for end := off + n; off < end; {
		b := off / blockSize
		to := min(end, (b+1)*blockSize)
		f(b, int(off-b*blockSize), int(to-b*blockSize))
		off = to
	}
}

func (c content) read(p []byte, off int64) {
	each(off, int64(len(p)), func(b int64, from, to int) {
		if block := c[b]; block != nil {
			copy(p, block[from:to])
		} else {
			clear(p[:to-from])
		}
		p = p[to-from:]
	})
}

func (c content) write(p []byte, off int64) {
	each(off, int64(len(p)), func(b int64, from, to int) {
		if c[b] == nil {
			c[b] = new([blockSize]byte)
		}
		p = p[copy(c[b][from:to], p):]
	})
}

// punch makes [off, end) zeros, and its whole blocks holes; end may be far beyond the last block.
func (c content) punch(off, end int64) {
	for b, block := range c {
		from, to := max(off-b*blockSize, 0), min(end-b*blockSize, blockSize)
		switch {
		case from >= to:
		case to-from == blockSize:
			delete(c, b)
		default:
			clear(block[from:to])
		}
	}
}

// used is the bytes of data of a file of this size.
func (c content) used(size int64) (n int64) {
	for b := range c {
		n += min(blockSize, size-b*blockSize)
	}
	return n
}

// data gives the first range with data at or after off.
func (c content) data(off, size int64) (start, end int64) {
	blocks := slices.Sorted(maps.Keys(c))
	i, _ := slices.BinarySearch(blocks, off/blockSize)
	if off >= size || i == len(blocks) {
		return size, size
	}
	start = max(off, blocks[i]*blockSize)
	for end = blocks[i]; i < len(blocks) && blocks[i] == end; i++ {
		end++
	}
	return start, min(end*blockSize, size)
}

func (c content) clone() content {
	out := content{}
	for b, block := range c {
		copied := *block
		out[b] = &copied
	}
	return out
}

// resized follows a change of content: what hangs on it is made right. mu is held.
func (v *view) resized(n *node, size int64) {
	n.Size, n.Used = size, n.content.used(size)
	delete(n.xattrs, fabric.ContentXattr)
	if v.who.UID != 0 {
		killPriv(n)
	}
	v.s.touch(n)
	n.Mtime = n.Ctime
}

// cut sets a file's size. mu is held.
func (v *view) cut(n *node, size int64) {
	n.content.punch(size, (size+blockSize-1)/blockSize*blockSize)
	maps.DeleteFunc(n.content, func(b int64, _ *[blockSize]byte) bool { return b*blockSize >= size })
	v.resized(n, size)
}

// Open implements fabric.FS.
func (v *view) Open(_ context.Context, ino fabric.Ino, m fabric.OpenMode) (fabric.File, error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if m&fabric.OpenWrite != 0 {
		if err := v.writes(); err != nil {
			return nil, err
		}
		if m&fabric.OpenFixed != 0 {
			return nil, fabric.Invalid
		}
	}
	n, err := v.get(ino)
	if err == nil {
		err = v.mayOpen(n, m)
	}
	if err != nil {
		return nil, err
	}
	f := &file{v: v, n: n, mode: m}
	if m&fabric.OpenFixed != 0 {
		f.fixed = &node{Attr: n.Attr, content: n.content.clone()}
	}
	n.opens++
	return f, nil
}

func (v *view) mayOpen(n *node, m fabric.OpenMode) error {
	switch {
	case n.Type == fabric.TypeDir:
		return fabric.IsDir
	case n.Type != fabric.TypeFile:
		return fabric.Invalid
	case m&fabric.OpenOwner != 0 && v.who.Owns(&n.Attr):
		return nil
	}
	var want fabric.Perm
	if m&fabric.OpenRead != 0 {
		want |= fabric.PermRead
	}
	if m&fabric.OpenWrite != 0 {
		want |= fabric.PermWrite
	}
	return v.may(n, want)
}

// Clone implements fabric.FS.
func (v *view) Clone(ctx context.Context, dst fabric.Ino, parts []fabric.Part) (fabric.Change, error) {
	ch, err := v.clone(dst, parts)
	if err == nil {
		v.s.tell(ctx, v.who.From, fabric.Key{Kind: fabric.KeyPages, Ino: dst})
	}
	return ch, err
}

func (v *view) clone(dst fabric.Ino, parts []fabric.Part) (ch fabric.Change, err error) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if err := v.writes(); err != nil {
		return ch, err
	}
	joined, size := content{}, int64(0)
	for _, p := range parts {
		n, err := v.part(dst, p)
		if err != nil {
			return ch, err
		}
		for b, block := range n.content {
			from := b * blockSize
			joined.write(block[:min(blockSize, n.Size-from)], size+from)
		}
		size += n.Size
	}
	n, err := v.get(dst)
	if err != nil {
		return ch, err
	}
	if n.Type != fabric.TypeFile {
		return ch, fabric.Invalid
	}
	ch.Before, ch.After = n.Version(), n.Attr
	if v.may(n, fabric.PermWrite) != nil && !v.who.Owns(&n.Attr) {
		return ch, fabric.Denied
	}
	n.content = joined
	v.resized(n, size)
	ch.After = n.Attr
	return ch, nil
}

// part gives a file that Clone may take.
func (v *view) part(dst fabric.Ino, p fabric.Part) (*node, error) {
	if p.Off != 0 || p.Ino == dst {
		return nil, fabric.Unsupported
	}
	n, err := v.get(p.Ino)
	switch {
	case err != nil:
		return nil, err
	case n.Type != fabric.TypeFile:
		return nil, fabric.Invalid
	case v.may(n, fabric.PermRead) != nil:
		return nil, fabric.Denied
	case p.Len != -1 && p.Len != n.Size:
		return nil, fabric.Unsupported
	case p.Cond.Iver != 0 && p.Cond.Iver != n.Iver:
		return nil, fabric.Precondition
	}
	return n, nil
}

// file implements fabric.File.
type file struct {
	v      *view
	n      *node
	mode   fabric.OpenMode
	fixed  *node // of OpenFixed
	closed bool  // Store.mu guards it
}

// Ino implements fabric.File.
func (f *file) Ino() fabric.Ino { return f.n.Ino }

// shown is the inode that readers of this File see.
func (f *file) shown() *node {
	if f.fixed != nil {
		return f.fixed
	}
	return f.n
}

// Stat implements fabric.File.
func (f *file) Stat(context.Context) (fabric.Attr, error) {
	f.v.s.mu.Lock()
	defer f.v.s.mu.Unlock()
	return f.shown().Attr, nil
}

// ReadAt implements fabric.File.
func (f *file) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	f.v.s.mu.Lock()
	defer f.v.s.mu.Unlock()
	switch {
	case f.mode&fabric.OpenRead == 0:
		return 0, fabric.Denied
	case off < 0 || f.closed:
		return 0, fabric.Invalid
	}
	n := f.shown()
	if off >= n.Size {
		return 0, nil
	}
	p = p[:min(int64(len(p)), n.Size-off)]
	n.content.read(p, off)
	return len(p), nil
}

// change makes a change of content and tells the observers. off < 0: at the end.
func (f *file) change(ctx context.Context, off, n int64, do func(c content, off int64)) (int64, fabric.Change, error) {
	at, ch, err := f.locked(off, n, do)
	if err == nil {
		f.v.s.tell(ctx, f.v.who.From, fabric.Key{Kind: fabric.KeyPages, Ino: f.n.Ino, Off: at, Len: n})
	}
	return at, ch, err
}

func (f *file) locked(off, n int64, do func(c content, off int64)) (int64, fabric.Change, error) {
	f.v.s.mu.Lock()
	defer f.v.s.mu.Unlock()
	if f.mode&fabric.OpenWrite == 0 {
		return 0, fabric.Change{}, fabric.Denied
	}
	if f.closed {
		return 0, fabric.Change{}, fabric.Invalid
	}
	if off < 0 {
		off = f.n.Size
	}
	if off > fabric.MaxFileSize-n {
		return 0, fabric.Change{}, fabric.TooBig
	}
	ch := fabric.Change{Before: f.n.Version()}
	do(f.n.content, off)
	ch.After = f.n.Attr
	return off, ch, nil
}

// WriteAt implements fabric.File.
func (f *file) WriteAt(ctx context.Context, p []byte, off int64) (int, fabric.Change, error) {
	if off < 0 {
		return 0, fabric.Change{}, fabric.Invalid
	}
	if len(p) == 0 {
		return 0, fabric.Change{}, nil
	}
	_, ch, err := f.write(ctx, p, off)
	if err != nil {
		return 0, ch, err
	}
	return len(p), ch, nil
}

func (f *file) write(ctx context.Context, p []byte, off int64) (int64, fabric.Change, error) {
	n := int64(len(p))
	return f.change(ctx, off, n, func(c content, off int64) {
		c.write(p, off)
		f.v.resized(f.n, max(f.n.Size, off+n))
	})
}

// Append implements fabric.File.
func (f *file) Append(ctx context.Context, p []byte) (int64, fabric.Change, error) {
	return f.write(ctx, p, -1)
}

// Punch implements fabric.File.
func (f *file) Punch(ctx context.Context, off, n int64) (fabric.Change, error) {
	if off < 0 || n <= 0 || off > fabric.MaxFileSize-n {
		return fabric.Change{}, fabric.Invalid
	}
	_, ch, err := f.change(ctx, off, n, func(c content, off int64) {
		c.punch(off, off+n)
		f.v.resized(f.n, f.n.Size)
	})
	return ch, err
}

// NextData implements fabric.File.
func (f *file) NextData(_ context.Context, off int64) (start, end int64, err error) {
	f.v.s.mu.Lock()
	defer f.v.s.mu.Unlock()
	if off < 0 || f.closed {
		return 0, 0, fabric.Invalid
	}
	n := f.shown()
	start, end = n.content.data(off, n.Size)
	return start, end, nil
}

// Sync implements fabric.File.
func (f *file) Sync(context.Context) error { return nil }

// Close implements fabric.File.
func (f *file) Close(context.Context) error {
	f.v.s.mu.Lock()
	defer f.v.s.mu.Unlock()
	if f.closed {
		return fabric.Invalid
	}
	f.closed = true
	f.n.opens--
	f.v.s.drop(f.n)
	return nil
}
