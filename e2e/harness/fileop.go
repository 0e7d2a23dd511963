package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"syscall"
)

// Kinds of FileOp.
const (
	ReadFile  = "read"
	ReadDir   = "list"
	Create    = "create"    // O_EXCL
	Overwrite = "overwrite" // created if not there
	Append    = "append"
	Truncate  = "truncate"
	Rename    = "rename"
	Remove    = "remove"
)

// FileOp is an operation on a file of a mount, from open to close.
type FileOp struct {
	Kind     string
	Path, To string // To: of Rename
	Data     []byte // to write
	Size     int64  // of Truncate
	Sync     bool   // fsync what was written
}

// FileResult is what came of it.
type FileResult struct {
	Errno syscall.Errno // 0: done
	Error string
	Data  []byte   // read
	Names []string // listed
}

// Err is nil or the error, whose cause is an errno.
func (r FileResult) Err() error {
	if r.Errno == 0 {
		return nil
	}
	return &os.PathError{Op: "mount", Path: r.Error, Err: r.Errno}
}

// Do carries the operation out below dir.
func (o FileOp) Do(dir string) FileResult {
	var r FileResult
	err := o.do(dir, &r)
	if err != nil {
		r.Errno, r.Error = syscall.EIO, err.Error()
		errors.As(err, &r.Errno)
	}
	return r
}

func (o FileOp) do(dir string, r *FileResult) (err error) {
	p := filepath.Join(dir, o.Path)
	switch o.Kind {
	case ReadFile:
		r.Data, err = os.ReadFile(p)
		return err
	case ReadDir:
		list, err := os.ReadDir(p)
		for _, e := range list {
			r.Names = append(r.Names, e.Name())
		}
		return err
	case Create:
		return o.write(p, os.O_CREATE|os.O_EXCL)
	case Overwrite:
		return o.write(p, os.O_CREATE|os.O_TRUNC)
	case Append:
		return o.write(p, os.O_APPEND)
	case Truncate:
		return os.Truncate(p, o.Size)
	case Rename:
		return os.Rename(p, filepath.Join(dir, o.To))
	case Remove:
		return os.Remove(p)
	}
	return syscall.ENOSYS
}

func (o FileOp) write(p string, flags int) error {
	f, err := os.OpenFile(p, os.O_WRONLY|flags, 0o644)
	if err != nil {
		return err
	}
	n, err := f.Write(o.Data)
	if err == nil && n < len(o.Data) {
		err = io.ErrShortWrite
	}
	if err == nil && o.Sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// guestArg makes a program of tests the guest's side of a Guest.
const guestArg = "-in-guest="

// GuestCall asks a guest for an operation; it is exported for net/rpc.
type GuestCall struct {
	Mount int
	Op    FileOp
}

// files is the guest's side.
type files struct{}

// Do carries the operation out below a mount of the guest.
func (files) Do(call *GuestCall, r *FileResult) error {
	*r = call.Op.Do(fmt.Sprint("/tmp/m", call.Mount))
	return nil
}

// serveGuest works for the one who listens at addr until the connection ends.
func serveGuest(addr string) error {
	s := rpc.NewServer()
	if err := s.RegisterName("Files", files{}); err != nil {
		return err
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	s.ServeConn(c)
	return nil
}
