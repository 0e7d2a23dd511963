package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path"
	"sync"

	"github.com/zeebo/xxh3"
)

// nfsReader reads files as a client does that knows the folders: LOOKUP, then READs. Each worker has a
// connection.
type nfsReader struct {
	idle chan *nfsConn
}

// nfsConn is a connection that sends calls and takes replies in the order it likes.
type nfsConn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	xid  uint32
	dirs *nfsDirs
}

// nfsDirs remembers the handles of folders.
type nfsDirs struct {
	mu      sync.Mutex // guards handles
	handles map[string][]byte
}

// dialNFS mounts an export by the server's MOUNT and connects several times to its NFS.
func dialNFS(ctx context.Context, at *site, nfs, mount, export string, connections int) (*nfsReader, error) {
	m, err := at.dial(ctx, "tcp", mount)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	root, err := (&nfsConn{conn: m, in: bufio.NewReader(m)}).mount(export)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", export, err)
	}
	d := &nfsDirs{handles: map[string][]byte{".": root}}
	r := &nfsReader{idle: make(chan *nfsConn, connections)}
	for range connections {
		c, err := at.dial(ctx, "tcp", nfs)
		if err != nil {
			r.close()
			return nil, err
		}
		r.idle <- &nfsConn{conn: c, in: bufio.NewReaderSize(c, 256<<10), dirs: d}
	}
	return r, nil
}

// The programs, and the procedures that are called.
const (
	programNFS   = 100003
	programMount = 100005
	procMount    = 1
	procLookup   = 3
	procRead     = 6
)

// mount asks for the root of an export.
func (c *nfsConn) mount(export string) ([]byte, error) {
	c.begin(programMount, procMount)
	c.opaque([]byte(export))
	return c.handle()
}

// folder finds the handle of a folder, once.
func (c *nfsConn) folder(p string) ([]byte, error) {
	c.dirs.mu.Lock()
	h := c.dirs.handles[p]
	c.dirs.mu.Unlock()
	if h != nil {
		return h, nil
	}
	h, err := c.lookup(p)
	if err == nil {
		c.dirs.mu.Lock()
		c.dirs.handles[p] = h
		c.dirs.mu.Unlock()
	}
	return h, err
}

func (r *nfsReader) close() {
	for len(r.idle) > 0 {
		c := <-r.idle
		c.conn.Close()
	}
}

func (r *nfsReader) read(_ context.Context, f *file, buf []byte) (n int, err error) {
	c := <-r.idle
	defer func() { r.idle <- c }()
	handle, err := c.lookup(f.path)
	if err != nil {
		return 0, err
	}
	for {
		xid, err := c.sendRead(handle, int64(n), 1<<20)
		if err != nil {
			return n, err
		}
		got, k, eof, err := c.takeRead(buf[n:])
		if err != nil {
			return n, err
		}
		if got != xid {
			return n, fmt.Errorf("nfs: reply to call %d, not %d", got, xid)
		}
		if n += k; eof || k == 0 {
			return n, nil
		}
	}
}

// lookup finds the handle of a path.
func (c *nfsConn) lookup(p string) ([]byte, error) {
	dir, err := c.folder(path.Dir(p))
	if err != nil {
		return nil, err
	}
	c.begin(programNFS, procLookup)
	c.opaque(dir)
	c.opaque([]byte(path.Base(p)))
	h, err := c.handle()
	if err != nil {
		return nil, fmt.Errorf("lookup %s: %w", p, err)
	}
	return h, nil
}

// handle makes a call that is answered with one.
func (c *nfsConn) handle() ([]byte, error) {
	if err := c.send(); err != nil {
		return nil, err
	}
	r, err := c.reply()
	if err != nil {
		return nil, err
	}
	n := int(r.word())
	if n > 64 {
		return nil, fmt.Errorf("nfs: handle of %d bytes", n)
	}
	h := make([]byte, n)
	r.bytes(h)
	return h, r.end()
}

// sendRead sends a READ.
func (c *nfsConn) sendRead(handle []byte, off int64, n int) (xid uint32, err error) {
	c.begin(programNFS, procRead)
	c.opaque(handle)
	c.out = binary.BigEndian.AppendUint64(c.out, uint64(off))
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(n))
	return c.xid, c.send()
}

