package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// osDir is a directory of the machine's file system.
type osDir struct{ path string }

// OS opens a directory of the machine's file system, made (mode 0700) with its parents if it is
// not there; the names made are durable.
func OS(path string) (Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := makeAll(path); err != nil {
		return nil, told(err)
	}
	return osDir{path}, nil
}

// makeAll makes a directory and its parents, durably.
func makeAll(path string) error {
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if err := makeAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return osDir{parent}.Sync()
}

// checkName refuses what is not a plain name.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%w: %q", ErrName, name)
	}
	return nil
}

// at is the path of a name in the directory.
func (d osDir) at(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	return filepath.Join(d.path, name), nil
}

// told turns "no space" into ErrNoSpace.
func told(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// Open implements Dir.
func (d osDir) Open(name string, m Mode) (File, error) {
	path, err := d.at(name)
	if err != nil {
		return nil, err
	}
	flags := [...]int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_EXCL}[m]
	// O_NONBLOCK keeps a FIFO that somebody left here from hanging the open.
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, told(err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements Dir.
func (d osDir) Rename(old, name string) error {
	from, err := d.at(old)
	if err != nil {
		return err
	}
	to, err := d.at(name)
	if err != nil {
		return err
	}
	return told(os.Rename(from, to))
}

// Link implements Dir.
func (d osDir) Link(old, name string) error {
	from, err := d.at(old)
	if err != nil {
		return err
	}
	to, err := d.at(name)
	if err != nil {
		return err
	}
	return told(os.Link(from, to))
}

// Remove implements Dir.
func (d osDir) Remove(name string) error {
	path, err := d.at(name)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// RemoveAll implements Dir.
func (d osDir) RemoveAll(name string) error {
	path, err := d.at(name)
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

func infoOf(st fs.FileInfo) Info {
	return Info{Name: st.Name(), Size: st.Size(), IsDir: st.IsDir(), Plain: st.Mode().IsRegular()}
}

// List implements Dir.
func (d osDir) List() ([]Info, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(entries))
	for _, e := range entries {
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, infoOf(st))
	}
	return out, nil
}

// Stat implements Dir.
func (d osDir) Stat(name string) (Info, error) {
	path, err := d.at(name)
	if err != nil {
		return Info{}, err
	}
	st, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	return infoOf(st), nil
}

// Sync implements Dir.
func (d osDir) Sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Dir implements Dir.
func (d osDir) Dir(name string) (Dir, error) {
	path, err := d.at(name)
	if err != nil {
		return nil, err
	}
	switch err := os.Mkdir(path, 0o700); {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return nil, told(err)
	default:
		if err := d.Sync(); err != nil {
			return nil, err
		}
	}
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", path)
	}
	return osDir{path}, nil
}

// Lock implements Dir, by flock: it ends with the process, however that ends.
func (d osDir) Lock(name string) (io.Closer, error) {
	path, err := d.at(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, told(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, path)
		}
		return nil, err
	}
	return f, nil
}

// Usage implements Dir.
func (d osDir) Usage() (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.path, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}

// VFS implements Dir.
func (d osDir) VFS() (vfs.FS, string) { return vfs.Default, d.path }

// Path implements Dir.
func (d osDir) Path() string { return d.path }

// osFile is an open file of the machine.
type osFile struct{ *os.File }

// WriteAt implements File.
func (f osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, told(err)
}

// Sync implements File. A disk that gives room only when it writes says here that there is none.
func (f osFile) Sync() error { return told(unix.Fdatasync(int(f.File.Fd()))) }

// Truncate implements File.
func (f osFile) Truncate(size int64) error { return told(f.File.Truncate(size)) }

// Size implements File.
func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Punch implements File.
func (f osFile) Punch(off, n int64) error {
	return unix.Fallocate(int(f.File.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

// Fd implements File.
func (f osFile) Fd() (uintptr, bool) { return f.File.Fd(), true }
