package disk

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// memFile is an open file or directory of a Mem.
type memFile struct {
	fs       *memFS
	node     *memNode
	name     string
	readOnly bool
	closed   bool // fs.mu guards it
	at       int  // of Read and Write, which only Pebble uses, one at a time
}

// open takes the lock, or tells why the file cannot be used.
func (f *memFile) open(op string, write bool) (unlock func(), err error) {
	f.fs.mu.Lock()
	switch {
	case f.closed:
		err = memErr(op, f.name, fs.ErrClosed)
	case write && f.readOnly:
		err = memErr(op, f.name, unix.EBADF)
	default:
		return f.fs.mu.Unlock, nil
	}
	f.fs.mu.Unlock()
	return nil, err
}

// ReadAt implements File.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	unlock, err := f.open("read", false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if off < 0 {
		return 0, memErr("read", f.name, fs.ErrInvalid)
	}
	n := copy(p, f.node.data[min(off, int64(len(f.node.data))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	unlock, err := f.open("write", true)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if off < 0 {
		return 0, memErr("write", f.name, fs.ErrInvalid)
	}
	if len(p) > 0 {
		f.node.write(p, int(off))
	}
	return len(p), nil
}

// Sync implements File.
func (f *memFile) Sync() error {
	unlock, err := f.open("sync", false)
	if err != nil {
		return err
	}
	defer unlock()
	f.node.sync()
	return nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	unlock, err := f.open("truncate", true)
	if err != nil {
		return err
	}
	defer unlock()
	if size < 0 {
		return memErr("truncate", f.name, fs.ErrInvalid)
	}
	f.node.truncate(int(size))
	return nil
}

// Size implements File.
func (f *memFile) Size() (int64, error) {
	unlock, err := f.open("stat", false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return int64(len(f.node.data)), nil
}

// Punch implements File.
func (f *memFile) Punch(off, n int64) error {
	unlock, err := f.open("punch", true)
	if err != nil {
		return err
	}
	defer unlock()
	size := int64(len(f.node.data))
	if off < 0 || n <= 0 {
		return memErr("punch", f.name, fs.ErrInvalid)
	}
	if end := min(off+n, size); off < end {
		clear(f.node.data[off:end])
		f.node.touch(int(off), int(end))
	}
	return nil
}

// Fd implements File.
func (f *memFile) Fd() (uintptr, bool) { return 0, false }

// Close implements File.
func (f *memFile) Close() error {
	unlock, err := f.open("close", false)
	if err != nil {
		return err
	}
	defer unlock()
	f.closed = true
	return nil
}

// memVFS is a Mem as Pebble wants it. Paths are absolute.
type memVFS struct{ fs *memFS }

// walk gives the directory of a path, its last name, and the node there, or nil; mu is held.
func (v memVFS) walk(op, name string) (dir *memNode, base string, n *memNode, err error) {
	n = v.fs.root
	for part := range strings.SplitSeq(strings.Trim(path.Clean(name), "/"), "/") {
		if part == "" || part == "." {
			continue
		}
		if n == nil || !n.isDir {
			return nil, "", nil, memErr(op, name, fs.ErrNotExist)
		}
		dir, base = n, part
		n = dir.names[part]
	}
	return dir, base, n, nil
}

// there is walk for what must be there.
func (v memVFS) there(op, name string) (dir *memNode, base string, n *memNode, err error) {
	dir, base, n, err = v.walk(op, name)
	if err == nil && n == nil {
		err = memErr(op, name, fs.ErrNotExist)
	}
	return dir, base, n, err
}

func (v memVFS) file(n *memNode, name string, readOnly bool, opts []vfs.OpenOption) vfs.File {
	f := pebbleFile{&memFile{fs: v.fs, node: n, name: name, readOnly: readOnly}}
	for _, o := range opts {
		o.Apply(f)
	}
	return f
}

// Create implements vfs.FS.
func (v memVFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	dir, base, n, err := v.walk("create", name)
	if err != nil {
		return nil, err
	}
	if dir == nil || n != nil && n.isDir {
		return nil, memErr("create", name, unix.EISDIR)
	}
	n = &memNode{}
	dir.change(memChange{name: base, node: n})
	return v.file(n, name, false, nil), nil
}

// Link implements vfs.FS.
func (v memVFS) Link(old, name string) error {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	_, _, n, err := v.there("link", old)
	if err != nil {
		return err
	}
	dir, base, _, err := v.walk("link", name)
	if err != nil {
		return err
	}
	return link(n, dir, base)
}

// Open implements vfs.FS.
func (v memVFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	_, _, n, err := v.there("open", name)
	if err != nil {
		return nil, err
	}
	return v.file(n, name, true, opts), nil
}

// OpenReadWrite implements vfs.FS.
func (v memVFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	dir, base, n, err := v.walk("open", name)
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = &memNode{}
		dir.change(memChange{name: base, node: n})
	}
	return v.file(n, name, false, opts), nil
}

// OpenDir implements vfs.FS.
func (v memVFS) OpenDir(name string) (vfs.File, error) { return v.Open(name) }

// Remove implements vfs.FS.
func (v memVFS) Remove(name string) error {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	dir, base, n, err := v.there("remove", name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 || dir == nil {
		return memErr("remove", name, unix.ENOTEMPTY)
	}
	dir.change(memChange{name: base})
	return nil
}

// RemoveAll implements vfs.FS.
func (v memVFS) RemoveAll(name string) error {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	dir, base, n, err := v.walk("remove", name)
	if err != nil || n == nil || dir == nil {
		return nil // what is not there needs no removing
	}
	removeAll(n)
	dir.change(memChange{name: base})
	return nil
}

// Rename implements vfs.FS.
func (v memVFS) Rename(old, name string) error {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	from, was, n, err := v.there("rename", old)
	if err != nil {
		return err
	}
	to, base, _, err := v.walk("rename", name)
	if err != nil {
		return err
	}
	return v.fs.rename(from, was, n, to, base)
}

// ReuseForWrite implements vfs.FS.
func (v memVFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := v.Rename(old, name); err != nil {
		return nil, err
	}
	return v.OpenReadWrite(name, c)
}

// MkdirAll implements vfs.FS.
func (v memVFS) MkdirAll(name string, _ fs.FileMode) error {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	n := v.fs.root
	for part := range strings.SplitSeq(strings.Trim(path.Clean(name), "/"), "/") {
		next := n.names[part]
		if part == "" || part == "." {
			continue
		}
		if next == nil {
			next = newMemDir()
			n.change(memChange{name: part, node: next})
		}
		if n = next; !n.isDir {
			return memErr("mkdir", name, unix.ENOTDIR)
		}
	}
	return nil
}

// Lock implements vfs.FS.
func (v memVFS) Lock(name string) (io.Closer, error) {
	f, err := v.OpenReadWrite(name, "")
	if err != nil {
		return nil, err
	}
	return v.fs.lock(f.(pebbleFile).node, name)
}

// List implements vfs.FS.
func (v memVFS) List(name string) ([]string, error) {
	v.fs.mu.Lock()
	_, _, n, err := v.there("list", name)
	v.fs.mu.Unlock()
	if err != nil {
		return nil, err
	}
	all, err := memDir{v.fs, n, name}.List()
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
	}
	return names, err
}

// Stat implements vfs.FS.
func (v memVFS) Stat(name string) (vfs.FileInfo, error) {
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	_, base, n, err := v.there("stat", name)
	if err != nil {
		return nil, err
	}
	return memInfo{n.info(base)}, nil
}

// PathBase implements vfs.FS.
func (memVFS) PathBase(p string) string { return path.Base(p) }

// PathJoin implements vfs.FS.
func (memVFS) PathJoin(p ...string) string { return path.Join(p...) }

// PathDir implements vfs.FS.
func (memVFS) PathDir(p string) string { return path.Dir(p) }

// GetDiskUsage implements vfs.FS.
func (memVFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: memSize, TotalBytes: memSize}, nil
}

// Unwrap implements vfs.FS.
func (memVFS) Unwrap() vfs.FS { return nil }

// pebbleFile is a file as Pebble wants it.
type pebbleFile struct{ *memFile }

// Read implements vfs.File.
func (f pebbleFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, int64(f.at))
	f.at += n
	if n > 0 {
		err = nil
	}
	return n, err
}