// takeRead takes the next reply, of a READ, whichever it is.
func (c *nfsConn) takeRead(buf []byte) (xid uint32, n int, eof bool, err error) {
	r, err := c.reply()
	if err != nil {
		return 0, 0, false, err
	}
	if r.word() != 0 {
		r.skip(84) // attributes
	}
	r.word() // count
	eof = r.word() != 0
	n = int(r.word())
	if n > len(buf) {
		return 0, 0, false, fmt.Errorf("nfs: %d bytes for %d", n, len(buf))
	}
	r.bytes(buf[:n])
	return r.xid, n, eof, r.end()
}

// begin begins a call of version 3 as root.
func (c *nfsConn) begin(program, proc uint32) {
	c.xid++
	c.out = append(c.out[:0], 0, 0, 0, 0)
	for _, w := range []uint32{c.xid, 0, 2, program, 3, proc,
		1, 20, 0, 0, 0, 0, 0, // AUTH_UNIX: stamp, machine, uid, gid, groups
		0, 0} {
		c.out = binary.BigEndian.AppendUint32(c.out, w)
	}
}

func (c *nfsConn) opaque(p []byte) {
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(p)))
	c.out = append(append(c.out, p...), make([]byte, -len(p)&3)...)
}

func (c *nfsConn) send() error {
	binary.BigEndian.PutUint32(c.out, 1<<31|uint32(len(c.out)-4))
	_, err := c.conn.Write(c.out)
	return err
}

// reply is one that is being read: past its header, whose statuses were good.
type reply struct {
	in   *bufio.Reader
	left int // of this fragment
	last bool
	xid  uint32
	err  error
}

func (c *nfsConn) reply() (*reply, error) {
	r := &reply{in: c.in}
	r.xid = r.word()
	kind, accepted := r.word(), r.word()
	r.word() // verifier: flavour, and its bytes
	r.skip(int(r.word()+3) &^ 3)
	if done, status := r.word(), r.word(); r.err == nil && kind|accepted|done|status != 1 {
		return nil, fmt.Errorf("nfs: the call failed: %d %d %d, status %d", kind, accepted, done, status)
	}
	return r, r.err
}

// bytes fills p, over fragments.
func (r *reply) bytes(p []byte) {
	for len(p) > 0 && r.err == nil {
		if r.left == 0 {
			var mark [4]byte
			if r.last {
				r.err = io.ErrUnexpectedEOF
				return
			}
			_, r.err = io.ReadFull(r.in, mark[:])
			m := binary.BigEndian.Uint32(mark[:])
			r.left, r.last = int(m&^(1<<31)), m>>31 != 0
			continue
		}
		n := 0
		n, r.err = io.ReadFull(r.in, p[:min(len(p), r.left)])
		p, r.left = p[n:], r.left-n
	}
}

func (r *reply) word() uint32 {
	var w [4]byte
	r.bytes(w[:])
	return binary.BigEndian.Uint32(w[:])
}

func (r *reply) skip(n int) {
	var p [128]byte
	for ; n > 0 && r.err == nil; n -= len(p) {
		r.bytes(p[:min(n, len(p))])
	}
}

// end passes over what is left of the reply.
func (r *reply) end() error {
	for r.err == nil && (r.left > 0 || !r.last) {
		r.skip(max(1, min(r.left, 128)))
	}
	return r.err
}

// stream reads a file from end to end over one connection with depth READs of size bytes under way,
// and holds each against the sums of its pieces.
func (r *nfsReader) stream(f *file, size, depth int, want []uint64) error {
	c := <-r.idle
	defer func() { r.idle <- c }()
	handle, err := c.lookup(f.path)
	if err != nil {
		return err
	}
	at := map[uint32]int{} // calls under way, and their pieces
	buf := make([]byte, size)
	for next, done := 0, 0; done < len(want); {
		for next < len(want) && len(at) < depth {
			xid, err := c.sendRead(handle, int64(next)*int64(size), size)
			if err != nil {
				return err
			}
			at[xid] = next
			next++
		}
		xid, n, _, err := c.takeRead(buf)
		if err != nil {
			return err
		}
		i, ok := at[xid]
		if !ok || xxh3.Hash(buf[:n]) != want[i] {
			return fmt.Errorf("nfs: piece %d of %s is not what was written (%d bytes)", i, f.path, n)
		}
		delete(at, xid)
		done++
	}
	return nil
}
