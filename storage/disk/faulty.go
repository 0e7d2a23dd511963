package disk

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"golang.org/x/sys/unix"
)

// Op is what is done to a disk.
type Op uint8

// The operations.
const (
	OpOpen    Op = iota // of a file, which may be made by it
	OpRead              // of bytes
	OpWrite             // of bytes; a longer file is truncated by it, too
	OpSync              // of a file
	OpSyncDir           // of a directory
	OpName              // link, rename, make a directory
	OpRemove            // of names
	OpLook              // list, stat, usage
)

// Changes says whether the disk may be another after op.
func (op Op) Changes() bool { return op != OpRead && op != OpLook }

// Plan is asked before each operation on a disk, and gives the error that it fails with, or nil: an
// errno such as unix.EIO or unix.ENOSPC, which callers see as OS would give it. A write of
// more than one byte that fails with ENOSPC writes the half of it, as a disk does that fills up.
// Calls may overlap.
type Plan func(op Op, name string) error

// Nth fails the n-th operation that changes the disk, counted from 1, and no other.
func Nth(n int64, err error) Plan {
	var count atomic.Int64
	return func(op Op, _ string) error {
		if op.Changes() && count.Add(1) == n {
			return err
		}
		return nil
	}
}

// Full is a disk that can be filled up: while on, nothing that needs room succeeds. Its Plan fits
// Faulty.
type Full struct{ on atomic.Bool }

// Set fills the disk, or makes room.
func (f *Full) Set(full bool) { f.on.Store(full) }

// Plan fails with ENOSPC what writes bytes or makes names. An Open is let through: whether it makes a file is not known.
func (f *Full) Plan(op Op, _ string) error {
	if f.on.Load() && (op == OpWrite || op == OpName) {
		return unix.ENOSPC
	}
	return nil
}

// faulty is a Dir that fails as planned.
type faulty struct {
	next Dir
	plan Plan
}

// Faulty is d with the failures of a plan, for d's subdirectories and its VFS too.
func Faulty(d Dir, p Plan) Dir { return faulty{d, p} }

func (d faulty) fail(op Op, name string) error { return told(d.plan(op, name)) }

// Open implements Dir.
func (d faulty) Open(name string, m Mode) (File, error) {
	if err := d.fail(OpOpen, name); err != nil {
		return nil, err
	}
	f, err := d.next.Open(name, m)
	if err != nil {
		return nil, err
	}
	return faultyFile{f, d, name}, nil
}

// Rename implements Dir.
func (d faulty) Rename(old, name string) error {
	if err := d.fail(OpName, name); err != nil {
		return err
	}
	return d.next.Rename(old, name)
}

// Link implements Dir.
func (d faulty) Link(old, name string) error {
	if err := d.fail(OpName, name); err != nil {
		return err
	}
	return d.next.Link(old, name)
}

// Remove implements Dir.
func (d faulty) Remove(name string) error {
	if err := d.fail(OpRemove, name); err != nil {
		return err
	}
	return d.next.Remove(name)
}

// RemoveAll implements Dir.
func (d faulty) RemoveAll(name string) error {
	if err := d.fail(OpRemove, name); err != nil {
		return err
	}
	return d.next.RemoveAll(name)
}

// List implements Dir.
func (d faulty) List() ([]Info, error) {
	if err := d.fail(OpLook, ""); err != nil {
		return nil, err
	}
	return d.next.List()
}

// Stat implements Dir.
func (d faulty) Stat(name string) (Info, error) {
	if err := d.fail(OpLook, name); err != nil {
		return Info{}, err
	}
	return d.next.Stat(name)
}

// Sync implements Dir.
func (d faulty) Sync() error {
	if err := d.fail(OpSyncDir, ""); err != nil {
		return err
	}
	return d.next.Sync()
}

// Dir implements Dir.
func (d faulty) Dir(name string) (Dir, error) {
	if _, err := d.next.Stat(name); err != nil {
		if err := d.fail(OpName, name); err != nil {
			return nil, err
		}
	}
	next, err := d.next.Dir(name)
	if err != nil {
		return nil, err
	}
	return faulty{next, d.plan}, nil
}

// Lock implements Dir.
func (d faulty) Lock(name string) (io.Closer, error) { return d.next.Lock(name) }

// Usage implements Dir.
func (d faulty) Usage() (total, free int64, err error) {
	if err := d.fail(OpLook, ""); err != nil {
		return 0, 0, err
	}
	return d.next.Usage()
}

// VFS implements Dir.
func (d faulty) VFS() (vfs.FS, string) {
	fs, path := d.next.VFS()
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(o errorfs.Op) error {
		op, ok := vfsOps[o.Kind]
		if !ok {
			return nil
		}
		return d.plan(op, fs.PathBase(o.Path))
	})), path
}

// vfsOps says what Pebble's operations are; what is missing never fails.
var vfsOps = map[errorfs.OpKind]Op{
	errorfs.OpCreate: OpOpen, errorfs.OpOpen: OpOpen, errorfs.OpReuseForWrite: OpOpen,
	errorfs.OpLink: OpName, errorfs.OpRename: OpName, errorfs.OpMkdirAll: OpName,
	errorfs.OpRemove: OpRemove, errorfs.OpRemoveAll: OpRemove,
	errorfs.OpList: OpLook, errorfs.OpStat: OpLook, errorfs.OpGetDiskUsage: OpLook,
	errorfs.OpFileRead: OpRead, errorfs.OpFileReadAt: OpRead,
	errorfs.OpFileWrite: OpWrite, errorfs.OpFileWriteAt: OpWrite,
	errorfs.OpFileSync: OpSync, errorfs.OpFileSyncData: OpSync,
}

// Path implements Dir.
func (d faulty) Path() string { return d.next.Path() }

// faultyFile is a File that fails as planned.
type faultyFile struct {
	File
	dir  faulty
	name string
}

// ReadAt implements File.
func (f faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.dir.fail(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// WriteAt implements File.
func (f faultyFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.dir.fail(OpWrite, f.name)
	if errors.Is(err, ErrNoSpace) {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	if err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// Sync implements File.
func (f faultyFile) Sync() error {
	if err := f.dir.fail(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

// Truncate implements File: a shorter file needs no room.
func (f faultyFile) Truncate(size int64) error {
	if old, err := f.Size(); err != nil {
		return err
	} else if size > old {
		if err := f.dir.fail(OpWrite, f.name); err != nil {
			return err
		}
	}
	return f.File.Truncate(size)
}

// Fd implements File: reads must come this way.
func (f faultyFile) Fd() (uintptr, bool) { return 0, false }
