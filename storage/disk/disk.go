// Package disk is the only door to local files: caches, journals, Raft logs, state and the folder that
// may be a hub's bucket reach the machine's file system through a [Dir], and nothing else does. [OS] is
// the real one. [Mem] is one in memory whose power can be cut, and [Faulty] fails as planned: they are
// for tests.
//
// # Durability
//
// Bytes written are durable after File.Sync, names after Dir.Sync of the directory they are in; a
// directory is as durable as the one it is in once Dir.Dir has made it. What is not synced may be there
// after a power loss or not, each piece for itself. A failed Sync is final: the file's earlier bytes
// may be gone, and the caller must stop (A28).
package disk

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of Dir and File beside io/fs's ErrNotExist and ErrExist.
var (
	ErrLocked  = errors.New("in use by another process")
	ErrNoSpace = errors.New("no space left on device")
	ErrName    = errors.New("not a plain file name")
)

// Mode says how Open opens.
type Mode uint8

// The modes.
const (
	ReadOnly  Mode = iota // must exist
	ReadWrite             // must exist
	Create                // read and write, made if it is not there
	CreateNew             // read and write, must not exist
)

// Info describes an entry of a Dir.
type Info struct {
	Name  string
	Size  int64
	IsDir bool
	Plain bool // a regular file: neither directory, link, device nor FIFO
}

// File is an open file. ReadAt and WriteAt may overlap with anything.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes all that was written, and the size, durable.
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
	// Punch frees the blocks of a range; it reads as zeros after.
	Punch(off, n int64) error
	// Fd is the descriptor for splice and sendfile; ok is false where there is none.
	Fd() (fd uintptr, ok bool)
	io.Closer
}

// Dir is one directory. Names are plain: no separator, not "." or "..".
type Dir interface {
	// Open refuses what is not a regular file, and never follows a link.
	Open(name string, m Mode) (File, error)
	// Rename replaces atomically; durable after Sync.
	Rename(old, name string) error
	// Link gives a file a second name in the directory; ErrExist if the name is taken. Durable after
	// Sync.
	Link(old, name string) error
	Remove(name string) error
	// RemoveAll removes a subdirectory with all it holds; a missing one is success.
	RemoveAll(name string) error
	// List gives the entries, sorted by name.
	List() ([]Info, error)
	Stat(name string) (Info, error)
	// Sync makes the names of this directory durable.
	Sync() error
	// Dir opens a subdirectory, made (mode 0700) if it is not there; its name is durable then.
	Dir(name string) (Dir, error)
	// Lock holds name for this process until closed; ErrLocked if another has it.
	Lock(name string) (io.Closer, error)
	// Usage is the size of the file system and what is free of it, in bytes.
	Usage() (total, free int64, err error)
	// VFS is the same directory as Pebble wants it: a file system and the path in it.
	VFS() (fs vfs.FS, path string)
	// Path is the directory's path in the machine's file system, "" where it has none.
	Path() string
}
