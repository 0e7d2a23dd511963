// Package nfsclient is a plain NFSv3 client for tests and demonstrations: one connection, one call at
// a time, no cache. It speaks MOUNT and NFS on the same port, as spokefs serves them, and asks no
// portmapper.
package nfsclient

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"
	"github.com/willscott/go-nfs-client/nfs/xdr"
)

// chunk is how much one READ or WRITE carries, bytes; the server's limit is 1 MiB.
const chunk = 1 << 20

// Entry is one name of a directory.
type Entry struct {
	Name string
	Dir  bool
	Size int64 // bytes
	Mode fs.FileMode
	Time time.Time // of the last change of content
}

// Client is one connection. Calls must not overlap.
type Client struct {
	conn *rpc.Client
	fs   *nfs.Target
	auth rpc.Auth
}

// Dial connects to addr ("host:port") and mounts an export ("/portal") as the user of this process.
func Dial(addr, export string) (*Client, error) {
	return DialAs(addr, export, uint32(os.Getuid()), uint32(os.Getgid()))
}

// draws bounds how many ports that turn out to be taken are passed over.
const draws = 100

// DialAs is Dial as another user: NFS believes it.
func DialAs(addr, export string, uid, gid uint32) (*Client, error) {
	conn, err := rpc.DialTCP("tcp", addr, false)
	// The library draws its own port at random, and does not look whether it is free.
	for range draws {
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		conn, err = rpc.DialTCP("tcp", addr, false)
	}
	if err != nil {
		return nil, fmt.Errorf("nfs: %w", err)
	}
	id := rpc.NewAuthUnix("spokefs", uid, gid)
	id.Gids = gid // the library writes exactly one group
	auth := id.Auth()
	target, err := (&nfs.Mount{Client: conn}).Mount(export, auth)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("nfs: mount %s: %w", export, err)
	}
	return &Client{conn: conn, fs: target, auth: auth}, nil
}

// Close ends the connection.
func (c *Client) Close() error {
	c.conn.Close()
	return nil
}

// FS is the library's view, for what this package does not wrap.
func (c *Client) FS() *nfs.Target { return c.fs }

// patience is how often a call is tried again that the server answered with JUKEBOX, a second apart:
// longer than any lease (60 s at the most) may keep a file from others.
const patience = 70

// again makes a call until the server is ready for it. The library knows no JUKEBOX: it is the one
// status that it turns into a bare ErrInvalid.
func again(f func() error) error {
	for range patience {
		if err := f(); err != os.ErrInvalid {
			return err
		}
		time.Sleep(time.Second)
	}
	return f()
}

func wrap(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "nfs " + op, Path: p, Err: err}
}

// List gives a directory's entries in no certain order, without "." and "..".
func (c *Client) List(dir string) ([]Entry, error) {
	var all []*nfs.EntryPlus
	err := again(func() (err error) {
		all, err = c.fs.ReadDirPlus(dir)
		return err
	})
	if err != nil {
		return nil, wrap("list", dir, err)
	}
	out := make([]Entry, 0, len(all))
	for _, e := range all {
		out = append(out, Entry{Name: e.FileName, Dir: e.IsDir(), Size: e.Size(), Mode: e.Mode(), Time: e.ModTime()})
	}
	return out, nil
}

// Read copies a file's content to w.
func (c *Client) Read(p string, w io.Writer) error {
	var f *nfs.File
	err := again(func() (err error) {
		f, err = c.fs.Open(p)
		return err
	})
	if err != nil {
		return wrap("read", p, err)
	}
	buf := make([]byte, chunk)
	for off := int64(0); ; {
		n := 0
		err := again(func() (err error) {
			n, err = f.ReadAt(buf, off)
			return err
		})
		if _, e := w.Write(buf[:n]); e != nil {
			return e
		}
		off += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wrap("read", p, err)
		case n == 0:
			return wrap("read", p, io.ErrNoProgress)
		}
	}
}

