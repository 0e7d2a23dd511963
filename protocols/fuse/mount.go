package fuse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/spokefs/spokefs/fabric"
)

// Config of a mount. WithDefaults fills zero fields.
type Config struct {
	// MaxBackground bounds the kernel's read-ahead and asynchronous requests. Default 256.
	MaxBackground int
	// ReadAheadKiB is the kernel's read-ahead window. Default 1024: few requests for a stream.
	ReadAheadKiB int
	// Debug prints every request to standard error.
	Debug bool
}

// WithDefaults returns c with its zero fields filled.
func (c Config) WithDefaults() Config {
	if c.MaxBackground == 0 {
		c.MaxBackground = 256
	}
	if c.ReadAheadKiB == 0 {
		c.ReadAheadKiB = 1024
	}
	return c
}

// ErrUnavailable says that this machine cannot mount: no /dev/fuse, or no permission.
var ErrUnavailable = errors.New("FUSE is not available here")

// Available says whether this process can mount, and why not.
func Available() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	f.Close()
	if os.Geteuid() != 0 {
		if _, err := exec.LookPath("fusermount3"); err != nil {
			return fmt.Errorf("%w: not root, and no fusermount3", ErrUnavailable)
		}
	}
	return nil
}

// Mount is one portal mounted on one directory.
type Mount struct {
	dir    string
	server *fuse.Server
	files  *files
	stop   func() // watching
	once   sync.Once
}

// New mounts a portal on dir, which must be a directory, and serves it until Unmount. A dead mount
// that an earlier process left there is taken away first (case F8).
func New(cfg Config, portal fabric.Portal, dir string) (*Mount, error) {
	if err := Available(); err != nil {
		return nil, fmt.Errorf("fuse: %w", err)
	}
	cfg = cfg.WithDefaults()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("fuse: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, syscall.ENOTCONN) {
		unix.Unmount(dir, unix.MNT_DETACH)
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("fuse: %s is not a directory: %w", dir, errors.Join(err, syscall.ENOTDIR))
	}
	fs := newFiles(portal)
	root := os.Geteuid() == 0
	server, err := fuse.NewServer(fs, dir, &fuse.MountOptions{
		AllowOther: root, DirectMountStrict: root, DirectMount: root,
		FsName: "spokefs:" + portal.Name(), Name: "spokefs",
		MaxWrite: 1 << 20, MaxReadAhead: 1 << 20, MaxBackground: cfg.MaxBackground,
		DisableSplice: true, Debug: cfg.Debug, Logger: log.New(io.Discard, "", 0),
		ExtraCapabilities: fuse.CAP_DIRECT_IO_ALLOW_MMAP,
	})
	if err != nil {
		return nil, fmt.Errorf("fuse: mount on %s: %w", dir, err)
	}
	m := &Mount{dir: dir, server: server, files: fs}
	fs.server = server
	fs.from, m.stop = portal.Watch(fs)
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		m.Unmount()
		return nil, fmt.Errorf("fuse: mount on %s: %w", dir, err)
	}
	readAhead(dir, cfg.ReadAheadKiB)
	return m, nil
}

// readAhead widens the kernel's window, which a mount starts with at 128 KiB; without permission
// it stays.
func readAhead(dir string, kib int) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return
	}
	bdi := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	os.WriteFile(bdi, []byte(strconv.Itoa(kib)), 0o644)
}

// Dir is where it is mounted.
func (m *Mount) Dir() string { return m.dir }

// Wait returns when the mount has ended, by Unmount or from outside.
func (m *Mount) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() { m.server.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Unmount ends the mount. If processes have files open on it, it is taken out of the tree and ends
// with the last of them.
func (m *Mount) Unmount() error {
	var err error
	m.once.Do(func() {
		m.stop()
		if err = m.server.Unmount(); err == nil {
			return
		}
		if os.Geteuid() == 0 {
			err = unix.Unmount(m.dir, unix.MNT_DETACH)
			return
		}
		err = exec.Command("fusermount3", "-u", "-z", m.dir).Run()
	})
	return err
}