// Write implements vfs.File.
func (f pebbleFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, int64(f.at))
	f.at += n
	return n, err
}

// Preallocate implements vfs.File.
func (pebbleFile) Preallocate(_, _ int64) error { return nil }

// Prefetch implements vfs.File.
func (pebbleFile) Prefetch(_, _ int64) error { return nil }

// SyncTo implements vfs.File: it promises nothing, and does nothing.
func (pebbleFile) SyncTo(int64) (bool, error) { return false, nil }

// SyncData implements vfs.File.
func (f pebbleFile) SyncData() error { return f.Sync() }

// Fd implements vfs.File.
func (pebbleFile) Fd() uintptr { return vfs.InvalidFd }

// Stat implements vfs.File.
func (f pebbleFile) Stat() (vfs.FileInfo, error) {
	unlock, err := f.open("stat", false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return memInfo{f.node.info(path.Base(f.name))}, nil
}

// memInfo is an Info as Pebble wants it.
type memInfo struct{ Info }

// Name implements fs.FileInfo.
func (i memInfo) Name() string { return i.Info.Name }

// Size implements fs.FileInfo.
func (i memInfo) Size() int64 { return i.Info.Size }

// IsDir implements fs.FileInfo.
func (i memInfo) IsDir() bool { return i.Info.IsDir }

// Mode implements fs.FileInfo.
func (i memInfo) Mode() fs.FileMode {
	if i.Info.IsDir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// ModTime implements fs.FileInfo: a Mem has no clock.
func (memInfo) ModTime() time.Time { return time.Time{} }

// Sys implements fs.FileInfo.
func (memInfo) Sys() any { return nil }

// DeviceID implements vfs.FileInfo.
func (memInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