// Write makes a file's content what r has, creating it if it is not there, and waits until the
// server has it.
func (c *Client) Write(p string, r io.Reader) error {
	// CREATE with nothing set keeps what is there; the size is cut after.
	var f *nfs.File
	err := again(func() error {
		if _, err := c.fs.Create(p, 0o644); err != nil {
			return err
		}
		var err error
		f, err = c.fs.OpenFile(p, 0o644)
		return err
	})
	if err != nil {
		return wrap("write", p, err)
	}
	if err := c.Truncate(p, 0); err != nil {
		return err
	}
	return fill(f, p, r)
}

// Append writes what r has at a file's end, and waits until the server has it. NFS knows no append:
// others must not do the same meanwhile.
func (c *Client) Append(p string, r io.Reader) error {
	var f *nfs.File
	err := again(func() error {
		info, _, err := c.fs.Lookup(p)
		if err == nil {
			f, err = c.fs.Open(p)
		}
		if err == nil {
			_, err = f.Seek(info.Size(), io.SeekStart)
		}
		return err
	})
	if err != nil {
		return wrap("append", p, err)
	}
	return fill(f, p, r)
}

// fill writes what r has from f's place on, and commits it.
func fill(f *nfs.File, p string, r io.Reader) error {
	buf := make([]byte, chunk)
	for {
		n, err := io.ReadFull(r, buf)
		for rest := buf[:n]; len(rest) > 0; {
			err := again(func() error {
				n, err := f.Write(rest)
				rest = rest[n:]
				return err
			})
			if err != nil {
				return wrap("write", p, err)
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return wrap("write", p, again(f.Close))
		}
		if err != nil {
			return err
		}
	}
}

// Truncate sets a file's size, in bytes.
func (c *Client) Truncate(p string, size uint64) error {
	return wrap("truncate", p, again(func() error {
		_, fh, err := c.fs.Lookup(p)
		if err == nil {
			_, err = c.fs.SetAttr(fh, nfs.Sattr3{Size: nfs.SetSize{SetIt: true, Size: size}})
		}
		return err
	}))
}

// Chmod sets a file's mode bits.
func (c *Client) Chmod(p string, mode uint32) error {
	return wrap("chmod", p, again(func() error {
		_, fh, err := c.fs.Lookup(p)
		if err == nil {
			_, err = c.fs.SetAttr(fh, nfs.Sattr3{Mode: nfs.SetMode{SetIt: true, Mode: mode}})
		}
		return err
	}))
}

// Mkdir makes a directory; its parent must be there.
func (c *Client) Mkdir(p string) error {
	return wrap("mkdir", p, again(func() error {
		_, err := c.fs.Mkdir(strings.TrimSuffix(p, "/"), 0o755)
		return err
	}))
}

// Rename moves a file or directory, over what has the name.
func (c *Client) Rename(old, name string) error {
	return wrap("rename", old, again(func() error { return c.rename(path.Clean(old), path.Clean(name)) }))
}

func (c *Client) rename(old, name string) error {
	_, from, err := c.fs.Lookup(path.Dir(old))
	if err != nil {
		return err
	}
	_, to, err := c.fs.Lookup(path.Dir(name))
	if err != nil {
		return err
	}
	type place struct {
		FH   []byte
		Name string
	}
	type args struct {
		rpc.Header
		From, To place
	}
	return c.call(nfs.NFSProc3Rename, func(h rpc.Header) any {
		return &args{h, place{from, path.Base(old)}, place{to, path.Base(name)}}
	})
}

// Remove removes a file or an empty directory.
func (c *Client) Remove(p string) error {
	return wrap("remove", p, again(func() error {
		info, _, err := c.fs.Lookup(p)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			return c.fs.RmDir(p)
		}
		return c.fs.Remove(p)
	}))
}

// call makes an NFS call whose result is the status alone.
func (c *Client) call(proc uint32, args func(rpc.Header) any) error {
	h := rpc.Header{Rpcvers: 2, Prog: nfs.Nfs3Prog, Vers: nfs.Nfs3Vers, Proc: proc, Cred: c.auth, Verf: rpc.AuthNull}
	res, err := c.conn.Call(args(h))
	if err != nil {
		return err
	}
	status, err := xdr.ReadUint32(res)
	if err != nil {
		return err
	}
	return nfs.NFS3Error(status)
}
